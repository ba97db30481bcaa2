"""A time means the version that Spark's `TIMESTAMP AS OF` means, or is refused as Spark refuses it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

import tailbit
from support.replay import answer, forget_logs, run
from tailbit.errors import VersionNotFoundError
from tailbit.tables import open_table

REFUSED = -1


@pytest.fixture
def spark(replayed_spark: Any) -> Any:
    """A session for what is not recorded."""
    return replayed_spark


@pytest.fixture
def now(spark: Any) -> float:
    """The time in s at which Spark was asked: a commit beyond the retention of files is not read."""
    return float(answer(spark, "now", time.time))


def spell(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def insert(spark: Any, path: str, count: int) -> None:
    """One row a commit, so that the number of rows tells the version."""
    for _ in range(count):
        run(spark, f"insert into delta.`{path}` values (1)")


def set_times(path: str, seconds: Sequence[float]) -> None:
    """The modification times of the commits from 0 on."""
    for version, second in enumerate(seconds):
        os.utime(Path(path) / "_delta_log" / f"{version:020d}.json", (second, second))


def stamps(path: str) -> list[int]:
    """The time in ms that each commit carries."""
    log = Path(path) / "_delta_log"
    lines = (p.read_text().splitlines()[0] for p in sorted(log.glob("0*.json")) if len(p.stem) == 20)
    return [json.loads(line)["commitInfo"].get("inCommitTimestamp", 0) for line in lines]


def around(times: Iterable[int]) -> list[int]:
    return sorted({t + d for t in times for d in (-1, 0, 1)})


def compare(spark: Any, path: str, times: Iterable[int]) -> None:
    """The same number of rows at each time, or refused by both."""
    forget_logs(spark)
    texts, opened = [spell(ms) for ms in times], tailbit.open(path)
    assert {text: ours(opened, text) for text in texts} == answer(
        spark, ["as of", path, texts], lambda: of_spark(spark, path, texts)
    )


def ours(opened: tailbit.IndexedTable, text: str) -> int:
    try:
        return opened.where(as_of=text).count()
    except VersionNotFoundError:
        return REFUSED


def of_spark(spark: Any, path: str, texts: Sequence[str]) -> dict[str, int]:
    """One job for all times that Spark accepts."""
    from pyspark.errors import AnalysisException

    found, frames = dict.fromkeys(texts, REFUSED), []
    for text in texts:
        try:
            frame = spark.read.format("delta").option("timestampAsOf", text).load(path)
        except AnalysisException:
            continue
        frames.append(frame.selectExpr(f"'{text}' AS at", "count(*) AS rows"))
    return found | dict(reduce(lambda a, b: a.union(b), frames).collect())


@pytest.mark.supports("Log", "as of a time, by file times", "exact", note="as Spark's TIMESTAMP AS OF")
def test_a_time_means_what_it_means_to_spark_where_file_times_go_back(
    spark: Any, table_path: str, now: float
) -> None:
    run(spark, f"create table delta.`{table_path}` (a int) using delta")
    insert(spark, table_path, 4)
    seconds = [now - 5000.25, now - 4000.125, now - 4500, now - 4000.126, now - 1000]
    set_times(table_path, seconds)
    compare(spark, table_path, around(int(s * 1000) for s in seconds))


@pytest.mark.supports("Log", "as of a time, by in-commit timestamps", "exact")
@pytest.mark.supports("Table features", "inCommitTimestamp", "exact")
def test_a_time_means_what_it_means_to_spark_where_commits_carry_theirs(
    spark: Any, table_path: str, now: float
) -> None:
    run(spark, f"create table delta.`{table_path}` (a int) using delta")
    insert(spark, table_path, 2)
    files = [now - 5000, now - 4000, now - 3000]
    set_times(table_path, files)
    forget_logs(spark)
    stamped = "set tblproperties ('delta.enableInCommitTimestamps'='true')"
    run(spark, f"alter table delta.`{table_path}` {stamped}")
    insert(spark, table_path, 2)
    set_times(table_path, [*files, now - 9000, now - 8000, now + 9000])
    times = [int(s * 1000) for s in files] + [t for t in stamps(table_path) if t]
    compare(spark, table_path, around([*times, int((now - 8000) * 1000)]))


ENDINGS = {
    "kept": "set tblproperties ('some'='thing')",
    "switched off": "set tblproperties ('delta.enableInCommitTimestamps'='false')",
    "dropped": "drop feature inCommitTimestamp",
}


@pytest.mark.parametrize("how", ENDINGS.values(), ids=ENDINGS)
@pytest.mark.supports("Table features", "inCommitTimestamp, switched off or dropped again", "exact")
def test_a_time_means_what_it_means_to_spark_where_commits_stop_carrying_theirs(
    spark: Any, table_path: str, now: float, how: str
) -> None:
    settings = "tblproperties ('delta.enableInCommitTimestamps'='true')"
    run(spark, f"create table delta.`{table_path}` (a int) using delta {settings}")
    insert(spark, table_path, 2)
    run(spark, f"alter table delta.`{table_path}` {how}")
    insert(spark, table_path, 1)
    seconds = [now - 5000 + 100 * version for version in range(open_table(table_path).head() + 1)]
    set_times(table_path, seconds)
    times = [int(s * 1000) for s in seconds[:4]] + [t for t in stamps(table_path)[:3] if t]
    compare(spark, table_path, around(times))
