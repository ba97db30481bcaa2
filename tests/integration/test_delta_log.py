"""Logs that Spark wrote, in every form: at every version the answers are those that Spark gives."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import tailbit
from support.delta_builder import DeltaBuilder
from support.judged import JudgedTable
from support.replay import forget_logs
from tailbit.errors import CommitGapError, UnknownColumnError, UsageError
from tailbit.tables import open_table
from tailbit.tables.snapshot import Snapshot


@pytest.fixture
def spark(replayed_spark: Any) -> Any:
    """A session for what is not recorded."""
    return replayed_spark


CHECKSUMS: dict[str, Any] = {"spark__databricks__delta__writeChecksumFile__enabled": "true"}
ROWS = pa.table({"a": pa.array([1, 2, None], pa.int64())})
QUESTIONS = ("a = 3", "b = 'x' OR a > 40", "p IS NULL", "NOT (p = 'q/ 1%' AND b = 'y')")

FORMS = {
    2: (r"\.checkpoint\.parquet", 1),
    4: (r"\.checkpoint\.\d{10}\.\d{10}\.parquet", 2),
    6: (r"\.checkpoint\.[0-9a-f-]{36}\.json", 1),
    8: (r"\.checkpoint\.[0-9a-f-]{36}\.parquet", 1),
}
"""Version to how its log checkpoint is named, and the least number of such files."""


@pytest.fixture(scope="module")
def written(replayed_once: tuple[Any, Path]) -> str:
    """A table with a log checkpoint of each form, and commits after the last."""
    session, folder = replayed_once
    table = JudgedTable(session, str(folder / "table"), [])
    rows = [
        f"insert into {{t}} values ({n}, 'x', null), ({n + 1}, 'y', 'q/ 1%'), ({n + 2}, null, '')"
        for n in range(0, 60, 3)
    ]
    v2 = {**CHECKSUMS, "follow": False, "spark__databricks__delta__checkpoint__partSize": "2"}
    table.sql(
        "create table {t} (a int, b string, p string) using delta partitioned by (p) tblproperties"
        " ('delta.enableDeletionVectors'='true', 'delta.checkpointInterval'='2')",
        *rows[:2],
        follow=False,
        **CHECKSUMS,
    )
    table.sql("delete from {t} where a % 3 = 1 and a < 3", rows[2], **v2)
    table.sql(
        "alter table {t} set tblproperties ('delta.checkpointPolicy'='v2')",
        rows[3],
        **v2,
        spark__databricks__delta__checkpointV2__topLevelFileFormat="json",
    )
    table.sql(
        "delete from {t} where a = 6",
        rows[4],
        **v2,
        spark__databricks__delta__checkpointV2__topLevelFileFormat="parquet",
    )
    table.sql(
        "alter table {t} set tblproperties ('delta.checkpointInterval'='100')",
        *rows[5:7],
        "delete from {t} where a in (4, 12)",
        follow=False,
        **CHECKSUMS,
    )
    return table.path


@pytest.fixture
def copied(spark: Any, written: str, table_path: str) -> str:
    shutil.copytree(written, table_path)
    forget_logs(spark)
    return table_path


def log_of(path: str) -> Path:
    return Path(path) / "_delta_log"


def names(path: str, pattern: str) -> list[str]:
    return sorted(name for name in os.listdir(log_of(path)) if re.fullmatch(pattern, name))


def delete(path: str, found: Iterable[str]) -> None:
    for name in found:
        (log_of(path) / name).unlink()


def described(snapshot: Snapshot) -> list[object]:
    """All that a snapshot says but its statistics."""
    files = [(f.path, f.size, f.mtime, f.rows, f.partition, f.hidden_id) for f in snapshot.files]
    return [snapshot.metadata, snapshot.protocol, files]


@pytest.mark.supports("Log", "classic log checkpoint", "exact")
@pytest.mark.supports("Log", "multi-part log checkpoint", "exact")
@pytest.mark.supports("Log", "V2 log checkpoint with JSON manifest and sidecars", "exact")
@pytest.mark.supports("Log", "V2 log checkpoint with Parquet manifest and sidecars", "exact")
@pytest.mark.supports("Table features", "v2Checkpoint", "exact")
def test_every_form_of_log_checkpoint_gives_what_spark_reads(spark: Any, copied: str) -> None:
    for version, (form, count) in FORMS.items():
        assert len(names(copied, f"{version:020d}{form}")) >= count
    JudgedTable(spark, copied, ["a", "b", "p"]).judge(*QUESTIONS)


@pytest.mark.parametrize("version", FORMS)
def test_a_log_checkpoint_of_spark_alone_is_the_state_that_the_commits_give(
    copied: str, table_path: str, version: int
) -> None:
    commits = f"{table_path}-commits"
    shutil.copytree(copied, commits)
    delete(commits, names(commits, r".*checkpoint.*\.(parquet|json)"))
    form = f"{version:020d}" + FORMS[version][0]
    delete(copied, set(names(copied, r"\d{20}\..*")) - set(names(copied, form)))
    assert described(open_table(copied).snapshot()) == described(open_table(commits).snapshot(version))


def compact(path: str, first: int, last: int) -> None:
    """A log compaction file: the newest word on every path, as the protocol says."""
    newest: dict[str, dict[str, Any]] = {}
    for version in range(first, last + 1):
        lines = (log_of(path) / f"{version:020d}.json").read_text().splitlines()
        actions = sorted((json.loads(line) for line in lines), key=lambda action: "add" in action)
        for action in actions:
            for kind in ("remove", "add"):
                if kind in action:
                    newest[action[kind]["path"] + json.dumps(action[kind].get("deletionVector"))] = action
    text = "".join(json.dumps(action) + "\n" for action in newest.values())
    (log_of(path) / f"{first:020d}.{last:020d}.compacted.json").write_text(text)


@pytest.mark.supports("Log", "log compaction files", "exact", note="the commits are read")
@pytest.mark.supports("Log", "stale `_last_checkpoint`", "exact")
@pytest.mark.supports("Log", "`.crc` files, right, stale or corrupt", "exact", note="not read")
@pytest.mark.supports("Log", "staged commits", "exact", note="not part of the table: not read")
def test_compactions_stale_hints_checksums_and_staged_commits_change_nothing(spark: Any, copied: str) -> None:
    log, head = log_of(copied), open_table(copied).head()
    compact(copied, head - 2, head)
    hint = json.loads((log / "_last_checkpoint").read_text())
    assert hint["version"] == 8
    (log / "_last_checkpoint").write_text(json.dumps({"version": 2, "size": hint["size"]}))
    shutil.copy(log / f"{3:020d}.crc", log / f"{5:020d}.crc")
    (log / f"{head:020d}.crc").write_text("{")
    staged = log / "_staged_commits"
    staged.mkdir(exist_ok=True)
    shutil.copy(log / f"{1:020d}.json", staged / f"{head + 1:020d}.01234567-89ab-cdef-0123-456789abcdef.json")
    forget_logs(spark)
    JudgedTable(spark, copied, ["a", "p"]).judge(*QUESTIONS, versions=range(head - 2, head + 1))


@pytest.mark.parametrize("hint", ["", "{", '{"version":99,"size":1}', None])
@pytest.mark.supports("Log", "corrupt or missing `_last_checkpoint`", "exact")
def test_a_corrupt_or_missing_hint_changes_nothing(copied: str, hint: str | None) -> None:
    before = described(open_table(copied).snapshot())
    (log_of(copied) / "_last_checkpoint").unlink()
    if hint is not None:
        (log_of(copied) / "_last_checkpoint").write_text(hint)
    assert described(open_table(copied).snapshot()) == before


@pytest.mark.supports("Log", "metadata without a schema (Delta Live Tables)", "exact", note="no columns yet")
def test_a_table_whose_first_commits_set_no_schema_has_no_columns_until_one_does(
    spark: Any, table_path: str
) -> None:
    made = DeltaBuilder(table_path).create_without_columns()
    made.commit([])
    made.commit([{"metaData": made.metadata_action(ROWS.schema, table_id=made.metadata["id"])}])
    made.commit([made.data_file(ROWS)])
    JudgedTable(spark, table_path, ["a"]).judge("a = 2", "a IS NULL", versions=[2, 3])
    for version in (0, 1):
        theirs = spark.read.format("delta").option("versionAsOf", version).load(table_path)
        assert theirs.columns == []
        with pytest.raises(PySparkException, match="DELTA_READ_TABLE_WITHOUT_COLUMNS"):
            theirs.collect()
        opened = tailbit.open(table_path)
        assert opened.where("1 = 1", version=version).count() == 0
        with pytest.raises(UsageError, match=f"no columns at version {version}"):
            opened.where(version=version).read()
        with pytest.raises(UnknownColumnError):
            opened.where("a = 2", version=version)


@pytest.mark.supports("Log", "a gap in the log", "refused")
def test_a_gap_in_the_log_of_spark_is_refused_by_its_version(copied: str) -> None:
    delete(copied, [f"{10:020d}.json"])
    with pytest.raises(CommitGapError, match="commit 10 is missing"):
        open_table(copied).snapshot()
    with pytest.raises(CommitGapError, match="commit 10 is missing"):
        open_table(copied).changes(9, 11)
    assert len(open_table(copied).snapshot(9).files) > 0


@pytest.mark.supports("Log", "a log cleaned up while the stream was down", "exact", note="by a new round")
def test_a_log_that_spark_cleaned_up_while_the_stream_was_down_is_caught_up_with(
    spark: Any, table_path: str
) -> None:
    table = JudgedTable(spark, table_path, ["a", "b"])
    table.sql(
        "create table {t} (a int, b string) using delta tblproperties ('delta.checkpointInterval'='4',"
        " 'delta.enableDeletionVectors'='true', 'delta.logRetentionDuration'='interval 8 days')",
        "insert into {t} select id, 'x' from range(0, 10, 1, 1)",
        "insert into {t} values (100, 'y'), (101, null)",
    )
    table.sql(
        "delete from {t} where a = 3",
        "optimize {t}",
        "insert into {t} values (5, 'z')",
        "delete from {t} where a = 5",
        follow=False,
    )
    long_ago = time.time() - 20 * 86400
    for number, name in enumerate(names(table_path, r"0{19}[0-4]\..*")):
        os.utime(log_of(table_path) / name, (long_ago + number, long_ago + number))
    table.sql("insert into {t} values (6, 'w')", "insert into {t} values (7, 'v')", follow=False)
    assert open_table(table_path).earliest() == 4
    assert not names(table_path, r"0{19}[0-3]\.json")
    table.judge("a = 5", "b = 'x'", "b IS NULL OR a > 50", versions=range(5, 9))
    table.judge_facets("a", "b")
