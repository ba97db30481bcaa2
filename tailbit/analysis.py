"""Analysis of the values in an answer's rows: groups, extremes, sums, histograms.

Everything comes from counts by key: from the index for covered rows, from the data for the others. Each
method imports what it needs, so that a process for one count imports no more.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, SupportsIndex, cast

import numpy as np
import pyarrow as pa

from tailbit.arguments.conditions import Condition, condition_text, expression_texts
from tailbit.arguments.values import known_zone, text, whole
from tailbit.base.errors import UsageError
from tailbit.handle import table_name
from tailbit.vacuumed import tells_vacuumed

if TYPE_CHECKING:
    from tailbit.index.grouping.facets import Crosstab
    from tailbit.index.grouping.grouping import Groups
    from tailbit.index.grouping.histogram import Bin
    from tailbit.index.grouping.measures import Aggregates, Measure, Summary
    from tailbit.index.query.recorded_counts import RecordedCounts
    from tailbit.index.query.selection import Selection
    from tailbit.outputs.display import Measured
    from tailbit.tables.model import Column, Version, VersionName
    from tailbit.tables.table import Table


class Analysis:
    """The part of an answer that groups and sums its rows. Every method may raise UnknownColumnError.

    In place of a column's name, each method takes an expression over columns: `date_trunc('month', ts)` as
    text, or built with `tailbit.col`. If a column has that text as its name, the column
    is meant. A text that is no expression of one value per row is a PredicateError; a row for which it raises
    is an EvaluationError, as in `where`. A column whose type has no keys (struct, array, map ...) is a
    ColumnTypeError.
    """

    _path: str
    _zone: str
    _selection: Selection
    _recorded: RecordedCounts | None
    _table: Table | None

    @property
    def version(self) -> Version:
        """Return the version of the table that is answered for."""
        return self._selection.version

    @property
    def version_name(self) -> VersionName:
        """Return what people and JSON call the version: of a Hudi table, the requested time of its instant.

        >>> flights.where().version_name
        2
        """
        return self.version if self._table is None else self._table.name_of(self.version)

    @tells_vacuumed
    def facets(
        self,
        column: str | Condition,
        *more: str | Condition,
        sum: str | Condition | Iterable[str | Condition] = (),
        min: str | Condition | Iterable[str | Condition] = (),
        max: str | Condition | Iterable[str | Condition] = (),
        avg: str | Condition | Iterable[str | Condition] = (),
    ) -> dict[Any, Any]:
        """Count the matching rows per value of a column, most frequent first; None stands for NULL.

        For several columns, each key is a tuple of values. Served from the recorded value counts when all
        rows are asked for at the covered version, from the postings for covered files otherwise, and from the
        data for the rest. A date or time outside of Python's calendar is given as text.

        `sum`, `min`, `max`, `avg`: names of columns to aggregate. Then the dict maps each value to a dict of
        `count` and the aggregates, named and typed as in Spark, and is also a table: `.to_arrow()`,
        `.to_pandas()`, `.to_polars()`. If all columns are indexed, no data file is read.

        Raises:
            ColumnTypeError: a sum or an average of a column that is no number.
            AggregateError: a sum or an average is beyond its type, where Spark's ANSI mode raises too.

        >>> flights.where("dep_delay >= 0").facets("carrier")
        {'UA': 3, 'AA': 1, 'DL': 1}
        >>> flights.where("dest <> 'ORD'").facets("carrier", "dest")
        {('UA', 'LAX'): 2, ('UA', 'SFO'): 2, ('AA', 'LAX'): 1, ('DL', 'SFO'): 1}
        >>> flights.where("dest = 'LAX'").facets("carrier", sum="dep_delay")
        {'UA': {'count': 2, 'sum(dep_delay)': 61}, 'AA': {'count': 1, 'sum(dep_delay)': -2}}
        """
        from tailbit.index.grouping.facets import as_facets
        from tailbit.outputs.display import Facets

        columns_by_function = {"sum": sum, "min": min, "max": max, "avg": avg}
        if measures := self._measures(columns_by_function):
            return self._measured([column, *more], measures)
        return Facets(as_facets(self._groups(column, *more)))

    def facet_table(
        self,
        column: str | Condition,
        *more: str | Condition,
        sum: str | Condition | Iterable[str | Condition] = (),
        min: str | Condition | Iterable[str | Condition] = (),
        max: str | Condition | Iterable[str | Condition] = (),
        avg: str | Condition | Iterable[str | Condition] = (),
    ) -> pa.Table:
        """Return the facets as a table: a row per value, with `count` and the requested measures.

        >>> flights.where("dest = 'LAX'").facet_table("carrier").to_pydict()
        {'carrier': ['UA', 'AA'], 'count': [2, 1]}
        >>> flights.where("dest = 'LAX'").facet_table("carrier", max="dep_delay").to_pydict()
        {'carrier': ['UA', 'AA'], 'count': [2, 1], 'max(dep_delay)': [61, -2]}
        """
        from tailbit.outputs.display import Measured
        from tailbit.outputs.frames import facet_table

        facets = self.facets(column, *more, sum=sum, min=min, max=max, avg=avg)
        if isinstance(facets, Measured):
            return facets.table
        fields = self._selection.schema.arrow(self._keys(column, *more))
        return facet_table(list(fields), facets)

    def top(self, column: str | Condition, n: int = 10) -> dict[Any, int]:
        """Return the `n` most frequent values of a column with their rows; ties by value, the lesser first.

        Raises:
            UsageError: `n` is below zero.

        >>> flights.where().top("carrier", 2)
        {'UA': 4, 'AA': 2}
        """
        from tailbit.index.grouping.facets import most_frequent
        from tailbit.outputs.display import Facets

        n = whole("n", n)
        return Facets(most_frequent(self._groups(column, ordered=False), n))

    def distinct(self, column: str | Condition) -> list[Any]:
        """Return the values of a column in the matching rows, each once, in order; None (NULL) is first.

        >>> flights.where().distinct("carrier")
        [None, 'AA', 'DL', 'UA']
        """
        return list(dict.fromkeys(self._groups(column).values_of()))

    @tells_vacuumed
    def count_distinct(self, column: str | Condition, *more: str | Condition) -> int:
        """Count the distinct values, or combinations of values, without NULL, as COUNT(DISTINCT ...).

        >>> flights.where().count_distinct("carrier"), flights.where().count_distinct("carrier", "dest")
        (3, 5)
        """
        from tailbit.index.grouping.facets import count_distinct

        return count_distinct(self._groups(column, *more, ordered=False))

    def min(self, column: str | Condition) -> Any:
        """Return the least value of a column; None if all are NULL. NaN is greater than every number.

        >>> flights.where("carrier = 'UA'").min("dep_delay"), flights.where("carrier = 'UA'").max("dep_delay")
        (-4, 61)
        """
        return self._measure("min", column)

    def max(self, column: str | Condition) -> Any:
        """Return the greatest value of a column; None if all are NULL. NaN is greater than every number.

        >>> flights.where().max("carrier"), flights.where("carrier = 'ZZ'").max("carrier")
        ('UA', None)
        """
        return self._measure("max", column)

    def sum(self, column: str | Condition) -> int | float | Decimal | None:
        """Return the exact sum of a column, in the type that Spark gives the sum; None if all rows are NULL.

        A double is the exact sum, rounded once: Spark rounds at each step, so its last digits depend on the
        order of the rows.

        Raises:
            AggregateError: the sum is beyond that type, where Spark's ANSI mode raises too.
            ColumnTypeError: the column is no number.

        >>> flights.where().sum("dep_delay"), flights.where().avg("dep_delay")
        (167, 23.857142857142858)
        """
        total: int | float | Decimal | None = self._measure("sum", column)
        return total

    def avg(self, column: str | Condition) -> float | Decimal | None:
        """Return the average of a column, in Spark's type for it; None if all rows are NULL.

        Raises:
            AggregateError: the average, or the sum, is beyond its type, where Spark's ANSI mode raises too.
            ColumnTypeError: the column is no number.

        >>> flights.where("carrier = 'UA'").avg("dep_delay")
        15.5
        """
        mean: float | Decimal | None = self._measure("avg", column)
        return mean

    def summary(self, column: str | Condition) -> Summary:
        """Return rows, NULLs, distinct values, extremes, sum and average of a column, in one pass.

        Sum and average are None if the column is not numeric.

        Raises:
            AggregateError: the sum or the average is beyond its type.

        >>> flights.where("carrier = 'UA'").summary("dep_delay")
        Summary(rows=4, nulls=0, distinct=4, min=-4, max=61, sum=62, avg=15.5)
        """
        from tailbit.index.grouping.measures import summary

        return summary(self._groups(column))

    def histogram(self, column: str | Condition, bins: int | Iterable[Any] = 10) -> list[Bin]:
        """Count the matching rows in bins of a column, between rising edges or in bins of equal width.

        A bin includes its lower edge; the last bin includes both edges. NULL, NaN and values beyond the edges
        are in no bin. Edges are decimals if doubles cannot tell them apart.

        Raises:
            UsageError: edges that do not rise or cannot be compared with the values; too many bins, or none.
            ColumnTypeError: a number of bins for a column that is no number.

        >>> bins = flights.where().histogram("dep_delay", [-5, 0, 60, 120])
        >>> [(bin.low, bin.high, bin.count) for bin in bins]
        [(-5, 0, 2), (0, 60, 3), (60, 120, 2)]
        """
        from tailbit.index.grouping.histogram import histogram

        return histogram(self._groups(column), _bins(bins))

    def date_histogram(self, column: str | Condition, part: str, zone: str = "UTC") -> dict[Any, int]:
        """Count the matching rows by a unit of a date or time, such as year, month, week, day or hour.

        `part`: the unit: year, quarter, month, week, day, hour, minute or second.

        The result is in order of time; None (NULL) is first. A key is the start of its unit, as Spark's
        date_trunc gives it in session time zone `zone`. Units without rows are left out.

        Raises:
            UsageError: there is no such unit or time zone.
            ColumnTypeError: the column is no date or time, or a date is to be cut to less than a day.

        >>> import datetime, deltalake, tailbit
        >>> days = [datetime.date(2013, 2, 28), datetime.date(2013, 1, 31), datetime.date(2013, 2, 1)]
        >>> deltalake.write_deltalake("days", pa.table({"day": days}))
        >>> tailbit.open("days").where().date_histogram("day", "month")
        {datetime.date(2013, 1, 1): 1, datetime.date(2013, 2, 1): 2}
        """
        from tailbit.index.grouping.histogram import by_unit

        return by_unit(self._groups(column), text("part", part), known_zone("zone", zone))

    @tells_vacuumed
    def crosstab(self, rows: str | Condition, columns: str | Condition) -> Crosstab:
        """Count the matching rows by the values of two columns, as a matrix with sorted rows and columns.

        Raises:
            UsageError: the matrix would have more than ten million cells.

        >>> table = flights.where("carrier <> 'DL'").crosstab("carrier", "dest")
        >>> table.rows, table.columns, table.counts.tolist()
        (['AA', 'UA'], ['LAX', 'ORD', 'SFO'], [[1, 1, 0], [2, 0, 2]])
        >>> table
        carrier / dest  LAX  ORD  SFO
                    AA    1    1    0
                    UA    2    0    2
        """
        from tailbit.index.grouping.facets import crosstab

        return crosstab(self._groups(rows, columns))

    def _measures(
        self, columns_by_function: Mapping[str, str | Condition | Iterable[str | Condition]]
    ) -> list[Measure]:
        """Return the requested aggregates, function by function.

        `columns_by_function`: maps a function (`sum`, `min`, `max`, `avg`) to the names of the columns.
        """
        given = {f: some for f, some in columns_by_function.items() if not isinstance(some, tuple) or some}
        every = {
            f: expression_texts(f, [some] if isinstance(some, (str, Condition)) else some)
            for f, some in given.items()
        }
        if not any(every.values()):
            return []
        from tailbit.index.grouping.measures import Measure

        measures = (Measure(f, self._key(name)) for f, some in every.items() for name in some)
        return list(dict.fromkeys(measures))

    def _measured(self, by: list[str | Condition], measures: list[Measure]) -> Measured:
        from tailbit.outputs.display import Measured
        from tailbit.outputs.frames import measured_table

        columns = self._keys(*by)
        keys, counts, by_measure = self._aggregated(columns, measures).by_group(measures)
        values = [key[0] for key in keys] if len(by) == 1 else keys
        fields = list(self._selection.schema.arrow(columns))
        typed = {m.name: (m.arrow, by_measure[m]) for m in measures}
        table = measured_table(fields, dict(zip(values, counts, strict=True)), typed)
        rows = zip(counts, *(by_measure[m] for m in measures), strict=True)
        names_ = ["count", *(m.name for m in measures)]
        records = [dict(zip(names_, row, strict=True)) for row in rows]
        return Measured(dict(zip(values, records, strict=True)), table)

    @tells_vacuumed
    def _groups(self, *columns: str | Condition, ordered: bool = True) -> Groups:
        from tailbit.index.grouping.facets import count_groups

        return count_groups(self._selection, self._keys(*columns), self._recorded, ordered)

    @tells_vacuumed
    def _measure(self, function: str, column: str | Condition) -> Any:
        from tailbit.index.grouping.measures import Measure

        measure = Measure(function, self._key(column))
        return self._aggregated([], [measure]).of_all(measure)

    def _aggregated(self, by: Sequence[Column], measures: Sequence[Measure]) -> Aggregates:
        from tailbit.index.grouping.measures import aggregated

        return aggregated(self._selection, by, measures, self._recorded)

    def _keys(self, *columns: str | Condition) -> list[Column]:
        return [self._key(column) for column in columns]

    def _key(self, column: str | Condition) -> Column:
        """Return the column of a name, or the term of an expression: the index's own term if it has one."""
        from tailbit.index.sql.bind import group_key, with_definition

        table = table_name(self._path)
        key = group_key(condition_text("column", column), self._selection.schema, self._zone, table)
        definitions = () if self._recorded is None else self._recorded.index.settings.definitions
        return with_definition(key, definitions, self._selection.snapshot.schema)


def _bins(bins: int | Iterable[Any]) -> int | list[Any]:
    """Return a number of bins, or their edges."""
    try:
        if not isinstance(bins, (bool, np.bool_)):
            return operator.index(cast(SupportsIndex, bins))
    except TypeError:
        pass
    try:
        if not isinstance(bins, (str, bytes)):
            return list(cast(Iterable[Any], bins))
    except TypeError:
        pass
    hint = "Give a whole number, or the edges of the bins."
    raise UsageError(reason=f"bins is {bins!r}", hint=hint)
