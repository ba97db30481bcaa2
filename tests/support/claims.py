"""Two indexers that claim the heartbeat of one index."""

from __future__ import annotations

import pytest

from tailbit.checkpoints.claim import Claim
from tailbit.errors import IndexerRunningError


def check_held(mine: Claim, other: Claim) -> None:
    """Pass if the second claim is refused while the first holds."""
    mine.acquire()
    try:
        with pytest.raises(IndexerRunningError):
            other.acquire()
    finally:
        mine.release()
