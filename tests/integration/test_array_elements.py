"""Arrays whose elements are indexed: on histories of real delta-spark, tailbit answers what Spark answers."""

from __future__ import annotations

import random
import shutil
from typing import Any

import pyarrow as pa
import pytest

import tailbit
from support.differential import assert_answers_agree
from support.drive import Drive
from support.fuzzer.columns import asked_array, pool
from support.histories import SparkHistory
from support.oracle import spark_positions
from support.predicates import COLUMNS, Asked, Predicate, random_predicates
from support.profiles import chosen, seeds
from support.replay import run
from tailbit.streaming.settings import StreamSettings

TYPES = {
    "tags": pa.list_(pa.string()),
    "marks": pa.list_(pa.float64()),
    "sums": pa.list_(pa.decimal128(6, 2)),
    "days": pa.list_(pa.date32()),
    "codes": pa.list_(pa.int16()),
    "raw": pa.list_(pa.binary()),
    "times": pa.list_(pa.timestamp("us", "UTC")),
}
ARRAYS: tuple[Asked, ...] = tuple(asked_array(name, name, type_, (name,)) for name, type_ in TYPES.items())
OTHERS = tuple(column for column in COLUMNS if column.spark in ("category", "id", "region"))
NAMED = (
    "array_contains(tags, 'a')",
    "NOT array_contains(tags, 'a')",
    "array_contains(tags, 'a') IS NULL",
    "arrays_overlap(tags, array('a', 'ä'))",
    "arrays_overlap(array('a', NULL), tags) IS NULL",
    "NOT arrays_overlap(tags, array('a', NULL))",
    "arrays_overlap(tags, array()) OR tags IS NULL",
    "array_contains(marks, double('NaN')) AND NOT array_contains(marks, -0.0D)",
    "arrays_overlap(marks, array(0.0D)) <> arrays_overlap(marks, array(-0.0D))",
    "array_contains(codes, 1L) OR array_contains(codes, 300)",
    "array_contains(sums, 1) OR array_contains(sums, 0.5)",
    "exists(days, d -> d < DATE'1970-01-01')",
    "size(tags) = 0 OR size(raw) > 2",
)


class ArrayHistory(SparkHistory):
    """A history of a table with arrays beside its plain columns, which are updated too."""

    def rows(self, count: int) -> pa.Table:
        """Random rows; one array in eight is NULL."""
        table = super().rows(count)
        for name, type_ in TYPES.items():
            values = [
                None if self.rng.random() < 0.125 else self.rng.choice(pool(type_)) for _ in range(count)
            ]
            table = table.append_column(name, pa.array(values, type_))
        return table

    def _new_value(self) -> tuple[str, str]:
        if self.rng.random() < 0.5:
            return super()._new_value()
        return "tags", self.rng.choice(("array('a', NULL, 'a')", "array()", "NULL", "array('zz', 'a b')"))


@pytest.fixture
def spark(replayed_spark: Any) -> Any:
    """A session for what is not recorded."""
    return replayed_spark


@pytest.mark.parametrize("seed", seeds(1))
def test_every_answer_about_arrays_is_what_spark_answers(spark: Any, table_path: str, seed: int) -> None:
    rng = random.Random(seed)
    history = ArrayHistory(spark, table_path, rng)
    index = f"{table_path}/_tailbit"
    indexer = Drive(table_path, index, [*TYPES, "category"], StreamSettings(files=2))
    for _ in range(9):
        history.step()
        for _ in range(rng.choice((0, 0, 1, 2, 100))):
            indexer.step()
    asked = [*map(Predicate.both, NAMED), *random_predicates(rng, 40, (*ARRAYS, *OTHERS))]
    versions = chosen(range(history.head() + 1))
    expected = spark_positions(spark, table_path, versions, asked)

    def compare(state: str) -> None:
        for version in versions:
            assert_answers_agree(table_path, version, asked, expected[version], f"{state} {history.done}")

    compare("behind")
    indexer.drain()
    assert tailbit.open(table_path).verify(derive=20).problems == []
    compare("complete")
    history.dml(f"DELETE FROM {history.name} WHERE id > 20")
    history.optimize()
    unchecked = {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}
    run(spark, f"VACUUM {history.name} RETAIN 0 HOURS", settings=unchecked)
    head = history.head()
    Drive(table_path, index).drain()
    tailbit.open(table_path).compact()
    assert tailbit.open(table_path).verify(derive=20).problems == []
    assert_answers_agree(
        table_path, head, asked, spark_positions(spark, table_path, [head], asked)[head], "vacuumed"
    )
    shutil.rmtree(index)
    Drive(table_path, index, ["tags"]).step()
    assert_answers_agree(
        table_path, head, asked, spark_positions(spark, table_path, [head], asked)[head], "half built"
    )
