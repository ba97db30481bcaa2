"""Rows with NaN, infinities, -0.0 and NULL reach Spark, whatever its readers conclude from statistics.

Arrow's writer leaves NaN out of the statistics of row groups, and deltalake out of those of the log, while
Spark reads NaN as the greatest value; a dictionary tells -0.0 from 0.0. Spark's own filtered read loses rows.
"""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import tailbit
import tailbit.spark
from support.profiles import FACTOR, SEED
from support.tables import index_of

VALUES = (None, math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, -1.5, 20.0, 25.0, 3.0)
CONSTANTS = (
    "CAST('NaN' AS {})",
    "'NaN'",
    "CAST('Infinity' AS {})",
    "0.0D",
    "-0.0D",
    "CAST(-0.0D AS {})",
    "0",
    "1.5",
    "20",
    "-1.5D",
    "3",
)
COLUMNS = dict.fromkeys(("d", "`a.b`", "s.d", "p"), "DOUBLE") | dict.fromkeys(("f", "s.`n.n`.f"), "FLOAT")
NAMED = ("d = 'NaN'", "d >= CAST('NaN' AS DOUBLE)", "d = 'NaN' AND g = 1", "d > 20", "d <> 5", "NOT (d < 3)")


def floats(rng: random.Random, rows: int) -> list[float | None]:
    """Of few values, so that a row group may hold one alone."""
    among = rng.sample(VALUES, rng.choice((1, 2, 3, len(VALUES))))
    return [rng.choice(among) for _ in range(rows)]


def file_of(rng: random.Random, first: int, rows: int = 6) -> pa.Table:
    inner = [{"f": f} if rng.random() < 0.8 else None for f in floats(rng, rows)]
    outer = [{"d": d, "n.n": n, "k": 1} for d, n in zip(floats(rng, rows), inner, strict=True)]
    single, double = pa.float32(), pa.float64()
    nested = pa.struct([("d", double), ("n.n", pa.struct([("f", single)])), ("k", pa.int64())])
    return pa.table(
        {
            "row": pa.array(range(first, first + rows), pa.int64()),
            "g": pa.array([rng.randint(0, 2) for _ in range(rows)], pa.int64()),
            "d": pa.array(floats(rng, rows), double),
            "f": pa.array(floats(rng, rows), single),
            "a.b": pa.array(floats(rng, rows), double),
            "s": pa.array([o if rng.random() < 0.8 else None for o in outer], nested),
            "p": pa.array([rng.choice((math.nan, 0.0, 1.5, None))] * rows, double),
        }
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Files of row groups of two rows; the index covers most of them, and not all columns."""
    path, rng = str(tmp_path_factory.mktemp("floats") / "t"), random.Random(SEED)
    rows = deltalake.WriterProperties(max_row_group_size=2)
    for number in range(8):
        written = file_of(rng, 10 * number)
        deltalake.write_deltalake(path, written, mode="append", partition_by=["p"], writer_properties=rows)
        if number == 6:
            index_of(path, ["d", "f", "s.d", "g"])
    return path


def condition(rng: random.Random) -> str:
    """One condition on a column of floating point numbers, alone or with others."""
    column, type_ = rng.choice(list(COLUMNS.items()))
    constants = [rng.choice(CONSTANTS).format(type_) for _ in range(3)]
    kind = rng.randrange(9)
    if kind < 5:
        text = f"{column} {rng.choice(('=', '<>', '<', '<=', '>', '>=', '<=>'))} {constants[0]}"
    elif kind == 5:
        text = f"{column} IN ({', '.join(constants)})"
    elif kind == 6:
        text = f"{column} BETWEEN {constants[0]} AND {constants[1]}"
    elif kind == 7:
        text = rng.choice((f"{column} IS NULL", f"{column} IS NOT NULL", f"abs({column}) >= 1.5D"))
    else:
        text = f"{column} {rng.choice(('=', '<', '>='))} {rng.choice(list(COLUMNS))}"
    roll = rng.random()
    if roll < 0.25:
        return f"NOT ({text})"
    if roll < 0.5:
        return f"({text} {rng.choice(('AND', 'OR'))} {rng.choice(('g = 1', 's.k IS NULL', condition(rng)))})"
    return text


def rows_of(frames: dict[str, Any]) -> dict[str, list[int]]:
    return {text: sorted(row for (row,) in frame.select("row").collect()) for text, frame in frames.items()}


def conditions(count: int) -> list[str]:
    rng = random.Random(SEED)
    return [*NAMED, *(condition(rng) for _ in range(count * FACTOR))]


def test_a_dataframe_has_every_row_that_is_counted_whatever_its_floats_are(spark: Any, table: str) -> None:
    opened = tailbit.open(table)
    schema = spark.read.format("delta").load(table).schema
    frames = {text: opened.where(text).dataframe(spark) for text in conditions(12)}
    assert all(frame.schema == schema for frame in frames.values())
    wanted = {text: sorted(opened.where(text).read(["row"])["row"].to_pylist()) for text in frames}
    assert {text: opened.where(text).count() for text in frames} == {t: len(r) for t, r in wanted.items()}
    assert rows_of(frames) == wanted


def test_a_view_and_the_data_source_have_every_row_whatever_its_floats_are(
    spark: Any, table: str, tmp_path: Path
) -> None:
    tailbit.spark.register(spark)
    opened, source = tailbit.open(table), spark.read.format("tailbit")
    text = "d = 'NaN' OR f = 0.0D OR NOT (s.d < 3)"
    wanted = sorted(opened.where(text).read(["row"])["row"].to_pylist())
    view = spark.read.format("delta").load(opened.where(text).to_delta(tmp_path / "view"))
    frames = {"view": view, "source": source.option("where", text).load(table)}
    assert rows_of(frames) == dict.fromkeys(frames, wanted)
