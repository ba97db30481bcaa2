"""The copy of a changed table: its rows in memory, changed as SQL says, and now and then a Delta table too.

Delta's own statements on a second table are several more jobs and commits for each change. So the rows that a
table must have are kept in memory: Spark says which rows a condition selects, and what MERGE, UPDATE and
INSERT make of them is written out here. In a share of the histories a copy in Delta goes through the same by
Delta's own statements; what both tell and leave must be the same.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

MOST = 1000
"""What the constraint of a table allows its column `n` to be less than."""

_INT = 2**31 - 1
_TYPES = {"INT": pa.int32(), "STRING": pa.string(), "DATE": pa.date32(), "DOUBLE": pa.float64()}
_FORMS = {
    "insert": re.compile(r"INSERT INTO THIS_TABLE \(.*?\) (SELECT .*)", re.DOTALL),
    "update": re.compile(r"UPDATE THIS_TABLE SET n = (2|n \+ 1) WHERE (.*)", re.DOTALL),
    "delete": re.compile(r"DELETE FROM THIS_TABLE WHERE (.*)", re.DOTALL),
    "add": re.compile(r"ALTER TABLE THIS_TABLE ADD COLUMN (\w+) (\w+)"),
    "rename": re.compile(r"ALTER TABLE THIS_TABLE RENAME COLUMN (\w+) TO (\w+)"),
    "drop": re.compile(r"ALTER TABLE THIS_TABLE DROP COLUMN (\w+)"),
}


class Refused(Exception):
    """What Delta refuses of a change: a constraint is broken, or a number too large."""


REFUSALS = (PySparkException, Py4JError, Refused)
"""How Delta, Spark and the rows in memory refuse."""


@dataclass
class Rows:
    """The rows that a table must have; `constrained`: `n` must be less than `MOST`.

    `partition`: the name of the partition column; there an empty text is NULL to Delta.
    """

    spark: Any
    table: pa.Table
    constrained: bool
    partition: str | None

    def selected(self, condition: str) -> list[bool]:
        """Return which rows a condition selects, as Spark evaluates it."""
        if not len(self.table):
            return []
        frame = self.spark.createDataFrame(self.table)
        return [bool(row[0]) for row in frame.selectExpr(f"coalesce(({condition}), false)").collect()]

    def delete(self, condition: str) -> tuple[int]:
        """Delete the rows of a condition; return how many."""
        return self._keep([not each for each in self.selected(condition)])

    def delete_keys(self, names: Sequence[str], keys: pa.Table) -> tuple[int]:
        """Delete the rows of some keys; return how many."""
        gone = {*_keys(keys, names)}
        return self._keep([key is None or key not in gone for key in _keys(self.table, names)])

    def _keep(self, kept: list[bool]) -> tuple[int]:
        self.table = self.table.filter(pa.array(kept, pa.bool_()))
        return (len(kept) - sum(kept),)

    def upsert(self, names: Sequence[str], source: pa.Table, chosen: Sequence[str] | None) -> tuple[int, int]:
        """Update the chosen columns of the rows of keys, and insert other rows; return how many of each."""
        given: dict[Any, list[dict[str, Any]]] = {}
        for key, row in zip(_keys(source, names), source.to_pylist(), strict=True):
            given.setdefault(key, []).append(row)
        rows, updated, met = self.table.to_pylist(), 0, set[Any]()
        for row, key in zip(rows, _keys(self.table, names), strict=True):
            if key is not None and key in given:
                if len(given[key]) > 1:
                    raise Refused(f"{key} stands twice in the source")
                new = given[key][0]
                row |= {name: new[name] for name in (new if chosen is None else chosen)}
                self._write(row)
                updated += 1
                met.add(key)
        added = [row for key, new_rows in given.items() if key not in met for row in new_rows]
        self._replace([*rows, *map(self._write, added)])
        return updated, len(added)

    def run(self, statement: str) -> None:
        """Carry out a statement of another writer.

        Raises:
            Refused: Delta refuses it.
        """
        form, match = next((name, m) for name, form in _FORMS.items() if (m := form.match(statement)))
        if form == "insert":
            self._replace(
                [
                    *self.table.to_pylist(),
                    *map(self._write, self.spark.sql(match[1]).toArrow().to_pylist()),
                ]
            )
        elif form == "update":
            self._update(match[1], self.selected(match[2]))
        elif form == "delete":
            self.delete(match[1])
        elif form == "add":
            cells = pa.nulls(len(self.table), _TYPES[match[2]])
            self.table = self.table.append_column(match[1], cells)
        elif form == "rename":
            names = [match[2] if name == match[1] else name for name in self.table.column_names]
            self.table = self.table.rename_columns(names)
        elif form == "drop":
            self.table = self.table.drop_columns([match[1]])

    def _update(self, value: str, selected: list[bool]) -> None:
        rows = self.table.to_pylist()
        for row, is_meant in zip(rows, selected, strict=True):
            if is_meant:
                row["n"] = 2 if value == "2" else row["n"] + 1
                self._write(row)
        self._replace(rows)

    def _write(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return a row as Delta writes it, with its generated column.

        Raises:
            Refused: the row breaks a constraint, or a number overflows.
        """
        if row["n"] > _INT or (self.constrained and row["n"] >= MOST):
            raise Refused(f"n is {row['n']}")
        if self.partition is not None and row[self.partition] == "":
            row[self.partition] = None
        if "g" in self.table.column_names:
            # The remainder has the sign of the dividend in SQL.
            row["g"] = abs(row["n"]) % 3 * (1 if row["n"] >= 0 else -1)
        return row

    def _replace(self, rows: list[dict[str, Any]]) -> None:
        self.table = pa.Table.from_pylist(rows, schema=self.table.schema)


def _keys(table: pa.Table, names: Sequence[str]) -> list[tuple[Any, ...] | None]:
    """Return keys as SQL compares them, None where a part is NULL."""
    cells = zip(*(table[name].to_pylist() for name in names), strict=True)
    return [None if None in key else tuple(map(_comparable, key)) for key in cells]


def _comparable(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        # The zone of the session is UTC, in which a time with a zone and one without are compared.
        return value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return value


def told(table: pa.Table) -> list[str]:
    """Return rows as texts, sorted, with the names of their columns."""
    columns = table.to_pydict()
    names = sorted(columns)
    cells = zip(*(columns[name] for name in names), strict=True)
    return sorted(repr([*zip(names, row, strict=True)]) for row in cells)
