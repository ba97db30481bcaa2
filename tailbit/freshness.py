"""How far the index may be behind a question: limits given when a table is opened, and waiting for the index.

An answer is right at any lag; a lag costs the scan of the uncovered files. A caller who prefers an error to a
slow answer states how far the index must be, and gets a named error if it is not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from tailbit.arguments.values import seconds, whole
from tailbit.base.errors import CommitGapError, StaleIndexError
from tailbit.tables.model import Version, after
from tailbit.tables.table import Table

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 0.5
"""A wait looks at the index anew after these pauses, each twice as long as the one before."""


class Freshness(NamedTuple):
    """The limits on the index's lag: a version that must be covered, and an age in seconds, or None."""

    at_least: Version | None = None
    max_staleness: float | None = None

    @classmethod
    def of(cls, at_least: int | None, max_staleness: float | None) -> Freshness:
        """Return the limits that a caller's arguments state.

        Raises:
            UsageError: `at_least` is no version, or `max_staleness` no number of seconds.
        """
        return cls(
            None if at_least is None else whole("at_least", at_least),
            None if max_staleness is None else seconds("max_staleness", max_staleness),
        )

    def check(self, table: Table, version: Version, covered: Version | None) -> None:
        """Raise if the index does not cover enough for a question at a version.

        Cost: at most one commit is read.

        Raises:
            StaleIndexError: the index does not cover enough.
        """
        if self.at_least is not None and (covered is None or covered < self.at_least):
            raise stale(table, covered, f"version {self.at_least}")
        if self.max_staleness is not None and (covered is None or covered < version):
            behind = _seconds_behind(table, covered, version)
            if behind is None or behind > self.max_staleness:
                lag = "an unknown time" if behind is None else f"{behind:.1f} s"
                required = f"all commits older than {self.max_staleness:g} s; it is {lag} behind"
                raise stale(table, covered, required)


def stale(table: Table, covered: Version | None, required: str) -> StaleIndexError:
    """Return the error for an index that covers too little; `required`: what must be covered, in words."""
    so_far = "no version" if covered is None else f"version {table.name_of(covered)}"
    return StaleIndexError(path=table.root, covered=so_far, wanted=required)


def _seconds_behind(table: Table, covered: Version | None, version: Version) -> float | None:
    """Return the seconds since the oldest commit up to `version` that is not covered; None if unknown."""
    if covered is None:
        return None
    try:
        (oldest,) = table.versions(after(covered), version, most=1)
        return max(0.0, time.time() - table.commit_timestamp(oldest) / 1000)
    except CommitGapError:
        return None


def wait_until_covered(
    covered: Callable[[], Version | None], table: Table, version: Version, timeout: float | None
) -> Version:
    """Wait until `covered`, which refreshes the index, returns `version` or later; return that version.

    Raises:
        StaleIndexError: the version is not covered within `timeout` seconds.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    pause = _FIRST_PAUSE_S
    while (covered_version := covered()) is None or covered_version < version:
        seconds_left = _LONGEST_PAUSE_S if deadline is None else deadline - time.monotonic()
        if seconds_left <= 0:
            raise stale(table, covered_version, f"version {version} within {timeout:g} s")
        time.sleep(min(pause, seconds_left))
        pause = min(2 * pause, _LONGEST_PAUSE_S)
    return covered_version
