"""Logs that spell paths in several ways: Spark judges which files are live, at every version."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tailbit
import tailbit.spark
from support.acceleration import patiently_accelerated, rows_of
from support.delta_builder import Action, DeltaBuilder
from support.profiles import variants
from support.spark_session import session_settings
from support.tables import index_of

pytestmark = pytest.mark.spark

SPELLINGS = {
    "x+y.parquet": ("x+y.parquet", "x%2By.parquet", "x%2by.parquet", "./x+y.parquet", "q/..//x+y.parquet"),
    "é ~.parquet": ("é%20~.parquet", "%C3%A9%20%7E.parquet", "%c3%a9%20~.parquet", "e\u0301%20~.parquet"),
    "p=a,b/[z].parquet": ("p=a,b/%5Bz%5D.parquet", "p=a%2Cb/%5bz%5d.parquet", "p=a,b%2F%5Bz%5D.parquet"),
}


class Log:
    """A table of three files of twenty rows, which its log spells in several ways."""

    def __init__(self, path: str) -> None:
        self.made = DeltaBuilder(path).create(
            pa.schema([("a", pa.int64()), ("s", pa.string())]),
            features=["deletionVectors"],
            configuration={"delta.enableDeletionVectors": "true"},
        )
        self.adds: dict[str, Action] = {}
        for number, (name, uris) in enumerate(SPELLINGS.items()):
            rows = pa.table({"a": pa.array(range(20 * number, 20 * number + 20)), "s": ["v", "w"] * 10})
            add = self.made.data_file(rows, name)["add"]
            if "é" in name:
                self.made.data_file(rows, name.replace("é", "e\u0301"))
            self.adds |= {uri: {**add, "path": uri} for uri in uris}
            whole = (Path(path) / name).as_uri().replace("%7E", "~")
            self.adds |= {uri: {**add, "path": uri} for uri in (whole, whole[7:], whole.replace("///", "/"))}

    def commit_randomly(self, rng: random.Random) -> int:
        """Add or remove some URIs; of equal ones a commit may name one alone."""
        named = rng.sample(sorted(self.adds), 3)
        actions: list[Action] = []
        for uri in named:
            removed = {"path": uri, "deletionTimestamp": 1, "dataChange": True}
            actions.append({"add": self.adds[uri]} if rng.random() < 0.6 else {"remove": removed})
        return self.made.commit(actions[:1] if len({_file(uri) for uri in named}) < 3 else actions)


def _file(uri: str) -> str:
    return uri[-6:]


def by_spark(spark: Any, path: str, version: int) -> list[int]:
    frame = spark.read.format("delta").option("versionAsOf", version).load(path)
    return sorted(row.a for row in frame.select("a").collect())


@pytest.mark.parametrize("seed", variants([1, 2, 3], 1))
def test_any_spellings_are_read_as_spark_reads_them_at_every_version(
    spark: Any, tmp_path: Path, seed: int
) -> None:
    log, rng, expected = Log(str(tmp_path / "t")), random.Random(seed), dict[int, list[int]]()
    with session_settings(spark, {"spark.databricks.delta.snapshotPartitions": "1"}):
        for number in range(12):
            version = log.commit_randomly(rng)
            expected[version] = by_spark(spark, log.made.path, version)
            found = tailbit.open(log.made.path).where("true").to_arrow()["a"].to_pylist()
            assert sorted(found) == expected[version], version
            if number == 5:
                index_of(log.made.path, ["s"])
        index_of(log.made.path, ["s"])
        for version, values in expected.items():
            opened = tailbit.open(log.made.path).where("s = 'v'", version=version)
            assert opened.count() == sum(a % 2 == 0 for a in values)


def test_spark_finds_and_deletes_rows_of_a_file_that_is_live_under_two_spellings(
    spark: Any, tmp_path: Path
) -> None:
    log = Log(str(tmp_path / "t"))
    log.made.commit([{"add": log.adds[uri]} for uris in SPELLINGS.values() for uri in uris[:2]])
    index_of(log.made.path, ["a", "s"])
    asked = f"SELECT a FROM delta.`{log.made.path}` WHERE a IN (3, 45)"
    with patiently_accelerated(spark, ["files"]) as acceleration:
        assert (
            rows_of(spark, asked)
            == rows_of(spark, asked, enabled=False)
            == ["Row(a=3)"] * 2 + ["Row(a=45)"] * 2
        )
        assert acceleration.last() is not None
    done = tailbit.spark.delete(log.made.path, "a IN (3, 45)", spark=spark)
    assert done.rows == 4
    rows = sorted(row.a for row in spark.read.format("delta").load(log.made.path).collect())
    assert rows == sorted(a for a in 2 * list(range(60)) if a not in (3, 45))
