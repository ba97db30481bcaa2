"""What a query met at its end is told by its true cause, and nothing is left in the way of what vanished."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from support.tables import three_commits
from tailbit.checkpoints.claim import Claim
from tailbit.errors import CorruptIndexError, NoIndexError, NotATableError, StreamError
from tailbit.streaming.query import run as query_run
from tailbit.streaming.query.launch import Prepared, prepare
from tailbit.streaming.query.run import Run, as_vanished

MISSING = CorruptIndexError(file="kind=ledger/x.parquet", reason="it is missing")
OTHER = StreamError(reason="no", checkpoint="c")


@pytest.fixture
def prepared(tmp_path: Path) -> Prepared:
    return prepare(three_commits(str(tmp_path / "t")), ["k"], None, None, "0 seconds")


@pytest.mark.parametrize("met", [MISSING, OTHER])
def test_a_trouble_of_table_and_index_that_are_there_is_told_as_it_was_met(
    prepared: Prepared, met: CorruptIndexError | StreamError
) -> None:
    assert as_vanished(prepared, met) is met


def test_a_file_that_is_missing_with_its_whole_index_is_no_damage(prepared: Prepared, tmp_path: Path) -> None:
    Path(prepared.index.path).rename(tmp_path / "away")
    found = as_vanished(prepared, MISSING)
    assert isinstance(found, NoIndexError)
    assert found.fields["path"] == prepared.index.path


def test_what_spark_made_where_a_table_had_vanished_is_gone_before_that_is_told(
    prepared: Prepared, tmp_path: Path
) -> None:
    table = Path(prepared.table.root)
    table.rename(tmp_path / "away")
    commits = Path(prepared.checkpoint, "commits")
    commits.mkdir(parents=True)
    (commits / "0").write_text("Spark ended its batch after the table had vanished")
    assert isinstance(as_vanished(prepared, OTHER), NotATableError)
    (tmp_path / "away").rename(table)
    assert as_vanished(prepared, OTHER) is OTHER


def test_what_spark_refuses_by_its_own_name_when_a_query_is_started_ends_by_ours(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = PySparkException("Cannot start query with name t: it is already active")

    def refuse(*_: object) -> None:
        raise refused

    monkeypatch.setattr(query_run, "launch", refuse)
    run = Run(prepared, Claim(prepared.index.storage), True, threading.Event())
    with pytest.raises(StreamError, match="already active"):
        query_run.run_to_its_end(run, None)  # type: ignore[arg-type]
