"""What is seen of an application: whether it is at work or stands by, signs of life, states of its tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import Any

from tailbit.base.dataclass import dataclass
from tailbit.checkpoints.liveness import Liveness


class TableState(str, Enum):
    """What an application does for one table."""

    WAITING = "waiting"
    """The table is not there yet, another application keeps its index, or it has not been opened yet."""
    BUILDING = "building"
    """The first snapshot is being indexed."""
    FOLLOWING = "following"
    """Every commit that was seen is indexed, or is being indexed within the lag contract."""
    BEHIND = "behind"
    """A commit waits for longer than the lag contract allows."""
    STUCK = "stuck"
    """A request to the table's store, or work on the table, gives no sign of life; it may still go on."""
    RETRYING = "retrying"
    """The last attempt failed; it is tried again after a pause, without end."""
    PAUSED = "paused"
    """The configuration pauses the table."""
    REFUSED = "refused"
    """Only a person can help; the table is tried again when the configuration is read again."""


Account = Mapping[str, Any]
"""What is known of a table: `Member.account`."""

_WELL = (TableState.FOLLOWING.value, TableState.PAUSED.value)


@dataclass
class View:
    """An application as others see it.

    `tables`: returns the accounts of the tables; None while the application stands by or starts. `is_lost`:
    returns whether another application has taken over, though this one has not stepped back yet. `stall_s`:
    seconds without a sign of life after which the application counts as dead; 0 for never. `has_started`:
    whether Spark has started, so that the application could take over at once. `lease`: place of its lease,
    by which one application is told from another; `file`: path of its configuration.
    """

    life: Liveness
    stall_s: float = 0.0
    is_lost: Callable[[], bool] = lambda: False
    tables: Callable[[], Sequence[Account]] | None = None
    has_started: bool = False
    lease: str = ""
    file: str = ""
    clock: Callable[[], float] = time.monotonic
    _lives: int = -1
    _since: float = field(default=0.0)

    @property
    def is_leading(self) -> bool:
        """Return whether the application holds the lease and follows its tables."""
        return self.tables is not None and not self.is_lost()

    def accounts(self) -> Sequence[Account]:
        """Return the accounts of the tables; none while the application stands by."""
        tables = self.tables
        return [] if tables is None or self.is_lost() else tables()

    def why_dead(self) -> str | None:
        """Return why the application counts as dead; None while it gives signs of life.

        The seconds count from the first call after a sign of life, so a probe must call this more often than
        `stall_s`.
        """
        now = self.clock()
        if self.life.lives != self._lives:
            self._lives, self._since = self.life.lives, now
        quiet = now - self._since
        return f"no sign of life for {quiet:.0f} s: {self.life.doing}" if 0 < self.stall_s < quiet else None

    def why_not_ready(self, with_tables: bool = True) -> list[str]:
        """Return a line for each table that is neither followed nor paused; none while standing by.

        While the application starts, one line says so. Otherwise a rolling update would stop another
        application too early, and nobody would be at work. `with_tables`: False for the start alone.
        """
        if not self.has_started:
            return [f"starting: {self.life.doing}"]
        if not with_tables:
            return []
        return [
            f"{account['id']}: {account['state']}" + (f": {account['reason']}" if account["reason"] else "")
            for account in self.accounts()
            if account["state"] not in _WELL
        ]

    def status(self) -> dict[str, Any]:
        """Return all that is seen, JSON-able."""
        return {
            "leading": self.is_leading,
            "lease": self.lease,
            "config": self.file,
            "doing": self.life.doing,
            "tables": list(self.accounts()),
        }
