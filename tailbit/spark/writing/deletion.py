"""Delete the rows of a condition or of keys: the index says where the rows lie, deletion vectors hide them.

Delta's DELETE reads every file that statistics do not exclude. Here no data file is read that the index
covers, and the commit is one transaction of Delta's own, with its detection of conflicts. Where an answer of
the index might differ from Delta's DELETE, Delta's own statement is run, and the result says why.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tailbit.api import IndexedTable
from tailbit.arguments.conditions import Condition, condition_text
from tailbit.arguments.key_tables import key_table
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import StaleIndexError, TailbitError, UnknownColumnError, UsageError
from tailbit.base.faults import Fault, fault_point
from tailbit.base.once import once
from tailbit.base.wording import quoted
from tailbit.index.values.given_keys import check_no_null
from tailbit.spark.session import session_zone
from tailbit.spark.writing.target import (
    REPLAYED,
    LocatedRows,
    Target,
    column_name,
    packed,
    places_of_answer,
    places_of_keys,
    retention_of,
    with_hidden,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Deletion:
    """What a deletion did, or would do.

    `version`: the committed version; None if nothing was committed. `rows`: how many rows are deleted, and
    `files`: in how many data files they lie; None if only Delta knows. `by`: "index", or "delta" where
    Delta's own statement is run; `reason`: why that is. `retention`: how long VACUUM keeps a file that the
    table does not name any more.
    """

    version: int | None
    rows: int | None
    files: int | None
    by: str
    reason: str | None = None
    retention: datetime.timedelta | None = None


@dataclass(frozen=True, eq=False)
class Deleting:
    """A deletion from a table: of the rows of a condition, or of keys with the names of their columns."""

    target: Target
    condition: str | None
    keys: tuple[list[str], pa.Table] | None

    def run(self, dry: bool) -> Deletion:
        """Delete the rows, or return what a run would do.

        Raises:
            UsageError: the keys do not fit the columns of the table.
            StaleIndexError: the index lags more than it may.
            pyspark.errors.PySparkException: Delta or Spark refuses, as for a DELETE.
        """
        changes = self.target.begin()
        return replace(self._run(changes, dry), retention=retention_of(changes))

    def _run(self, changes: Any, dry: bool) -> Deletion:
        if self.target.is_replayed(changes):
            return Deletion(None, 0, 0, "index", REPLAYED)
        if not dry:
            changes.prepare()
        located, reason = self._rows_to_delete(changes)
        fault_point(Fault.ROWS_LOCATED)
        if located is None:
            return self._by_delta(reason, dry)
        rows, hidden = located
        deletion = Deletion(None, sum(map(len, rows.values())), len(rows), "index")
        if dry or not (rows or self.target.application):
            return deletion
        if not changes.delete(packed(rows, hidden)):
            return self._by_delta("the log does not say how many rows its files have", dry)
        fault_point(Fault.VECTORS_WRITTEN)
        version = self._committed(changes)
        fault_point(Fault.CHANGE_COMMITTED)
        self.target.refresh()
        return replace(deletion, version=version)

    def _committed(self, changes: Any) -> int:
        if self.keys is None:
            return int(changes.commitDelete(self._rows._jdf, *self.target.transaction))
        description = f"{', '.join(self.keys[0])} in {self.keys[1].num_rows} keys"
        return int(changes.commitDeleteOfKeys(description, *self.target.transaction))

    @once
    def _rows(self) -> DataFrame:
        assert self.condition is not None
        return self.target.frame.where(self.condition)

    def _rows_to_delete(self, changes: Any) -> tuple[LocatedRows | None, str | None]:
        """Return where the rows lie; None, and the reason, if Delta is to find them."""
        if self.keys is not None:
            for name, values in zip(self.keys[0], self.keys[1].columns, strict=True):
                check_no_null(name, values)
        reason = self.target.obstacle(changes)
        if reason is None and self.keys is None:
            reason = changes.obstacle(self._rows._jdf) or self._ambiguity()
        if reason is not None:
            return None, reason
        try:
            return self._located(self.target.opened(changes), changes.version()), None
        except UsageError as wrong:
            is_unknown = isinstance(wrong, UnknownColumnError)
            if self.keys is not None and (is_unknown or not self._numbers_differ()):
                raise
            return None, str(wrong)
        except StaleIndexError:
            raise
        except TailbitError as error:
            return None, str(error)

    def _numbers_differ(self) -> bool:
        """Return whether keys are numbers of another kind than their column, which may not hold them."""
        from pyspark.sql.types import IntegralType, NumericType

        assert self.keys is not None
        columns, keys = self.keys
        for name, given in zip(columns, keys.schema.types, strict=True):
            stored = self.target.frame.select(column_name(name)).schema[0].dataType
            is_whole = pa.types.is_integer(given)
            is_number = is_whole or pa.types.is_floating(given) or pa.types.is_decimal(given)
            if (
                is_number
                and isinstance(stored, NumericType)
                and not (is_whole and isinstance(stored, IntegralType))
            ):
                return True
        return False

    def _ambiguity(self) -> str | None:
        """Return why a dotted name of the condition may be a field to the index, a column to Spark."""
        database = self.target.spark.catalog.currentDatabase().lower()
        qualifiers = {"spark_catalog", database, *re.split("[.`]", self.target.name.lower())}
        named = [name for name in self._rows.columns if name.lower() in qualifiers]
        return f"column {named[0]} is named as the table or its database" if named else None

    def _located(self, table: IndexedTable, version: int) -> LocatedRows:
        zone = session_zone(self.target.spark)
        if self.keys is None:
            answer = table.where(self.condition, version=version, zone=zone)
            return with_hidden(places_of_answer(answer), answer)
        columns, keys = self.keys
        answer = table.where(version=version, zone=zone)
        return with_hidden(places_of_keys(table._located(columns, keys.select(columns), answer)), answer)

    def _by_delta(self, reason: str | None, dry: bool) -> Deletion:
        """Run Delta's own statement; a dry run does not, and so knows no numbers of rows and files."""
        if dry:
            return Deletion(None, None, None, "delta", reason)
        row, version = self.target.by_delta(*self._statement())
        rows = row.getAs("num_affected_rows" if self.keys is None else "num_deleted_rows")
        return Deletion(version, rows, None, "delta", reason)

    def _statement(self) -> tuple[str, DataFrame | None]:
        """Return DELETE, or for keys a MERGE that deletes the rows whose columns equal those of a key."""
        table = self.target.name
        if self.keys is None:
            return f"DELETE FROM {table} WHERE {self.condition}", None
        columns, keys = self.keys
        same = " AND ".join(f"target.{column_name(name)} = given.{quoted(name)}" for name in columns)
        statement = (
            f"MERGE INTO {table} target USING {self.target.view} given ON {same} WHEN MATCHED THEN DELETE"
        )
        return statement, self.target.frame_of(keys).dropDuplicates()


def deletion_of(target: Target, rows: Any, on: str | Iterable[str] | None) -> Deleting:
    """Return a deletion of checked arguments (see `tailbit.spark.delete`)."""
    if not isinstance(rows, (str, Condition)):
        return Deleting(target, None, key_table(rows, on))
    if on is not None:
        raise UsageError(
            reason="key columns are named beside a condition",
            hint="Give keys as a list or a table, or leave out on=...",
        )
    return Deleting(target, condition_text("rows", rows), None)
