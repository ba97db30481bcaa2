"""What a predicate selects, bound to one version of a table: count, facets, positions, files, rows.

An answer is the public face of a `Selection`: each method hands the question on to the module of its name,
which is imported when first needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from tailbit.analysis import Analysis
from tailbit.arguments.conditions import Condition, expression_texts
from tailbit.arguments.values import names, path_text, whole
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import CorruptIndexError
from tailbit.index.query.recorded_counts import RecordedCounts
from tailbit.index.query.selection import Selection
from tailbit.tables.storage import file_names
from tailbit.tables.table import Table
from tailbit.vacuumed import tells_vacuumed, told_rows

if TYPE_CHECKING:
    import pandas
    import polars
    from pyspark.sql import DataFrame, SparkSession

    from tailbit.index.query.explain import Account
    from tailbit.tables.model import Column, VersionName
    from tailbit.tables.parquet.rows import Positions

_SHOWN = 200
"""Most characters of a predicate that a `repr` shows."""


_ITERATED_ROWS = 1024
"""Rows that are converted to dicts together."""


@dataclass(frozen=True, eq=False, repr=False)
class Answer(Analysis):
    """The rows of one version of a table where a predicate is TRUE; lazy, and computed at most once.

    An answer does not change while the table and the index move on. Threads may share an answer.
    `IndexedTable.where` returns one.
    """

    _path: str
    _text: str | None
    _selection: Selection
    _covered: int | None = None
    _recorded: RecordedCounts | None = None
    _zone: str = "UTC"
    _table: Table | None = None
    _partition_zone: str = "UTC"
    _index_path: str | None = None
    _now: int = 0

    def __repr__(self) -> str:
        """Return table, version and predicate in one line."""
        predicate = self.predicate
        where = (
            ""
            if predicate is None
            else f", where={predicate[:_SHOWN]!r}{'...' if len(predicate) > _SHOWN else ''}"
        )
        return f"Answer({self._path!r}, version={self.version}{where})"

    def _repr_html_(self) -> str:
        """Render the line of `repr`, the number of rows, and the first rows."""
        from tailbit.outputs.display import SHOWN_ROWS, answer_html

        # A table whose first commits have no schema yet has no columns to read.
        rows = self.read(limit=SHOWN_ROWS) if self._selection.schema.columns else pa.table({})
        return answer_html(repr(self), self.count(), rows)

    @property
    def predicate(self) -> str | None:
        """Return the condition as it was given; None if every row was requested."""
        return self._text

    @property
    def covered_version(self) -> int | None:
        """Return the last version that the index covered as a whole; None if there is no such version."""
        return self._covered

    def _version_names(self) -> dict[str, VersionName | None]:
        """Return the answer's version and the covered one as people and JSON call them."""
        table, covered = self._table, self._covered
        named = covered if table is None or covered is None else table.name_of(covered)
        return {"version": self.version_name, "covered_version": named}

    @property
    def indexed_share(self) -> float:
        """Return the share of the table's files that the index covers, 0 to 1; the rest is pruned or scanned.

        Cost: nothing is computed for it.

        >>> flights.where("carrier = 'UA'").indexed_share
        1.0
        """
        files = self.files_in_table
        return 1.0 - len(self._selection.coverage.uncovered) / files if files else 1.0

    @property
    @tells_vacuumed
    def files_scanned(self) -> int:
        """Return the number of files whose data must be read for the answer, without reading them.

        >>> flights.where("carrier = 'UA'").files_scanned, flights.where("dest = 'SFO'").files_scanned
        (0, 2)
        """
        return self._selection.files_scanned

    @property
    def files_in_table(self) -> int:
        """Return the number of the table's files at the answer's version."""
        return len(self._selection.snapshot.files)

    @property
    def damaged(self) -> list[CorruptIndexError]:
        """Return damaged index files met so far; the data was read instead, so the answer is right."""
        return self._selection.damaged

    @tells_vacuumed
    def count(self) -> int:
        """Count the rows where the predicate is TRUE.

        Cost: the postings of the keys touched; plus the rows that must be rechecked and the uncovered files.

        >>> flights.where("carrier = 'UA' AND dest IN ('SFO', 'LAX')").count()
        4
        """
        return self._selection.count()

    def __len__(self) -> int:
        """Return the result of `count`, so that an answer without rows is false.

        >>> len(flights.where("carrier = 'UA'"))
        4
        """
        return self.count()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Iterate the rows as dicts, batch by batch: memory is that of `stream`.

        >>> [row["flight"] for row in flights.where("carrier = 'UA'")]
        [1, 3, 5, 8]
        """
        for table in self.stream()[1]:
            for batch in table.to_batches(max_chunksize=_ITERATED_ROWS):
                yield from batch.to_pylist()

    @tells_vacuumed
    def positions(self) -> dict[str, Positions]:
        """Return path (decoded, as in the log) to ascending 0-based physical row positions, uint64.

        >>> flights.where("carrier = 'UA'").positions()
        {'a.parquet': array([0, 2], dtype=uint64), 'b.parquet': array([0, 3], dtype=uint64)}
        """
        hits = self._selection.hits()
        names = file_names([hit.slice_.path for hit in hits])
        return {name: hit.positions for name, hit in zip(names, hits, strict=True)}

    @tells_vacuumed
    def files(self) -> list[str]:
        """Return the paths of the files with at least one matching row, in path order.

        >>> flights.where("carrier = 'DL'").files()
        ['b.parquet']
        """
        return file_names([hit.slice_.path for hit in self._selection.hits()])

    def read(
        self,
        columns: Iterable[str] | None = None,
        limit: int | None = None,
        *,
        order_by: Iterable[str] | None = None,
        offset: int = 0,
    ) -> pa.Table:
        """Return the matching rows, in the order of path and position, in the table's logical schema.

        `columns`: names, nested ones as "address.city"; each is given once, in the order of first mention.
        Names in the result are unique: if a field s.a and a column named "s.a" are read, the column is named
        "`s.a`", in backticks, as in `columns`. `order_by`: names, each with DESC and NULLS FIRST or LAST
        where wanted; as in Spark, NULL is least and NaN greatest, and ties stay in the order of path and
        position. The first `offset` rows are left out.

        Raises:
            UnknownColumnError: there is no such column.
            ColumnTypeError: a column to order by whose type has no order.
            UsageError: `limit` or `offset` is no whole number of 0 or more, or `columns` is no list of names.
            DataFileError: a data file is gone or is not Parquet.

        >>> flights.where("carrier = 'UA'").read(["flight", "dest"], limit=2).to_pylist()
        [{'flight': 1, 'dest': 'SFO'}, {'flight': 3, 'dest': 'LAX'}]
        >>> flights.where("carrier = 'UA'").read(["flight"], limit=2, order_by=["flight DESC"]).to_pylist()
        [{'flight': 8}, {'flight': 5}]
        """
        schema, tables = self.stream(columns, limit, order_by=order_by, offset=offset)
        return pa.concat_tables(list(tables) or [schema.empty_table()])

    def to_arrow(
        self,
        columns: Iterable[str] | None = None,
        limit: int | None = None,
        *,
        order_by: Iterable[str] | None = None,
        offset: int = 0,
    ) -> pa.Table:
        """Return the rows as `read` does.

        >>> flights.where("carrier = 'DL'").to_arrow(["flight", "dest"]).to_pylist()
        [{'flight': 6, 'dest': 'SFO'}]
        """
        return self.read(columns, limit, order_by=order_by, offset=offset)

    def to_pandas(
        self,
        columns: Iterable[str] | None = None,
        limit: int | None = None,
        *,
        order_by: Iterable[str] | None = None,
        offset: int = 0,
    ) -> pandas.DataFrame:
        """Return the rows of `read` as a DataFrame of pandas, which makes integers with NULL doubles.

        Raises:
            UsageError: pandas is not installed.

        >>> flights.where("carrier = 'DL'").to_pandas(["flight", "dest"]).to_dict("records")
        [{'flight': 6, 'dest': 'SFO'}]
        """
        from tailbit.outputs.frames import to_pandas

        return to_pandas(self.read(columns, limit, order_by=order_by, offset=offset))

    def to_polars(
        self,
        columns: Iterable[str] | None = None,
        limit: int | None = None,
        *,
        order_by: Iterable[str] | None = None,
        offset: int = 0,
    ) -> polars.DataFrame:
        """Return the rows of `read` as a DataFrame of polars.

        Raises:
            UsageError: polars is not installed.

        >>> flights.where("carrier = 'DL'").to_polars(["flight", "dest"]).rows()
        [(6, 'SFO')]
        """
        from tailbit.outputs.frames import to_polars

        return to_polars(self.read(columns, limit, order_by=order_by, offset=offset))

    def stream(
        self,
        columns: Iterable[str] | None = None,
        limit: int | None = None,
        *,
        order_by: Iterable[str] | None = None,
        offset: int = 0,
    ) -> tuple[pa.Schema, Iterator[pa.Table]]:
        """Return the schema and the rows of `read`, batch by batch.

        Memory: one batch per core, three more, and all positions; with `order_by` also the columns to order
        by, of all matching rows, or of about `offset + limit` rows.

        >>> schema, tables = flights.where("carrier = 'UA'").stream(["flight"])
        >>> schema.names, [table["flight"].to_pylist() for table in tables]
        (['flight'], [[1, 3], [5, 8]])
        """
        from tailbit.index.query.read import stream

        schema, tables = stream(
            self._selection,
            None if columns is None else names("columns", columns),
            None if limit is None else whole("limit", limit),
            None if order_by is None else names("order_by", order_by),
            whole("offset", offset),
        )
        return schema, told_rows(self, tables)

    def reader(
        self,
        columns: Iterable[str] | None = None,
        limit: int | None = None,
        *,
        order_by: Iterable[str] | None = None,
        offset: int = 0,
    ) -> pa.RecordBatchReader:
        """Return the rows of `stream` as a reader of Arrow record batches.

        >>> flights.where("carrier = 'UA'").reader(["flight"], offset=3).read_all().to_pylist()
        [{'flight': 8}]
        """
        from tailbit.outputs.frames import batch_reader

        return batch_reader(*self.stream(columns, limit, order_by=order_by, offset=offset))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows of `stream` to any library that takes Arrow streams: each call gives a new stream.

        So `polars.DataFrame(answer)`, `pyarrow.table(answer)` and `duckdb.sql("FROM answer")` read the rows.
        `polars.from_arrow` makes a Series of structs of any stream but pyarrow's: use `.struct.unnest()`.

        >>> pa.table(flights.where("carrier = 'DL'")).to_pylist()
        [{'flight': 6, 'carrier': 'DL', 'dest': 'SFO', 'dep_delay': 12}]
        """
        return self.reader().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """Return the schema of `stream` to any library that takes Arrow schemas. Cost: no data is read."""
        return self.stream(limit=0)[0].__arrow_c_schema__()

    @tells_vacuumed
    def to_delta(self, path: str | os.PathLike[str]) -> str:
        """Write the rows as a Delta table that copies no data; return its absolute path.

        The table names the same data files, and deletion vectors hide all other rows: Spark and deltalake
        open it; tailbit opens it only with the storage option `allow_outside`, since the files lie in another
        table. So Spark reads a Hudi table without Hudi; partition columns are plain columns then. Schema
        and nullability are the table's. The new table stays readable until the table's cleaner, VACUUM,
        deletes data files of this version, which later versions no longer name.

        Raises:
            ViewExistsError: there is something at `path`.
            UsageError: `path` lies in the table, or the table in an object store; rows lie in log blocks
                of a MERGE_ON_READ table, or a file stores a column as a type that Delta does not widen.
            DataFileError: a data file of the answer is gone.

        >>> import deltalake
        >>> path = flights.where("carrier = 'UA'").to_delta("united")
        >>> len(deltalake.DeltaTable(path).scan().read_all())
        4
        """
        from tailbit.outputs.delta_view import write_view

        return write_view(self._selection, path_text("path", path))

    def dataframe(self, spark: SparkSession, columns: Iterable[str] | None = None) -> DataFrame:
        """Return the rows as a DataFrame of a Spark session, over the data source `tailbit`.

        `columns`: names, as in `read`; all by default. Spark asks the source for every one of them, so naming
        the needed ones saves reading the others. The DataFrame stays at the answer's version and at the
        moment of the answer. Rows come in Spark's order. They are found when Spark runs a query, which needs
        tailbit on the executors; a data file that is gone is an error of that query.

        Raises:
            UsageError: `spark` is no session, or `columns` is no list of names.
            UnknownColumnError: there is no such column.
            pyspark.errors.PySparkException: a column has a type that Spark takes from no data source in
                Python.

        >>> import tailbit
        >>> try:
        ...     flights.where("carrier = 'UA'").dataframe("local[2]")
        ... except tailbit.errors.UsageError as refused:
        ...     print(refused)
        spark is 'local[2]', of type str
        """
        from tailbit.spark.source import data_frame

        return data_frame(self, spark, None if columns is None else names("columns", columns))

    @tells_vacuumed
    def explain(
        self, facets: Iterable[str | Condition] = (), columns: Iterable[str] = ()
    ) -> Mapping[str, Any]:
        """Explain per file: covered or not, kept or pruned, why and by what; rows, segments, bytes read.

        `facets`: columns or expressions for which to explain how facets are counted, with estimates and
        times. `columns`: columns for which to explain how `read` would decode them, file by file.

        Raises:
            UnknownColumnError: no such column.

        >>> account = flights.where("carrier = 'DL'").explain()
        >>> [(file["path"], file["outcome"], file["by"], file["matching"]) for file in account["files"]]
        [('a.parquet', 'pruned', "carrier = 'DL'", 0), ('b.parquet', 'kept', None, 1)]
        """
        counted = self._keys(*expression_texts("facets", facets))
        read_columns = [self._selection.schema.resolve(name) for name in names("columns", columns)]
        question = partial(explained, counted=counted, columns=read_columns, recorded=self._recorded)
        return self._explanation([question(self._selection)], bool(counted), bool(read_columns))

    def _explanation(self, portions: Sequence[Explained], facets: bool, columns: bool) -> Mapping[str, Any]:
        """Return the explanation by that of the selection, or by those of its portions."""
        from tailbit.index.grouping.unserved import unserved
        from tailbit.index.query.explain import explain
        from tailbit.outputs.display import Explanation

        account = {
            **explain(self._selection, self._covered, [of_portion.account for of_portion in portions]),
            **self._version_names(),
            "not_used": unserved(self._selection, self._zone),
        }
        if facets:
            account["facets"] = [step for of_portion in portions for step in of_portion.steps]
        if columns:
            account["read"] = [method for of_portion in portions for method in of_portion.methods]
        return Explanation(account)


class Explained(NamedTuple):
    """What an explanation adds up: an account, the steps of facets, and the methods of reading."""

    account: Account
    steps: list[dict[str, Any]]
    methods: list[dict[str, Any]]


def explained(
    selection: Selection,
    counted: Sequence[Column],
    columns: Sequence[Column],
    recorded: RecordedCounts | None = None,
) -> Explained:
    """Explain a selection or a portion of one, with facets of columns and the reading of others."""
    from tailbit.index.grouping.facets import count_groups
    from tailbit.index.query.explain import Account
    from tailbit.index.query.read import ways_of

    account = Account.of(selection)
    steps = count_groups(selection, counted, recorded).steps if counted else ()
    methods = ways_of(selection, columns) if columns else []
    return Explained(account, [step.account() for step in steps], methods)
