"""Update the rows of keys and insert those that are new, in one commit: no data file is read for it.

MERGE scans and joins the table to find the rows that it updates. Here the index says where the rows of the
keys lie, at any lag; deletion vectors hide them, and the rows of the source are appended by Delta's own
writer, which checks constraints and computes generated columns. Where this might differ from Delta's MERGE,
Delta's own statement is run, and the result says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tailbit.arguments.key_tables import check_distinct, table_of_library
from tailbit.arguments.values import names, text
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import StaleIndexError, TailbitError, UsageError
from tailbit.base.faults import Fault, fault_point
from tailbit.base.once import once
from tailbit.base.wording import quoted
from tailbit.spark.session import session_zone
from tailbit.spark.writing.target import (
    REPLAYED,
    LocatedRows,
    Target,
    column_name,
    packed,
    places_of_keys,
    refusals_named,
    with_hidden,
)
from tailbit.tables.schema import name_parts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_SAME = "target.{0} = source.{0}"
"""Comparison of a column with the same column of the source, or its assignment, in a statement."""


@dataclass(frozen=True)
class Upsert:
    """What an upsert did, or would do.

    `version`: the committed version; None if nothing was committed. `updated` and `inserted`: how many rows;
    `files`: in how many data files the updated rows lay; None if only Delta knows. `by`: "index", or "delta"
    where Delta's own MERGE is run; `reason`: why that is.
    """

    version: int | None
    updated: int | None
    inserted: int | None
    files: int | None
    by: str
    reason: str | None = None


@dataclass(frozen=True, eq=False)
class Upserting:
    """An upsert of the rows of a frame by key columns, which are named as in the frame.

    `set`: what is updated, as an UPDATE SET writes it; None for all columns.
    """

    target: Target
    source: DataFrame
    on: Sequence[str]
    set: str | None

    def run(self, dry: bool) -> Upsert:
        """Update and insert the rows, or return what a run would do.

        Raises:
            UsageError: a key is NULL, or stands twice in the source; the source lacks a column of the table.
            StaleIndexError: the index lags more than it may.
            pyspark.errors.PySparkException: Delta or Spark refuses, as for a MERGE.
        """
        changes = self.target.begin()
        if self.target.is_replayed(changes):
            return Upsert(None, 0, 0, 0, "index", REPLAYED)
        self._check_columns(changes)
        if not dry:
            changes.prepare()
        reason = self.target.obstacle(changes) or self._obstacle(changes)
        if reason is not None:
            self._check_keys(self._keys(self.source))
            return self._by_delta(reason, dry)
        keys = self._keys(self._rows)
        self._check_keys(keys)
        try:
            table, version = self.target.opened(changes), changes.version()
            names, zone = [quoted(name) for name in self.on], session_zone(self.target.spark)
            located = table.locate(keys.rename_columns(names), on=names, version=version, zone=zone)
            rows = with_hidden(places_of_keys(located), table.where(version=version))
        except (UsageError, StaleIndexError):
            raise
        except TailbitError as error:
            return self._by_delta(str(error), dry)
        fault_point(Fault.ROWS_LOCATED)
        if len(located) > len(keys):
            return self._by_delta("a key stands in several rows of the table", dry)
        return self._upserted(changes, rows, len(keys), dry)

    def _upserted(self, changes: Any, located: LocatedRows, keys: int, dry: bool) -> Upsert:
        rows, hidden = located
        updated = sum(map(len, rows.values()))
        upsert = Upsert(None, updated, keys - updated, len(rows), "index")
        if dry or not (keys or self.target.application):
            return upsert
        if not changes.delete(packed(rows, hidden)):
            return self._by_delta("the log does not say how many rows its files have", dry)
        fault_point(Fault.VECTORS_WRITTEN)
        if keys:
            with refusals_named():
                changes.append(self._rows._jdf)
        fault_point(Fault.ROWS_APPENDED)
        description = f"{', '.join(self.on)} in {keys} keys"
        version = changes.commitUpsert(description, keys - updated, *self.target.transaction)
        fault_point(Fault.CHANGE_COMMITTED)
        self.target.refresh()
        return replace(upsert, version=version)

    def _check_columns(self, changes: Any) -> None:
        """Check that the source has all columns of the table but generated ones, unless some are named."""
        computed = {*changes.generated()}
        lacking = [name for name in self._lacking if name not in computed]
        if lacking and self.set is None:
            raise UsageError(
                reason=f"the source has no column {lacking[0]}, which the table has",
                hint="Give every column of the table, or name the columns that are updated: set=[...].",
            )

    @once
    def _lacking(self) -> list[str]:
        given = {name.lower() for name in self.source.columns}
        return [name for name in self.target.frame.columns if name.lower() not in given]

    def _obstacle(self, changes: Any) -> str | None:
        """Return why the rows of the source are not whole rows of the table; None if they are."""
        from pyspark.sql.types import DecimalType, FractionalType, IntegralType

        if self.set is not None:
            return "some columns are updated: the others must be read"
        for name in self.on:
            frames = (self.source, self.target.frame)
            given_type, kept_type = (frame.select(quoted(name)).schema[0].dataType for frame in frames)
            whole = isinstance(given_type, IntegralType) and isinstance(kept_type, IntegralType)
            if given_type != kept_type and not whole:
                return f"key {name} of the source is of another type: a cast might make it another key"
            if isinstance(kept_type, FractionalType) and not isinstance(kept_type, DecimalType):
                return f"key {name} is a floating-point number: 0.0 and -0.0 are one key"
        reason: str | None = changes.obstacleToAppend(self.source._jdf)
        return reason

    @once
    def _rows(self) -> DataFrame:
        """Return the rows of the source as those of the table, computed once: keys and rows must agree."""
        columns = [
            self.source[quoted(field.name)].cast(field.dataType).alias(field.name)
            for field in self.target.frame.schema
            if field.name not in self._lacking
        ]
        return self.source.select(*columns).localCheckpoint()

    def _keys(self, rows: DataFrame) -> pa.Table:
        return rows.select(*map(quoted, self.on)).toArrow()

    def _check_keys(self, keys: pa.Table) -> None:
        """Check that no key is NULL and none stands twice."""
        for name, column in zip(self.on, keys.columns, strict=True):
            if column.null_count:
                raise UsageError(
                    reason=f"a key of the source has NULL in {name}, and no value equals NULL",
                    hint="Leave such rows out, or insert them by themselves.",
                )
        distinct = _distinct(keys)
        if distinct < len(keys):
            raise UsageError(
                reason=f"the source has {len(keys)} rows and {distinct} keys: a key stands twice",
                hint="Keep one row of each key, such as the newest.",
            )

    def _by_delta(self, reason: str, dry: bool) -> Upsert:
        """Run MERGE; a dry run does not, and so knows no numbers of rows and files."""
        if dry:
            return Upsert(None, None, None, None, "delta", reason)
        row, version = self.target.by_delta(self._statement(), self.source)
        updated, inserted = row.getAs("num_updated_rows"), row.getAs("num_inserted_rows")
        return Upsert(version, updated, inserted, None, "delta", reason)

    def _statement(self) -> str:
        same = " AND ".join(_SAME.format(quoted(name)) for name in self.on)
        update, insert = "*", "*"
        if self.set is not None or self._lacking:
            columns = {name.lower() for name in self.target.frame.columns}
            every = [quoted(name) for name in self.source.columns if name.lower() in columns]
            update = self.set or ", ".join(map(_SAME.format, every))
            insert = f"({', '.join(every)}) VALUES ({', '.join(f'source.{name}' for name in every)})"
        return (
            f"MERGE INTO {self.target.name} target USING {self.target.view} source ON {same}"
            f" WHEN MATCHED THEN UPDATE SET {update} WHEN NOT MATCHED THEN INSERT {insert}"
        )


def _distinct(keys: pa.Table) -> int:
    """Return the number of distinct keys, also for types that Arrow cannot group but MERGE may accept."""
    try:
        return len(keys.group_by(keys.column_names).aggregate([]))
    except pa.ArrowNotImplementedError:
        return len({repr(row) for row in keys.to_pylist()})


def upsert_of(
    target: Target, source: Any, on: str | Iterable[str], set: str | Iterable[str] | Mapping[str, str] | None
) -> Upserting:
    """Return an upsert of checked arguments (see `tailbit.spark.upsert`)."""
    key_names = [on] if isinstance(on, str) else names("on", on)
    if not key_names:
        raise UsageError(reason="no key column is named", hint="Name the columns of the key: on=...")
    check_distinct(key_names)
    frame = source if hasattr(source, "toArrow") else _frame(target, source)
    return Upserting(target, frame, [_column_of(frame, name) for name in key_names], _assignments(frame, set))


def _column_of(source: DataFrame, name: str) -> str:
    """Return a column of the source by its name, which may stand between backticks."""
    given, path = {column.lower() for column in source.columns}, name_parts(name)
    plain = path[0] if len(path) == 1 and name.lower() not in given else name
    if plain.lower() not in given:
        raise UsageError(
            reason=f"the source has no column {name}: it has {', '.join(source.columns)}",
            hint="Name columns that both the source and the table have.",
        )
    return plain


def _assignments(source: DataFrame, given: str | Iterable[str] | Mapping[str, str] | None) -> str | None:
    """Return what follows UPDATE SET: columns, each set to that of the source, or to an expression."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        set_ = [f"target.{column_name(name)} = {text(name, value)}" for name, value in given.items()]
    else:
        listed = [given] if isinstance(given, str) else names("set", given)
        set_ = [_SAME.format(quoted(_column_of(source, name))) for name in listed]
    if not set_:
        raise UsageError(
            reason="set names no column to update", hint="Name one, or leave set out: all are updated."
        )
    return ", ".join(set_)


def _frame(target: Target, source: Any) -> DataFrame:
    """Return rows of any library as a frame; a list without rows has all columns of the table."""
    if isinstance(source, list) and not source:
        return target.frame.limit(0)
    return target.frame_of(_table(source))


def _table(source: Any) -> pa.Table:
    """Return rows of any library as an Arrow table."""
    table = table_of_library(source)
    if table is not None:
        return table
    if isinstance(source, list) and all(isinstance(row, Mapping) for row in source):
        fields = list(dict.fromkeys(name for row in source for name in row))
        lacking = next((name for row in source for name in fields if name not in row), None)
        if lacking is not None:
            raise UsageError(
                reason=f"some rows of the source have a field {lacking}, and others have none",
                hint="Give each row all fields, None where it has no value.",
            )
        return pa.table({name: [row[name] for row in source] for name in fields})
    raise UsageError(
        reason=f"source is of type {type(source).__name__}",
        hint="Give a Spark DataFrame, a table of pyarrow, polars, pandas or DuckDB, or a list of dicts.",
    )
