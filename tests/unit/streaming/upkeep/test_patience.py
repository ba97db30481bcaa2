"""What passes is waited for, with longer and longer pauses, up to a stated time; all else ends the run."""

from __future__ import annotations

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
from tailbit.streaming.upkeep.patience import WAIT_S, Patience

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


def test_once_something_worked_the_next_trouble_has_all_the_time_again() -> None:
    clock = Clock()
    patience = Patience(limit_s=10.0, clock=clock)
    assert patience.pause(PASSING[0]) == 0.5
    clock.now = 9.5
    assert patience.pause(PASSING[0]) == 0.5
    patience.worked()
    clock.now = 11.0
    assert patience.pause(PASSING[0]) == 0.5


def test_what_was_taken_away_is_tried_again_though_its_error_does_not_pass() -> None:
    assert Patience().pause(LASTING[0], mended=True) == 0.5
