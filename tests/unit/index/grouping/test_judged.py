"""What is said of random rows is what DuckDB says of them: groups, extremes, sums, histograms.

The tables have covered and uncovered files, hidden rows that the index knows and some that it does not,
columns without an index, texts longer than a key, NaN and -0.0.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import tailbit
from support.delta_builder import DeltaBuilder
from support.histories import SCHEMA, random_rows
from support.predicates import INDEXED, Predicate, random_predicates
from support.profiles import seeds
from support.tables import VECTORS, index_of
from tailbit.answer import Answer
from tailbit.index.analytics.facets import as_facets
from tailbit.index.grouping.choice import CountingWay
from tailbit.index.grouping.grouping import count_groups
from tailbit.index.grouping.rows import Rows

WAYS = [CountingWay.CODES, CountingWay.INTERSECTIONS, CountingWay.DATA]

Judged = tuple[tailbit.IndexedTable, pa.Table]
EDGES = {"small": [-128, -1, 0, 5, 127], "price": [Decimal("-1.5"), 0, Decimal("9.99"), 10**8]}
UNITS = ("year", "quarter", "month", "week", "day")


def table_of(path: str, rng: random.Random) -> Judged:
    """An indexed table of five files, one of which may have left it, and its visible rows."""
    builder = DeltaBuilder(path).create(SCHEMA, partition_by=["region"], **VECTORS)
    files: dict[str, pa.Table] = {}
    hidden: dict[str, set[int]] = {}

    def append(name: str) -> None:
        region = rng.choice(["EU", "US", None])
        rows = random_rows(rng, rng.randint(30, 90))
        column = pa.array([region] * len(rows), pa.string())
        files[name] = rows.set_column(SCHEMA.get_field_index("region"), "region", column)
        hidden[name] = set()
        builder.commit([builder.data_file(rows.drop(["region"]), name, partition={"region": region})])

    def hide(name: str) -> None:
        hidden[name] |= set(rng.sample(range(len(files[name])), rng.randint(1, 20)))
        (vector,) = builder.stored_vectors(sorted(hidden[name]))
        builder.commit(builder.hide(name, vector))

    for name in ("f0.parquet", "f1.parquet", "f2.parquet"):
        append(name)
    hide("f0.parquet")
    drive = index_of(path, rng.sample(INDEXED, rng.randint(5, 8)))
    append("f3.parquet")
    drive.drain()
    hide("f0.parquet")
    hide("f1.parquet")
    append("f4.parquet")
    if rng.random() < 0.6:
        gone = rng.choice(["f0.parquet", "f1.parquet", "f2.parquet"])
        builder.commit([builder.remove(gone)])
        del files[gone]
    if rng.random() < 0.5:
        drive.drain()
    kept = [rows.take(sorted(set(range(len(rows))) - hidden[name])) for name, rows in files.items()]
    return tailbit.open(path), pa.concat_tables(kept)


@pytest.fixture(scope="module", params=seeds(2))
def judged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    rng = random.Random(request.param)
    opened, rows = table_of(str(tmp_path_factory.mktemp("judged") / "t"), rng)
    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'")
        engine.register("live", rows)
        yield opened, engine, rng, [Predicate.both("TRUE"), *random_predicates(rng, 7)]


def plain(value: Any) -> Any:
    """A value by which NaN is one and zero has no sign."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return tuple(map(plain, value)) if isinstance(value, tuple) else value


def rows_of(engine: Any, sql: str) -> list[tuple[Any, ...]]:
    found = engine.sql(sql).to_arrow_table()
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


def asked(opened: tailbit.IndexedTable, predicate: Predicate) -> Answer:
    return opened.where(None if predicate.spark == "TRUE" else predicate.spark)


def counted(pairs: Any) -> Counter[Any]:
    out: Counter[Any] = Counter()
    for value, n in pairs:
        out[plain(value)] += n
    return out


