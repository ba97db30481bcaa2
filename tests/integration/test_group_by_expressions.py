"""Groups by an expression are those of Spark's GROUP BY on the same table, whatever of it is indexed."""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.errors import PySparkException

import tailbit
import tailbit.spark
from support.definitions import define
from support.delta_builder import Action, DeltaBuilder
from support.drive import Drive
from support.spark_cells import JudgedRows
from support.spark_session import session_settings
from support.tables import index_of
from tailbit.errors import EvaluationError

EXPRESSIONS = (
    "lower(s)",
    "k % 7",
    "date_trunc('month', ts)",
    "date_trunc('day', ts)",
    "hour(ts)",
    "d * 2",
    "price * k",
    "CAST(price AS DECIMAL(8, 1))",
    "add_months(day, k % 3)",
    "coalesce(s, 'none')",
    "s IS NULL AND k > 5",
    "CASE WHEN d > 1 THEN 'big' WHEN isnan(d) THEN 'nan' END",
    "substring(s, 1, 1)",
)
ZONES = ("UTC", "Australia/Lord_Howe", "America/New_York")


def random_rows(rng: random.Random, count: int) -> pa.Table:
    def some(values: list[Any]) -> list[Any]:
        return [rng.choice([None, *values]) for _ in range(count)]

    start = datetime.datetime(2024, 3, 30, tzinfo=datetime.timezone.utc)
    moments = [start + datetime.timedelta(minutes=30 * n) for n in range(300)]
    return pa.table(
        {
            "k": pa.array([rng.randint(-20, 20) for _ in range(count)], pa.int64()),
            "s": pa.array(some(["Ab", "aB", "ÄÖ", "äö", "", "x" * 300, "X" * 300]), pa.string()),
            "ts": pa.array(some(moments), pa.timestamp("us", "UTC")),
            "d": pa.array(some([0.0, -0.0, math.nan, 1.5, math.inf]), pa.float64()),
            "price": pa.array(
                some([Decimal("1.25"), Decimal("-3.50"), Decimal("0.05")]), pa.decimal128(8, 2)
            ),
            "day": pa.array(some([datetime.date(2024, 1, 31), datetime.date(2023, 11, 30)]), pa.date32()),
        }
    )


def random_history(path: str, rng: random.Random) -> pa.Table:
    """Files added, hidden in part by deletion vectors, and rewritten; indexed in part, and not to the end.

    Return the rows that are left.
    """
    visible: dict[str, pa.Table] = {}
    made = DeltaBuilder(path).create(random_rows(rng, 0).schema, features=["deletionVectors"])

    def add(rows: pa.Table) -> Action:
        action = made.data_file(rows)
        visible[action["add"]["path"]] = rows
        return action

    made.commit([add(random_rows(rng, 40)), add(random_rows(rng, 20))])
    index_of(path, rng.sample(["k", "s", "d", "day"], 2))
    # Terms are bound in UTC, and hour(ts) in a zone in which it is hardly ever asked.
    define(path, *rng.sample(EXPRESSIONS, 5))
    define(path, "hour(ts)", zone="Australia/Lord_Howe")
    for number in range(4):
        made.commit([add(random_rows(rng, 40))])
        whole, other = rng.sample([file for file in visible if "deletionVector" not in made.live[file]], 2)
        hidden = rng.sample(range(15), rng.randint(1, 9))
        made.commit(made.hide(whole, made.inline_vector(hidden)))
        visible[whole] = visible[whole].take([n for n in range(len(visible[whole])) if n not in hidden])
        if number % 2:
            made.commit([made.remove(other), add(visible.pop(other).slice(5))])
        if rng.random() < 0.5:
            Drive(path, f"{path}/_tailbit").drain()
    return pa.concat_tables(visible.values())


