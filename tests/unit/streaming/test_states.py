"""The state of a table after a failure, and the pauses between attempts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tailbit.errors import (
    CommitGapError,
    IndexerRunningError,
    NotATableError,
    StorageError,
    TailbitError,
    UnknownColumnError,
    UnsupportedFeatureError,
    UnusableStorageError,
    VersionNotFoundError,
)
from tailbit.streaming.many import application
from tailbit.streaming.many.states import LONGEST_S, Standing, state_after, states_of
from tailbit.streaming.watch.view import TableState
from tailbit.tables.storage import open_storage


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (NotATableError(path="t"), TableState.WAITING),
        (IndexerRunningError(owner="o", path="t", age=1.0, limit=30.0), TableState.WAITING),
        (StorageError(path="t", reason="slow"), TableState.RETRYING),
        (OSError("a worker is gone"), TableState.RETRYING),
        (UnusableStorageError(path="t", reason="no such bucket"), TableState.RETRYING),
        (CommitGapError(path="t", first=0, found=10), TableState.RETRYING),
        (VersionNotFoundError(path="t", version=3), TableState.RETRYING),
        (UnsupportedFeatureError(path="t", version=1, feature="f"), TableState.REFUSED),
        (UnknownColumnError(column="c"), TableState.REFUSED),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value,
)
def test_a_failure_waits_is_tried_again_or_needs_a_person(error: Exception, state: TableState) -> None:
    standing = Standing()
    standing.failed(error)
    assert standing.state is state_after(error) is state
    assert isinstance(error, TailbitError) == bool(standing.remedy)


def test_the_pauses_double_up_to_the_longest_and_never_end() -> None:
    now = 0.0
    standing = Standing(clock=lambda: now)
    pauses = []
    for _ in range(2000):
        standing.failed(StorageError(path="t", reason="slow"))
        pauses.append(standing.retry_at - now)
        assert not standing.is_due
        now = standing.retry_at
        assert standing.is_due
    assert pauses[:4] == [0.5, 1.0, 2.0, 4.0]
    assert pauses[-1] == LONGEST_S
    standing.worked()
    standing.failed(StorageError(path="t", reason="slow"))
    assert standing.retry_at - now == 0.5


def test_a_failure_of_java_is_one_line_that_does_not_change() -> None:
    standing = Standing()
    said = (
        "An error occurred while calling o{}.collect.\n: org.apache.spark.SparkException: lost\n\tat x.Y(Z)"
    )
    assert standing.failed(ValueError(said.format(12)))
    assert standing.reason == "ValueError: org.apache.spark.SparkException: lost"
    assert not standing.failed(ValueError(said.format(13)))


def test_states_that_could_not_be_written_are_written_at_the_next_chance(tmp_path: Path) -> None:
    tables = SimpleNamespace(
        states=lambda: [{"id": "orders", "state": "refused", "reason": "no"}],
        standings=lambda: [("orders", "refused", "no")],
    )
    place = open_storage(str(tmp_path / "lease"))
    before = application._write_states(tables, place, "")  # type: ignore[arg-type]
    assert (before, states_of(place)) == ("", {})
    place.make_root()
    after = application._write_states(tables, place, before)  # type: ignore[arg-type]
    assert after
    assert states_of(place)["orders"]["state"] == "refused"
