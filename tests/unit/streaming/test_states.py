"""The state of a table after a failure, and the pauses between attempts."""

from __future__ import annotations

import pytest

from tailbit.errors import (
    IndexerRunningError,
    NotATableError,
    StorageError,
    TailbitError,
    UnknownColumnError,
    UnsupportedFeatureError,
    UnusableStorageError,
)
from tailbit.streaming.many.states import LONGEST_S, Standing, state_after
from tailbit.streaming.seen.table_state import TableState


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (NotATableError(path="t"), TableState.WAITING),
        (IndexerRunningError(owner="o", path="t", age=1.0, limit=30.0), TableState.WAITING),
        (StorageError(path="t", reason="slow"), TableState.RETRYING),
        (OSError("a worker is gone"), TableState.RETRYING),
        (UnusableStorageError(path="t", reason="no such bucket"), TableState.RETRYING),
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