def plain(value: Any) -> Any:
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def told(rows: pa.Table) -> dict[tuple[Any, ...], Any]:
    """The last column by the columns before it; NaN is equal to itself."""
    listed = [tuple(map(plain, row.values())) for row in rows.to_pylist()]
    found = {row[:-1]: row[-1] for row in listed}
    assert len(found) == len(listed)
    return found


def grouped_by_spark(frame: Any, where: str | None, columns: Sequence[str], *measures: str) -> pa.Array:
    """What Spark says of each group, as structs; without measures the number of its rows."""
    filtered = frame if where is None else frame.where(where)
    if measures:
        rows = filtered.selectExpr(*measures).toArrow()
    else:
        theirs = filtered.selectExpr(*(f"{text} AS c{n}" for n, text in enumerate(columns)))
        rows = theirs.groupBy(*theirs.columns).count().orderBy(*theirs.columns).toArrow()
    return pa.StructArray.from_arrays([c.combine_chunks() for c in rows.columns], fields=list(rows.schema))


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("seed", [1, 2])
def test_groups_by_expressions_are_those_of_spark(
    verdicts: Any, request: pytest.FixtureRequest, table_path: str, tmp_path: Path, zone: str, seed: int
) -> None:
    rng = random.Random(f"{seed} {zone}")
    rows = random_history(table_path, rng)
    judge = JudgedRows(rows, verdicts, lambda: request.getfixturevalue("spark"), tmp_path)

    def said(questions: Sequence[list[Any]]) -> list[pa.Table]:
        def ask(unrecorded: Sequence[list[Any]]) -> list[pa.Array]:
            with session_settings(judge.frame.sparkSession, {"spark.sql.session.timeZone": zone}):
                return [grouped_by_spark(judge.frame, *question) for question in unrecorded]

        answers = judge.ask(f"groups in {zone}", questions, ask)
        return [pa.Table.from_batches([pa.RecordBatch.from_struct_array(found)]) for found in answers]

    measures = ["sum(price * k)", "avg(k % 7)", "min(lower(s))", "max(add_months(day, k % 3))"]
    for where in (None, "k > -5", "s <> 'Ab' OR d > 0"):
        answer = tailbit.open(table_path).where(where, zone=zone)
        asked = [[text] for text in rng.sample(EXPRESSIONS, 6)]
        asked += [rng.sample([*EXPRESSIONS, "k"], 2) for _ in range(2)]
        *groups, sums = said([*([where, texts] for texts in asked), [where, [], *measures]])
        for texts, grouped in zip(asked, groups, strict=True):
            ours = answer.facet_table(*texts)
            assert told(ours) == told(grouped), (where, texts)
            assert ours.schema.types[:-1] == grouped.schema.types[:-1], texts
        mine = [answer.sum("price * k"), answer.avg("k % 7"), answer.min("lower(s)")]
        assert list(sums.to_pylist()[0].values()) == [*mine, answer.max("add_months(day, k % 3)")]


def test_an_expression_that_raises_is_an_error_where_it_is_one_in_spark(spark: Any, table_path: str) -> None:
    write_deltalake(table_path, pa.table({"k": [1, 2, 0], "s": ["1", "x", "3"]}))
    index_of(table_path, ["k"])
    define(table_path, "10 / k", "CAST(s AS INT)")
    frame = spark.read.format("delta").load(table_path)
    for text, rest in (
        ("10 / k", "k <> 0"),
        ("CAST(s AS INT)", "s <> 'x'"),
        ("CAST(s AS INT) + k", "k <> 2"),
    ):
        with pytest.raises(PySparkException) as theirs:
            frame.groupBy(expression(text)).count().collect()
        with pytest.raises(EvaluationError) as ours:
            tailbit.open(table_path).where().facets(text)
        assert ours.value.fields["error"] in str(theirs.value)
        expected = {row[0]: row[1] for row in frame.where(rest).groupBy(expression(text)).count().collect()}
        assert tailbit.open(table_path).where(rest).facets(text) == expected


def expression(text: str) -> Any:
    from pyspark.sql.functions import expr

    return expr(text)
