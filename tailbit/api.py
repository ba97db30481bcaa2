"""The front door: open a table with its index, and ask.

`open_indexed` (as `tailbit.open`) pins no version; each `where` binds an `Answer` to one. Neither starts
a JVM nor imports pyspark. The examples ask "flights", a table of eight flights, whose column `carrier` is
indexed.
"""

from __future__ import annotations

import datetime
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tailbit.answer import Answer
from tailbit.arguments.conditions import Condition, condition_text
from tailbit.arguments.values import known_zone, names, to_millis, whole
from tailbit.base.errors import UsageError
from tailbit.base.lazy import lazy
from tailbit.handle import opened, table_name
from tailbit.index.predicate.tree import Constant, Node
from tailbit.index.query.coverage import Damages
from tailbit.index.query.recorded_counts import RecordedCounts
from tailbit.index.query.selection import Selection
from tailbit.index.sql.bind import bind
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array
from tailbit.tables.schema import Schema
from tailbit.tables.storage import SPELLED, file_names, one_look
from tailbit.tables.table import Table
from tailbit.upkeep.table import MaintainedTable
from tailbit.vacuumed import told_rows, vacuumed_told

if TYPE_CHECKING:
    from tailbit.arguments import constants
    from tailbit.index.grouping.transitions import Transition
    from tailbit.index.sql import parameters as sql_parameters
else:
    sql_parameters = lazy("tailbit.index.sql.parameters")
    constants = lazy("tailbit.arguments.constants")