def test_facets_of_one_column_and_of_several_are_those_of_group_by(judged: Any) -> None:
    opened, engine, rng, predicates = judged
    for predicate in predicates:
        for width in (1, 2, 3):
            columns = rng.sample(SCHEMA.names, width)
            listed = ", ".join(columns)
            theirs = rows_of(
                engine, f"SELECT {listed}, count(*) FROM live WHERE {predicate.duckdb} GROUP BY {listed}"
            )
            found = asked(opened, predicate).facets(*columns)
            expected = counted(((row[:-1] if width > 1 else row[0]), row[-1]) for row in theirs)
            assert counted(found.items()) == expected, (predicate.spark, columns)
            assert list(found.values()) == sorted(found.values(), reverse=True)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_counts_every_column_as_group_by_does(judged: Any, way: CountingWay) -> None:
    opened, engine, rng, predicates = judged
    for column in INDEXED:
        predicate = rng.choice(predicates)
        sql = f"SELECT {column}, count(*) FROM live WHERE {predicate.duckdb} GROUP BY {column}"
        selection = asked(opened, predicate)._selection
        found = count_groups(Rows.of(selection), [selection.schema.resolve(column)], way)
        assert counted(as_facets(found).items()) == counted(rows_of(engine, sql)), (predicate.spark, column)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_counts_combinations_as_group_by_does(judged: Any, way: CountingWay) -> None:
    opened, engine, rng, predicates = judged
    for _ in range(8):
        predicate, names = rng.choice(predicates), rng.sample([*INDEXED, "region"], 2)
        listed = ", ".join(names)
        sql = f"SELECT {listed}, count(*) FROM live WHERE {predicate.duckdb} GROUP BY {listed}"
        selection = asked(opened, predicate)._selection
        found = count_groups(Rows.of(selection), [selection.schema.resolve(name) for name in names], way)
        keys = zip(found.values_of(0), found.values_of(1), strict=True)
        expected = counted((row[:-1], row[-1]) for row in rows_of(engine, sql))
        assert counted(zip(keys, found.counts.tolist(), strict=True)) == expected, (predicate.spark, names)


def test_extremes_and_distinct_values_are_those_of_sql(judged: Any) -> None:
    opened, engine, rng, predicates = judged
    for predicate in predicates:
        answer = asked(opened, predicate)
        for column in rng.sample(SCHEMA.names, 4):
            distinct, least, most, null = rows_of(
                engine,
                f"SELECT count(DISTINCT {column}), min({column}), max({column}), "
                f"coalesce(bool_or({column} IS NULL), FALSE) FROM live WHERE {predicate.duckdb}",
            )[0]
            if column in ("amount", "score"):
                # It counts 0.0 and -0.0 as two.
                values = rows_of(engine, f"SELECT {column} FROM live WHERE {predicate.duckdb}")
                distinct = len({plain(v) for (v,) in values} - {None})
            context = (predicate.spark, column)
            assert answer.count_distinct(column) == distinct, context
            assert plain(answer.min(column)) == plain(least), context
            assert plain(answer.max(column)) == plain(most), context
            listed = answer.distinct(column)
            assert len(listed) == distinct + null, context
            assert (None in listed) == null, context


def test_combinations_without_null_are_counted_as_sql_counts_them(judged: Any) -> None:
    opened, engine, rng, predicates = judged
    for predicate in predicates:
        one, other = rng.sample([n for n in SCHEMA.names if n not in ("amount", "score")], 2)
        ((theirs,),) = rows_of(
            engine,
            f"SELECT count(*) FROM (SELECT DISTINCT {one}, {other} FROM live WHERE ({predicate.duckdb}) "
            f"AND {one} IS NOT NULL AND {other} IS NOT NULL)",
        )
        assert asked(opened, predicate).count_distinct(one, other) == theirs


def test_sums_and_averages_are_those_of_sql(judged: Any) -> None:
    opened, engine, _, predicates = judged
    for predicate in predicates:
        answer = asked(opened, predicate)
        for column in ("id", "small", "price"):
            ((total, rows),) = rows_of(
                engine,
                f"SELECT sum({column})::DECIMAL(38, 2), count({column}) FROM live WHERE {predicate.duckdb}",
            )
            assert answer.sum(column) == total, (predicate.spark, column)
            average = answer.avg(column)
            assert (average is None) == (rows == 0)
            if rows:
                assert float(average) == pytest.approx(float(total) / rows, abs=1e-6)
        for column in ("amount", "score"):
            ((total,),) = rows_of(engine, f"SELECT sum({column}::DOUBLE) FROM live WHERE {predicate.duckdb}")
            assert answer.sum(column) == pytest.approx(total, nan_ok=True), (predicate.spark, column)


def test_bins_hold_what_lies_between_their_edges(judged: Any) -> None:
    opened, engine, _, predicates = judged
    for predicate in predicates:
        for column, edges in EDGES.items():
            sums = [
                f"count(*) FILTER ({column} >= {low} AND {column} <{'=' * (high == edges[-1])} {high})"
                for low, high in pairwise(edges)
            ]
            (theirs,) = rows_of(engine, f"SELECT {', '.join(sums)} FROM live WHERE {predicate.duckdb}")
            found = asked(opened, predicate).histogram(column, edges)
            assert tuple(bin.count for bin in found) == theirs, (predicate.spark, column)


