"""What passes is waited for, with longer and longer pauses, up to a stated time; all else ends the run."""

from __future__ import annotations

import pickle

import pytest

from tailbit.errors import (
    CorruptIndexError,
    DataFileError,
    IndexLogError,
    MalformedLogError,
    NoIndexError,
    NotATableError,
    StorageError,
    StreamError,
    TailbitError,
    UnsupportedFeatureError,
)
from tailbit.streaming.patience import WAIT_S, Patience, is_transient, refused_write, worth_a_restart

PASSING: tuple[TailbitError, ...] = (
    StorageError(path="i", reason="the disk is full"),
    NoIndexError(path="i"),
    NotATableError(path="t", reason="there is nothing"),
    MalformedLogError(file="00.json", reason="it ends in the middle of a line"),
    IndexLogError(file="i", reason="a commit ends in the middle of a line"),
    StreamError(
        reason="Job aborted: org.apache.spark.SparkException: Python worker exited unexpectedly",
        checkpoint="c",
    ),
    StreamError(reason="[STREAM_FAILED] ... java.net.SocketException: Broken pipe", checkpoint="c"),
)

LASTING: tuple[TailbitError, ...] = (
    DataFileError(file="f", reason="it is missing"),
    UnsupportedFeatureError(path="t", version=1, feature="x"),
    CorruptIndexError(file="kind=settings", reason="it is missing"),
    StreamError(reason="Spark's Java process is gone (Py4JNetworkError)", checkpoint="c"),
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("error", PASSING, ids=lambda e: type(e).__name__)
def test_a_trouble_that_passes_is_waited_for_with_back_off_up_to_a_stated_time(error: TailbitError) -> None:
    clock = Clock()
    patience, pauses = Patience(clock=clock), list[float]()
    while (pause := patience.pause(error)) is not None:
        pauses.append(pause)
        clock.now += pause
    assert clock.now == WAIT_S
    assert pauses[:4] == [0.5, 1.0, 2.0, 4.0]
    assert max(pauses) == 30.0


@pytest.mark.parametrize("error", LASTING, ids=lambda e: str(e)[:20])
def test_a_trouble_that_does_not_pass_ends_the_run_at_once(error: TailbitError) -> None:
    assert Patience().pause(error) is None


@pytest.mark.parametrize("error", PASSING, ids=lambda e: type(e).__name__)
def test_a_trouble_that_outlasts_all_patience_is_worth_a_restart(error: TailbitError) -> None:
    assert is_transient(error)
    ended = worth_a_restart(error, 600.0)
    assert (type(ended), str(ended), ended.retryable) == (type(error), str(error), True)
    assert pickle.loads(pickle.dumps(ended)).retryable


def test_a_trouble_that_lasts_is_not_worth_a_restart_and_a_torn_log_at_the_start_is() -> None:
    for lasting in LASTING[:3]:
        assert worth_a_restart(lasting, 600.0) is lasting
        assert not lasting.retryable
    torn = worth_a_restart(PASSING[3])
    assert (torn.retryable, torn.hint) == (True, MalformedLogError.hint)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("java.io.IOException: No space left on device", "the disk is full"),
        ("java.io.FileNotFoundException: /i/_checkpoint/offsets/.4.tmp (Read-only file system)", None),
        ("java.io.FileNotFoundException: /i/_checkpoint/offsets/.4.tmp (Permission denied)", None),
    ],
)
def test_a_disk_that_does_not_let_spark_write_is_waited_for_by_its_true_cause(
    said: str, reason: str | None
) -> None:
    found = refused_write(f"[STREAM_FAILED] Query terminated: {said}", "i/_checkpoint")
    assert found is not None
    assert is_transient(found)
    assert found.fields["reason"] == reason or f"({found.fields['reason']})" in said
    assert refused_write("Python worker exited unexpectedly", "c") is None


def test_once_something_worked_the_next_trouble_has_all_the_time_again() -> None:
    clock = Clock()
    patience = Patience(limit_s=10.0, clock=clock)
    assert patience.pause(PASSING[0]) == 0.5
    clock.now = 9.5
    assert patience.pause(PASSING[0]) == 0.5
    patience.worked()
    clock.now = 11.0
    assert patience.pause(PASSING[0]) == 0.5


def test_a_failure_lasts_as_long_as_every_one_is_of_its_class() -> None:
    clock = Clock()
    patience = Patience(limit_s=600.0, clock=clock)
    patience.pause(StorageError(path="t", reason="busy"))
    clock.now = 300.0
    patience.pause(IndexLogError(file="x", reason="torn"))
    assert patience.lasts() == 0.0
    clock.now = 312.0
    patience.pause(IndexLogError(file="x", reason="torn"))
    assert patience.lasts() == 12.0
    patience.worked()
    assert patience.lasts() == 0.0


def test_what_was_taken_away_is_tried_again_though_its_error_does_not_pass() -> None:
    assert Patience().pause(LASTING[0], mended=True) == 0.5