def open_indexed(
    path: str | os.PathLike[str] | Table,
    index: str | os.PathLike[str] | None = None,
    at_least: int | None = None,
    max_staleness: float | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> IndexedTable:
    """Return a table with its index; if none has been built yet, every question scans the data.

    `path` may also be an open table, for a format that a path cannot tell. Answers are right however
    far the index is behind. `at_least` and `max_staleness` refuse slow answers: the index must cover version
    `at_least`, or every commit older than `max_staleness` seconds up to the requested version.
    `storage_options` are those of the stores of table and index, such as endpoint and credentials, named as
    in delta-rs (`AWS_ENDPOINT_URL`); missing ones are taken from the environment.

    Raises:
        NotATableError: no table of a known format at `path`.
        NoIndexError: `index` was given and there is none.
        ForeignIndexError: the index path holds something else.
        UsageError: `at_least` is no version, or `max_staleness` no number of seconds.

    >>> import tailbit
    >>> flights = tailbit.open("flights")
    >>> flights.where("carrier = 'UA' AND dest IN ('SFO', 'LAX')").count()
    4
    """
    return opened(IndexedTable, path, index, storage_options, at_least, max_staleness)


class IndexedTable(MaintainedTable):
    """A source table and its index; each `where` looks for new commits of both.

    `index_path`: where the index is, or would be. `damage`: why an index that is there cannot be read. Cost
    of a `where` when nothing is new: three probes by name, no listing.

    Threads may share the object while table and index change: calls of `where` run one at a time, each
    binding its answer to one version and one state of the index; the answers are then computed in parallel.
    Upkeep (`verify`, `compact`, `alter`, `vacuum`) opens the index for itself and blocks no question.
    """

    def where(
        self,
        where: str | Condition | None = None,
        params: Sequence[Any] | Mapping[str, Any] | None = None,
        version: int | str | None = None,
        as_of: datetime.date | str | None = None,
        zone: str = "UTC",
        partition_zone: str | None = None,
    ) -> Answer:
        """Return the rows where `where` is TRUE, at `version` (or the last one at `as_of`), else at the head.

        `where` is a Spark SQL condition as text, or built with `tailbit.col`; None asks for every row.
        `params` are values for the `?` of a text, or by name for its `:name`: each is one constant, and never
        SQL.
        `version`: a number; of a Hudi table also the time of an instant, as text. `as_of`: ISO 8601 text, a
        datetime, or a date for its midnight; without an offset in `zone`, the session's time zone.
        `partition_zone`: time zone of partition values without an offset, by default `zone`.

        Raises:
            PredicateError: the condition does not parse, is unsupported, or does not fit `params`.
            UnknownColumnError: the condition names a column that the table lacks at that version.
            VersionNotFoundError: the version is gone or not yet there.
            UsageError: an argument is not of its type, or both a version and a time are given.
            StaleIndexError: the index covers less than `at_least` or `max_staleness` of `open` demand.

        >>> flights.where("dest = 'LAX'").count(), flights.where("dest = 'LAX'", version=1).count()
        (3, 2)
        >>> flights.where("carrier = ? AND dep_delay > ?", ["UA", 0]).count()
        2
        >>> flights.where("dest IN (:home, :away)", {"home": "SFO", "away": "LAX"}).count()
        6
        >>> import tailbit
        >>> flights.where((tailbit.col("dest") == "LAX") & tailbit.col("carrier").isin("UA", "AA")).count()
        3
        """
        params, version = _version_by_name(params, version)
        sql, zone = _condition(where, params), known_zone("zone", zone)
        written = zone if partition_zone is None else known_zone("partition_zone", partition_zone)
        with self._lock, one_look():
            return self._bound(sql, version, as_of, zone, written)

    def count(
        self,
        where: str | Condition | None = None,
        params: Sequence[Any] | Mapping[str, Any] | None = None,
    ) -> int:
        """Count the rows of the table's newest version: all rows, or those for which `where` is TRUE.

        >>> flights.count(), flights.count("carrier = ?", ["UA"])
        (8, 4)
        """
        return self.where(where, params).count()

    def locate(
        self,
        keys: Any,
        on: str | Iterable[str] | None = None,
        version: int | str | None = None,
        as_of: datetime.date | str | None = None,
        since: int | str | None = None,
        zone: str = "UTC",
    ) -> pa.Table:
        """Return where the rows with given keys lie: the keys, with `path` and `position` of each row.

        `keys`: a list of values of the column `on`, of tuples for several, or of dicts; or a table of
        pyarrow, polars, pandas, DuckDB or Spark (which is collected) with the key columns, all of its columns
        without `on`. The result has the distinct keys in the order given: a key without a row with path and
        position null, a key of several rows once for each. `position`: 0-based physical row of the file,
        int64. If a key column has one of these names, they are `_path` and `_position`. `version`, `as_of`
        and `zone` are as in `where`. With `since`, an older version, `change` tells what became of each row:
        "same", "moved" (its key had other places), "new" (the key had none) or "gone" (the key has none).
        Right at any lag: what the index does not cover is looked up by a scan of just those files.

        Raises:
            UnknownColumnError: the table has no such column at that version.
            ColumnTypeError: a column of a type that has no keys, as a struct or an array.
            UsageError: a key is NULL, does not fit its column, or `keys` is none of these.
            VersionNotFoundError: the version is gone or not yet there.

        >>> flights.locate([5, 99], on="flight").to_pylist()[0]
        {'flight': 5, 'path': 'b.parquet', 'position': 0}
        >>> flights.locate([("UA", 5)], on=["carrier", "flight"])["position"].to_pylist()
        [0]
        >>> flights.locate([5], on="flight", since=1)["change"].to_pylist()
        ['new']
        """
        from tailbit.arguments.key_tables import key_table
        from tailbit.outputs.key_moves import with_changes

        columns, given = key_table(keys, on)
        located = self._located(columns, given, self.where(version=version, as_of=as_of, zone=zone))
        if since is not None:
            older = self._located(columns, given, self.where(version=since, zone=zone))
            located = with_changes(located, older)
        return _with_file_names(located, given.num_columns)

    def _located(self, columns: list[str], keys: pa.Table, answer: Answer) -> pa.Table:
        from tailbit.index.model import key_type_of_column
        from tailbit.index.query.locate import Keys

        schema = answer._selection.schema
        key_columns = [schema.resolve(name) for name in columns]
        for column in key_columns:
            key_type_of_column(column)
        distinct_keys = Keys.of(key_columns, keys)
        with vacuumed_told(answer):
            return distinct_keys.located(answer._selection, lambda node: _by_file(node, schema))

    def bitmap_records(
        self, columns: Iterable[str] | None = None, version: int | str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield for each column, value and file the rows of the file that hold the value, as RFC-92 of Hudi.

        `columns`: names; by default all with a bitmap index, except of arrays and bytes. Records: `column`;
        `value`, as Spark's CAST AS STRING writes it in UTC; `value_is_null`; `partition`, "." for none;
        `file_id` and `base_instant` (without file groups, the path and NULL); `file`; `positions`, a portable
        32-bit Roaring bitmap of 0-based physical rows without hidden ones; `rows`, their number. Values
        without rows have no record. A log block of Hudi is a file of its own.

        Right at any lag: what the index does not cover is read from just those files. Memory: a batch,
        bitmaps of a row space, or the values of a file.

        Raises:
            UnknownColumnError: the table has no such column at that version.
            ColumnTypeError: a column whose values have no texts, as a struct, an array or bytes.
            UsageError: no column is named, or none is indexed.
            VersionNotFoundError: the version is gone or not yet there.

        >>> for batch in flights.bitmap_records(["carrier"], version=1):
        ...     batch.select(["value", "file", "rows"]).to_pylist()[:2]
        [{'value': None, 'file': 'a.parquet', 'rows': 1}, {'value': 'AA', 'file': 'a.parquet', 'rows': 1}]
        """
        from tailbit.outputs import bitmap_records

        named = None if columns is None else names("columns", columns)
        answer = self.where(version=version)
        selection = answer._selection
        if named is None:
            listed = [c for c in selection.schema.leaves() if c.id in self._bitmaps()]
            record_columns = list(filter(bitmap_records.has_records, listed))
        else:
            record_columns = selection.schema.resolve_all(named)
        bitmap_records.check_columns(record_columns)
        records = bitmap_records.BitmapRecords(selection, partial(self._table.group_of, selection.snapshot))
        return told_rows(answer, records.batches(record_columns))

    def _bitmaps(self) -> frozenset[str]:
        state = None if self._index is None else self._index.state
        return frozenset() if state is None else frozenset(d.id for d in state.settings.columns)

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the table at its head and their types, as pyarrow has them.

        >>> flights.schema.field("dest").type
        DataType(string)
        """
        with self._lock, one_look():
            return self._table.snapshot().schema.arrow()

    @property
    def columns(self) -> list[str]:
        """Return the names of the columns of the table at its head.

        >>> flights.columns
        ['flight', 'carrier', 'dest', 'dep_delay']
        """
        return list(self.schema.names)

    def _bound(
        self,
        sql: str | None,
        version: int | str | None,
        as_of: datetime.date | str | None,
        zone: str,
        written: str,
    ) -> Answer:
        """Bind an answer as `where` does, while no other thread binds one or refreshes the index."""
        self._refresh()
        snapshot = self._snapshot(self._version(version, as_of, zone))
        ledger = self._trusted_ledger()
        covered = None if ledger is None else ledger.covered
        self._freshness.check(self._table, snapshot.version, covered)
        schema = snapshot.schema_in(written)
        now = self._clock()
        name = table_name(self.path)
        node: Node = Constant(True) if sql is None else bind(sql, schema, zone, lambda: now, name)
        damages = Damages() if self.damage is None else Damages(self.damage)
        by_file = _by_file(node, schema)
        coverage = self._cover(snapshot, trusted=ledger is not None)
        selection = Selection(node, coverage, self._table.storage, schema, damages, by_file)
        recorded = None
        if self._index is not None and ledger is not None:
            recorded = RecordedCounts.now(self._index.state, ledger)
        index = None if self._index is None else self.index_path
        return Answer(self.path, sql, selection, covered, recorded, zone, self._table, written, index, now)

    def transitions(
        self, column: str | Condition, from_version: int | str, to_version: int | str
    ) -> dict[Any, Transition]:
        """Count per value of a column or expression the rows that left and came between two versions.

        A row is known by its file and position: one that was rewritten to another file has left and come.

        Raises:
            UnknownColumnError: the later of the two versions has no such column.
            VersionNotFoundError: a version is gone or not yet there.
            DataFileError: the index no longer covers one of the versions, and a data file of that version
                is gone.

        >>> flights.transitions("carrier", 1, 2)
        {'UA': Transition(left=0, came=2), 'AA': Transition(left=0, came=1), 'DL': Transition(left=0, came=1)}
        """
        from tailbit.index.grouping.transitions import transitions

        before, after = (
            self.where(version=version if isinstance(version, str) else whole(name, version))
            for name, version in (("from_version", from_version), ("to_version", to_version))
        )
        later = max(before, after, key=lambda answer: answer.version)
        with vacuumed_told(before, after):
            return transitions(before._selection, after._selection, later._key(column))

    def _version(self, version: int | str | None, as_of: datetime.date | str | None, zone: str) -> int | None:
        """Return the version that arguments name; None for the head."""
        if as_of is None:
            return None if version is None else self._numbered("version", version, negative=True)
        if version is not None:
            raise UsageError(reason="both a version and a time were given", hint="Give one of them.")
        return self._table.version_at(to_millis(as_of, zone))


def _with_file_names(located: pa.Table, column: int) -> pa.Table:
    """Return a table with the names of files in place of the paths of a column."""
    if not pc.any(pc.starts_with(located.column(column), SPELLED)).as_py():
        return located
    paths = pc.dictionary_encode(located.column(column).combine_chunks())
    names = arrow_array(file_names(paths.dictionary.to_pylist()), pa.string())
    return located.set_column(column, located.field(column), pc.take(names, paths.indices))


def _by_file(node: Node, schema: Schema) -> Node | None:
    """Return a predicate with what it implies for generated columns; None without such columns."""
    if not schema.generated:
        return None
    from tailbit.index.sql.generated import with_generated

    return with_generated(node, schema)


def _version_by_name(params: Any, version: int | str | None) -> tuple[Any, int | str | None]:
    """Return parameters and version; a version in the place of the parameters is still accepted."""
    if version is not None or isinstance(params, bool) or not isinstance(params, int):
        return params, version
    warnings.warn("where: give the version by its name, version=", DeprecationWarning, stacklevel=3)
    return None, params


def _condition(where: str | Condition | None, params: Any) -> str | None:
    """Return the text of a condition with its parameters bound; None if every row is requested."""
    if params is None:
        return None if where is None else condition_text("where", where)
    values = constants.parameter_texts(params)
    if not isinstance(where, str):
        hint = "Give the condition as text with a ? for each value, or no params."
        raise UsageError(reason="params are given, but no text of a condition to fill", hint=hint)
    return sql_parameters.filled(where, values)