def test_bins_of_one_width_are_those_of_numpy(judged: Any) -> None:
    opened, engine, _, predicates = judged
    for predicate in predicates:
        values = rows_of(engine, f"SELECT id FROM live WHERE ({predicate.duckdb}) AND id IS NOT NULL")
        found = asked(opened, predicate).histogram("id", 7)
        if len(set(values)) > 1:
            counts, edges = np.histogram([v for (v,) in values], bins=7)
            assert [bin.count for bin in found] == counts.tolist(), predicate.spark
            assert [bin.low for bin in found] == pytest.approx(edges[:-1].tolist())


def test_parts_of_dates_and_times_are_those_of_date_trunc(judged: Any) -> None:
    opened, engine, _, predicates = judged
    for predicate in predicates:
        answer = asked(opened, predicate)
        for column, units in (("day", UNITS[:4]), ("moment", (UNITS[3], "day", "minute"))):
            for unit in units:
                cut = f"date_trunc('{unit}', {column})" + ("::DATE" if column == "day" else "")
                theirs = rows_of(
                    engine, f"SELECT {cut} AS x, count(*) FROM live WHERE {predicate.duckdb} GROUP BY x"
                )
                found = answer.date_histogram(column, unit)
                assert found == dict(theirs), (predicate.spark, column, unit)
                assert list(found) == sorted(found, key=lambda value: (value is not None, value))


def test_a_cross_tab_holds_the_facets_of_both_columns(judged: Any) -> None:
    opened, engine, _, predicates = judged
    for predicate in predicates:
        theirs = rows_of(
            engine, f"SELECT region, flag, count(*) FROM live WHERE {predicate.duckdb} GROUP BY ALL"
        )
        table = asked(opened, predicate).crosstab("region", "flag")
        cells = {
            (row, column): int(table.counts[i, j])
            for i, row in enumerate(table.rows)
            for j, column in enumerate(table.columns)
            if table.counts[i, j]
        }
        assert cells == {(row, column): n for row, column, n in theirs}, predicate.spark


@pytest.mark.parametrize("seed", seeds(2))
def test_what_left_and_what_came_is_the_difference_of_two_versions(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    opened, _ = table_of(str(tmp_path / "t"), rng)
    head = opened.where().version
    for _ in range(8):
        before, after = rng.randint(1, head), rng.randint(1, head)
        column = rng.choice(SCHEMA.names)
        shown = [positions_and_values(opened, version, column) for version in (before, after)]
        left = counted((value, 1) for at, value in shown[0].items() if at not in shown[1])
        came = counted((value, 1) for at, value in shown[1].items() if at not in shown[0])
        found = opened.transitions(column, before, after)
        assert {plain(v): tuple(moved) for v, moved in found.items()} == {
            value: (left[value], came[value]) for value in {*left, *came}
        }, (before, after, column)


def positions_and_values(
    opened: tailbit.IndexedTable, version: int, column: str
) -> dict[tuple[str, int], Any]:
    """Each visible row of a version by file and position."""
    answer = opened.where(version=version)
    places = [(path, int(at)) for path, positions in answer.positions().items() for at in positions]
    return dict(zip(places, answer.read([column])[column].to_pylist(), strict=True))


def test_a_column_that_the_condition_leaves_one_value_is_grouped_as_group_by_does(judged: Any) -> None:
    opened, engine, rng, _ = judged
    for column in SCHEMA.names:
        values = rows_of(engine, f"SELECT DISTINCT {column} FROM live WHERE {column} IS NOT NULL")
        for (value,) in rng.sample(values, min(3, len(values))):
            if isinstance(value, float) and math.isnan(value):
                continue
            names = rng.sample([name for name in SCHEMA.names if name != column], rng.randint(1, 2))
            names.insert(rng.randint(0, len(names)), column)
            listed = ", ".join(names)
            equal = tailbit.col(column) == value
            expected = counted(
                (row[:-1], row[-1])
                for row in engine.execute(
                    f"SELECT {listed}, count(*) FROM live WHERE {column} = $1 GROUP BY {listed}", [value]
                ).fetchall()
            )
            assert counted(opened.where(equal).facets(*names).items()) == expected, (column, value, names)
            alone = {value: sum(expected.values())} if expected else {}
            assert counted(opened.where(equal).facets(column).items()) == counted(alone.items())
            assert sum(opened.where(equal).facets(column, column).values()) == sum(expected.values())
