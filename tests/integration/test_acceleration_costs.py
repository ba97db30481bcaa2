"""What takes less time than Spark's own scan is served, by estimates that the session sees and overrides."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from support.acceleration import rows_of
from support.spark_session import session_settings
from support.tables import index_of
from tailbit.spark.acceleration import AcceleratedScan, Acceleration

FILES, ROWS = 16, 20_000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Sixteen files of some MB of pages; each key has a row in every file, in a page of many others."""
    path = str(tmp_path_factory.mktemp("costs") / "table")
    rng = np.random.default_rng(1)
    for number in range(FILES):
        keys = rng.permutation(ROWS)
        names = np.char.add("a name of a customer ", rng.integers(0, 1 << 40, ROWS).astype(str))
        tags = ["a", *[f"file {number}"] * (ROWS - 2), "z"]
        columns = {"id": np.arange(ROWS) + number * ROWS, "k": keys, "name": names, "tag": tags}
        write_deltalake(path, pa.table(columns), mode="append")
    index_of(path, ["k", "tag"])
    return path


def served(accelerated: Acceleration, path: str, condition: str, **settings: str) -> AcceleratedScan:
    """What became of a scan of a condition, whose rows are those of Spark without the index."""
    spark, statement = accelerated._spark, f"SELECT sum(id), max(name) FROM delta.`{path}` WHERE {condition}"
    with session_settings(spark, {f"spark.tailbit.{name}": value for name, value in settings.items()}):
        assert rows_of(spark, statement) == rows_of(spark, statement, enabled=False)
    (scan,) = accelerated.last()
    return scan


@pytest.mark.parametrize("condition", ["k = 77", "k IN (5, 19999)", "k = 1234 AND id % 2 = 0"])
def test_rows_that_are_scattered_over_all_files_and_most_pages_are_served(
    accelerated: Acceleration, path: str, condition: str
) -> None:
    scan = served(accelerated, path, condition)
    assert (scan.served, scan.files, scan.of) == ("rows", FILES, FILES)
    assert scan.rows_ms is not None
    assert scan.spark_ms is not None
    assert scan.rows_ms <= 0.7 * scan.spark_ms


def test_the_share_of_sparks_time_overrides_the_estimate(accelerated: Acceleration, path: str) -> None:
    declined = served(accelerated, path, "k = 78", mostShare="0.01")
    assert (declined.served, declined.reason, declined.no_rows) == (None, "no-gain", "no-gain")
    assert "16 rows in 16 files" in (declined.detail or "")
    assert served(accelerated, path, "k < 50", mostShare="1000").served == "rows"


def test_many_rows_are_sent_by_tasks_that_are_small_enough_for_spark(
    accelerated: Acceleration, path: str
) -> None:
    spark, statement = accelerated._spark, f"SELECT * FROM delta.`{path}` WHERE k < 1500"
    with session_settings(spark, {"spark.tailbit.mostShare": "1000"}):
        assert rows_of(spark, statement) == rows_of(spark, statement, enabled=False)
        (scan,) = accelerated.last()
        assert (scan.served, scan.rows) == ("rows", 1500 * FILES)
        assert spark.sql(statement).rdd.getNumPartitions() > spark.sparkContext.defaultParallelism


def test_a_join_may_ask_for_the_rows_of_thousands_of_keys(
    accelerated: Acceleration, path: str, tmp_path: Path
) -> None:
    spark, dimension = accelerated._spark, str(tmp_path / "dimension")
    keys = np.arange(ROWS)
    write_deltalake(dimension, pa.table({"k": keys, "town": keys % 13}))
    index_of(dimension, ["k", "town"])
    statement = (
        f"SELECT sum(t.id), max(t.name), count(*) FROM delta.`{path}` t"
        f" JOIN delta.`{dimension}` d ON t.k = d.k WHERE d.town = 5"
    )
    with session_settings(spark, {"spark.tailbit.mostShare": "1000"}):
        assert rows_of(spark, statement) == rows_of(spark, statement, enabled=False)
    (scan,) = (scan for scan in accelerated.last() if scan.table == path)
    assert (scan.served, scan.rows) == ("rows", len(keys[keys % 13 == 5]) * FILES)
    assert f"`k` IN ({len(keys[keys % 13 == 5])} keys of joins)" in scan.asked


def test_files_are_left_out_also_where_most_of_them_stay(accelerated: Acceleration, path: str) -> None:
    tags = ", ".join(f"'file {number}'" for number in range(FILES - 2))
    scan = served(accelerated, path, f"tag IN ({tags})")
    assert (scan.served, scan.files, scan.of, scan.no_rows) == ("files", FILES - 2, FILES, "many-rows")


@pytest.mark.parametrize(
    ("condition", "reason"), [("k > 5", "keeps-all"), ("k BETWEEN 100 AND 15000", "keeps-all")]
)
def test_a_scan_that_cannot_gain_asks_once(
    accelerated: Acceleration, path: str, condition: str, reason: str
) -> None:
    accelerated._entry.forget()
    served(accelerated, path, "k = 1", knownMs="600000")
    before = accelerated.questions()
    scan = served(accelerated, path, condition, knownMs="600000")
    assert (scan.served, scan.reason, scan.no_rows) == (None, reason, "many-rows")
    assert accelerated.questions() == before + 1
    served(accelerated, path, condition)
    assert accelerated.questions() == before + 1
