"""Why a query ended is known at every moment after its end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from support.tables import three_commits
from support.waiting import HANG_S
from tailbit.checkpoints.claim import Claim
from tailbit.errors import CorruptIndexError, NoIndexError, NotATableError, StreamError, TailbitError
from tailbit.streaming.job import Running
from tailbit.streaming.query import run as query_run
from tailbit.streaming.query.launch import Prepared, prepare
from tailbit.streaming.query.run import Run, as_vanished

FAILURE = StreamError(reason="it ended", checkpoint="c")


class Ended:
    """A job that has ended with a failure; `ask` is called once in each step of its being closed."""

    def __init__(self, failure: TailbitError | None, ask: Callable[[], object]) -> None:
        self._failure, self._ask = failure, ask
        self.seen: list[object] = []
        self.closed = 0
        self._asked = False

    def failure(self) -> TailbitError | None:
        if not self._asked:
            self._asked = True
            self.seen.append(self._ask())
        return self._failure

    def close(self) -> None:
        self.closed += 1
        self.seen.append(self._ask())
        self._failure = None


def test_a_failure_is_known_before_while_and_after_its_job_is_closed() -> None:
    running: Running[Ended] = Running()
    job = Ended(FAILURE, lambda: running.failure_of("1"))
    running.add("1", job)
    running.end("1")
    assert (job.seen, running.failure_of("1"), running.jobs()) == ([FAILURE, FAILURE], FAILURE, [])


def test_a_job_that_is_closed_while_it_is_asked_still_names_its_failure() -> None:
    running: Running[Ended] = Running()
    job = Ended(FAILURE, lambda: running.end("1"))
    running.add("1", job)
    assert running.failure_of("1") is FAILURE


def test_a_job_that_ended_twice_is_closed_once() -> None:
    running: Running[Ended] = Running()
    job = Ended(None, lambda: running.end("1"))
    running.add("1", job)
    running.end("1")
    running.end("1", is_lost=True)
    assert (job.closed, running.failure_of("1")) == (1, None)


def test_who_comes_second_waits_until_the_job_is_closed() -> None:
    running: Running[Ended] = Running()
    begins, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    class Slow(Ended):
        def close(self) -> None:
            begins.set()
            assert may_end.wait(HANG_S)
            super().close()
            ended.set()

    running.add("1", Slow(None, lambda: None))
    first = threading.Thread(target=running.end, args=("1",))
    first.start()
    assert begins.wait(HANG_S)
    seen: list[bool] = []

    def come_second() -> None:
        for run, _ in running.jobs():
            running.end(run)
        seen.append(ended.is_set())

    second = threading.Thread(target=come_second)
    second.start()
    second.join(0.2)
    assert second.is_alive()
    may_end.set()
    for thread in (first, second):
        thread.join(HANG_S)
    assert (seen, running.jobs()) == ([True], [])


def test_another_run_of_a_query_does_not_inherit_the_failure_of_the_one_before() -> None:
    running: Running[Ended] = Running()
    for run, failure in (("1", FAILURE), ("2", None)):
        running.add(run, Ended(failure, lambda: None))
        running.end(run)
    assert (running.failure_of("1"), running.failure_of("2")) == (FAILURE, None)


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
