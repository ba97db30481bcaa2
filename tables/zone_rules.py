"""The rules of every named time zone, as in Java: when its clocks changed, from which offset to which.

`zone_rules.txt` is written from a JVM by `tests/support/jvm_zones.py`; its first line names the JDK and the
release of the time zone data, which is in the public domain. Every other line that does not begin with `#` is
` NAME NAME ... ;OFFSET OFFSET ...;CHANGES;RULE RULE ...`:

- names are case-sensitive, with a blank before and after each;
- offsets are seconds ahead of UTC; the first one holds before the first change;
- a change is a number in base 36, the seconds since the change before it (for the first one: since `ORIGIN`),
  and the offset that holds from then on: A is the first of the offsets, B the second;
- each rule makes a change in every later year, for ever: see `YearlyRule`.

The file is read when the first named zone is needed; a line of it is parsed when that zone is needed.
"""

from __future__ import annotations

import datetime
import re
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

from tailbit.base.dataclass import dataclass

_FILE = Path(__file__).with_suffix(".txt")
ORIGIN = -(1 << 33)
"""Seconds since 1970, some two centuries before the first change of any zone."""
_CHANGE = re.compile(r"([0-9a-z]+)([A-Z])")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9~/._+-]+")
_EPOCH = datetime.date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class Change:
    """A clock change of a zone: the instant, and seconds ahead of UTC before and after it."""

    instant: int
    before: int
    after: int

    @property
    def local_end(self) -> int:
        """The local time from which the change is certainly past: behind any gap or overlap."""
        return self.instant + max(self.before, self.after)


@dataclass(frozen=True, slots=True)
class YearlyRule:
    """A clock change that recurs every year.

    The change falls on the first `weekday` (1 is Monday, 0 any) at or after `day` of `month`; a negative day
    counts from the end of the month, and the weekday is then the last one at or before it. The change is at
    `second` of that day, on a clock `reference` seconds ahead of UTC. For example, month 3, day -1 and
    weekday 7 mean the last Sunday of March.
    """

    month: int
    day: int
    weekday: int
    second: int
    reference: int
    before: int
    after: int

    def in_year(self, year: int) -> Change:
        """Return the change in a year of Python's calendar."""
        return Change(
            (self._ordinal(year) - _EPOCH) * 86_400 + self.second - self.reference, self.before, self.after
        )

    def _ordinal(self, year: int) -> int:
        if self.day > 0:
            ordinal = datetime.date(year, self.month, self.day).toordinal()
            return ordinal + (self.weekday - ordinal) % 7 if self.weekday else ordinal
        after = datetime.date(year + self.month // 12, self.month % 12 + 1, 1).toordinal()
        ordinal = after + self.day
        return ordinal - (ordinal - self.weekday) % 7 if self.weekday else ordinal


@dataclass(frozen=True)
class ZoneRules:
    """The clock changes of a zone; `first` is the offset before all changes. Times are in seconds."""

    first: int
    changes: tuple[Change, ...]
    yearly: tuple[YearlyRule, ...]

    @property
    def fixed(self) -> bool:
        """Whether the clocks never change."""
        return not self.changes and not self.yearly


@lru_cache(maxsize=64)
def zone_rules(name: str) -> ZoneRules:
    """Return the rules of a named zone.

    Raises:
        ValueError: Java knows no zone of this name.
    """
    text = rules_text()
    at = text.find(f" {name} ") if _NAME.fullmatch(name) else -1
    start = text.rfind("\n", 0, at) + 1
    if at < 0 or text[start] == "#":
        raise ValueError(f"time zone {name} is unknown")
    return _parsed(text[start : text.index("\n", at)])


@lru_cache(maxsize=1)
def rules_text() -> str:
    """Return the rules of all zones as the package ships them: comments, then a line for each zone."""
    return _FILE.read_text("ascii")


def _parsed(line: str) -> ZoneRules:
    _, offsets, changes, yearly = line.split(";")
    known = [int(offset) for offset in offsets.split()]
    entries = _CHANGE.findall(changes)
    instants = list(accumulate((int(since, 36) for since, _ in entries), initial=ORIGIN))[1:]
    after = [known[ord(letter) - 65] for _, letter in entries]
    before = [known[0], *after]
    return ZoneRules(
        known[0],
        tuple(map(Change, instants, before, after)),
        tuple(YearlyRule(*map(int, rule.split(","))) for rule in yearly.split()),
    )
