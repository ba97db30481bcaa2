"""What a change must leave and tell: by rows in memory, and in a share of the histories by Delta too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from support.row_changes.copy import REFUSALS, Rows

T = TypeVar("T")


class Difference(AssertionError):
    """What a table and its copy do not have in common."""


@dataclass
class Judge:
    """The rows that a table must have; `twin`: the path of a Delta table with them, if there is one."""

    rows: Rows
    twin: str | None

    def delete(self, condition: str) -> tuple[int, ...]:
        """Delete the rows of a condition; return how many."""
        statement = f"DELETE FROM delta.`{self.twin}` WHERE {condition}"
        return self._both(
            lambda: self.rows.delete(condition),
            lambda: _told(self.rows.spark.sql(statement).first(), "num_deleted_rows"),
        )

    def delete_keys(self, names: Sequence[str], keys: Any) -> tuple[int, ...]:
        """Delete the rows of the keys of a frame; return how many."""
        merge = (
            f"MERGE INTO delta.`{self.twin}` t USING {{keys}} s ON {_same(names)} WHEN MATCHED THEN DELETE"
        )
        return self._both(
            lambda: self.rows.delete_keys(names, keys.toArrow()),
            lambda: _told(self.rows.spark.sql(merge, keys=keys.dropDuplicates()).first(), "num_deleted_rows"),
        )

    def upsert(self, names: Sequence[str], source: Any, chosen: Sequence[str] | None) -> tuple[int, ...]:
        """Update and insert the rows of a frame; return how many of each."""
        update, insert = "*", "*"
        if chosen is not None or "g" in self.rows.table.column_names:
            # Delta takes no * where the source lacks a generated column.
            named = source.columns if chosen is None else chosen
            update = ", ".join(f"t.`{name}` = s.`{name}`" for name in named)
            every = [f"`{name}`" for name in source.columns]
            insert = f"({', '.join(every)}) VALUES ({', '.join(f's.{name}' for name in every)})"
        merge = (
            f"MERGE INTO delta.`{self.twin}` t USING {{rows}} s ON {_same(names)}"
            f" WHEN MATCHED THEN UPDATE SET {update} WHEN NOT MATCHED THEN INSERT {insert}"
        )
        return self._both(
            lambda: self.rows.upsert(names, source.toArrow(), chosen),
            lambda: _told(
                self.rows.spark.sql(merge, rows=source).first(), "num_updated_rows", "num_inserted_rows"
            ),
        )

    def run(self, statement: str) -> bool:
        """Carry out a statement in which THIS_TABLE stands for the table; False if it is refused."""
        named = statement.replace("THIS_TABLE", f"delta.`{self.twin}`")
        try:
            self._both(lambda: self.rows.run(statement), lambda: self.rows.spark.sql(named))
        except REFUSALS:
            return False
        return True

    def _both(self, ours: Callable[[], T], deltas: Callable[[], T]) -> T:
        """Return what both say; a refusal of both is that of the rows in memory."""
        said, before = _said(ours), self.rows.table
        if self.twin is not None:
            theirs = _said(deltas)
            agree = isinstance(said, Exception) == isinstance(theirs, Exception)
            if not agree or (isinstance(said, tuple) and said != theirs):
                self.rows.table = before
                raise Difference(f"the rows in memory: {said}, the copy in Delta: {theirs}")
        if isinstance(said, Exception):
            raise said
        return said


def _said(act: Callable[[], T]) -> T | Exception:
    try:
        return act()
    except REFUSALS as refusal:
        return refusal


def _same(names: Sequence[str]) -> str:
    return " AND ".join(f"t.`{name}` = s.`{name}`" for name in names)


def _told(row: Any, *names: str) -> tuple[int, ...]:
    return tuple(row[name] if name in row.__fields__ else row["num_affected_rows"] for name in names)


def of_table(spark: Any, path: str, constrained: bool, partition: str | None, twin: str | None) -> Judge:
    """Return the judge of a table as it is now; `partition`: the name of its partition column."""
    table: pa.Table = spark.read.format("delta").load(path).toArrow()
    return Judge(Rows(spark, table, constrained, partition), twin)
