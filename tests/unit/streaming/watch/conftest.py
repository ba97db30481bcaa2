"""A table of an application, as its pages and alerts see it."""

from __future__ import annotations

import pytest

from tailbit.checkpoints.lag import Lag
from tailbit.checkpoints.liveness import Liveness
from tailbit.streaming.config.model import TableEntry
from tailbit.streaming.many.member import Member, TableLife
from tailbit.streaming.watch.view import TableState


@pytest.fixture
def table() -> Member:
    """A table that is followed and up to date."""
    followed = Member(TableEntry(path="/lake/orders", id="orders"), TableLife("orders", Liveness()))
    followed.standing.becomes(TableState.FOLLOWING)
    followed.stands_at(Lag(5, 5))
    return followed
