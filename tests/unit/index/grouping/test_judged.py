"""What is said of random rows is what DuckDB says of them: groups, extremes, sums, histograms.

The tables have covered and uncovered files, hidden rows that the index knows and some that it does not,
columns without an index, texts longer than a key, NaN and -0.0.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import tailbit
from support.delta_builder import DeltaBuilder
from support.histories import SCHEMA, random_rows
from support.predicates import INDEXED, Predicate, random_predicates
from support.profiles import seeds
from support.tables import VECTORS, index_of
from tailbit.answer import Answer
from tailbit.index.grouping.choice import CountingWay
from tailbit.index.grouping.facets import as_facets
from tailbit.index.grouping.grouping import count_groups
from tailbit.index.grouping.rows import Rows

WAYS = [CountingWay.CODES, CountingWay.INTERSECTIONS, CountingWay.DATA]

Judged = tuple[tailbit.IndexedTable, pa.Table]


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
