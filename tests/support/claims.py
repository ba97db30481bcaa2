"""Two indexers that claim the heartbeat of one index."""

from __future__ import annotations

import pytest

from tailbit.checkpoints.heartbeat import Heartbeat
from tailbit.errors import IndexerRunningError


def check_held(mine: Heartbeat, other: Heartbeat) -> None:
    """Pass if the second claim is refused while the first holds."""
    mine.claim()
    try:
        with pytest.raises(IndexerRunningError):
            other.claim()
    finally:
        mine.release()
