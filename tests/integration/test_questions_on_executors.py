"""Executors answer questions as `tailbit.open` does, at each version and lag; what cannot be is named."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import deltalake
import pytest

import tailbit
import tailbit.spark
from support.executor_questions import CONDITIONS, history, told
from tailbit.errors import EvaluationError, UsageError, VacuumedFileError, VersionNotFoundError

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return history(str(tmp_path_factory.mktemp("asked") / "t"))


def descriptions(spark: Any) -> list[str]:
    """The descriptions of all jobs so far, the newest first."""
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    return [jobs.apply(number).description().toString() for number in range(jobs.size())]


def rows_of(rows: Any) -> list[str]:
    return sorted(str(tuple(row)) for row in rows)


@pytest.mark.by_thirds
@pytest.mark.parametrize("version", [0, 4, 7])
def test_executors_answer_as_one_process_does(spark: Any, path: str, version: int) -> None:
    there, here = tailbit.spark.open(spark, path, task_bytes=0), tailbit.open(path)
    condition = random.Random(version).choice(CONDITIONS[1:])
    asked, judged = (table.where(condition, version=version) for table in (there, here))
    account, expected_account = asked.explain(["s"], ["x"]), judged.explain(["s"], ["x"])
    assert account["evaluated"]["by"] == "executors"
    assert account["files"] == expected_account["files"]
    assert account.keys() - expected_account.keys() == {"evaluated"}
    assert repr(told(asked)) == repr(told(judged)), condition
    columns = ["k", "s", "day"]
    expected = rows_of(row.values() for row in judged.read(columns).to_pylist())
    assert rows_of(asked.dataframe(columns).collect()) == expected


def test_a_small_question_is_answered_by_the_driver_and_explain_says_so(spark: Any, path: str) -> None:
    answer = tailbit.spark.open(spark, path).where("s = 's1'")
    jobs = descriptions(spark)
    evaluated = answer.explain()["evaluated"]
    assert (evaluated["by"], evaluated["tasks"]) == ("driver", 0)
    assert evaluated["bytes"] < evaluated["task_bytes"]
    assert answer.count() == tailbit.open(path).count("s = 's1'")
    assert descriptions(spark) == jobs


def test_a_job_says_what_it_does_and_leaves_the_description_of_the_session(spark: Any, path: str) -> None:
    context = spark.sparkContext
    context.setJobDescription("mine")
    try:
        tailbit.spark.open(spark, path, task_bytes=0).where("s = 's1'").top("day", 1)
        assert context.getLocalProperty("spark.job.description") == "mine"
    finally:
        context.setLocalProperty("spark.job.description", None)
    assert f"Some(tailbit: count the rows by group of {path} where s = 's1')" in descriptions(spark)


def test_keys_of_a_frame_are_located(spark: Any, path: str) -> None:
    keys = spark.range(3, 70, 20).withColumnRenamed("id", "k")
    found = tailbit.spark.open(spark, path).locate(keys, version=3)
    expected = tailbit.open(path).locate([3, 23, 43, 63], on="k", version=3)
    assert rows_of(found.collect()) == rows_of(row.values() for row in expected.to_pylist())


def test_an_error_of_a_task_is_that_of_one_process(spark: Any, path: str) -> None:
    condition = "100 / (k - 85) > 1"
    with pytest.raises(EvaluationError) as here:
        tailbit.open(path).where(condition).count()
    with pytest.raises(EvaluationError) as there:
        tailbit.spark.open(spark, path, task_bytes=0).where(condition).count()
    assert str(there.value) == str(here.value)


def test_a_version_whose_files_are_gone_names_the_one_that_would_work(spark: Any, tmp_path: Path) -> None:
    path = history(str(tmp_path / "t"))
    deltalake.DeltaTable(path).vacuum(0, dry_run=False, enforce_retention_duration=False)
    table = tailbit.spark.open(spark, path, task_bytes=0)
    with pytest.raises(VacuumedFileError, match="from version 3 on"):
        table.where("x < 2", version=2).count()
    with pytest.raises(VersionNotFoundError):
        table.where(version=99)


class Connect:
    """A session of Spark Connect, as far as it is looked at: it has no Java process."""


def test_a_session_of_connect_is_refused_by_name(path: str) -> None:
    with pytest.raises(UsageError, match="Spark Connect"):
        tailbit.spark.open(Connect(), path)  # type: ignore[arg-type]
