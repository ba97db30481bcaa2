"""Local times and instants by the rules of a zone, change by change: a judge of quicker conversions."""

from __future__ import annotations

import datetime

from tailbit.tables.zone_rules import Change, zone_rules

_US = 1_000_000
_CYCLE = 146_097 * 86_400
"""Seconds after which calendar and weekdays repeat."""
_EPOCH = datetime.date(1970, 1, 1).toordinal()


def local_by_rules(instant: int, zone: str) -> int:
    changes = _changes_near(instant // _US, zone)
    later = [change.before for change in changes if instant // _US < change.instant]
    return instant + (later[0] if later else _last(changes, zone)) * _US


def instant_by_rules(local: int, zone: str) -> int:
    """The instant of a local time; the later offset before a gap, the earlier instant of two."""
    changes = _changes_near(local // _US, zone)
    later = [change.before for change in changes if local // _US < change.local_end]
    return local - (later[0] if later else _last(changes, zone)) * _US


def first_instant_by_rules(local: int, zone: str) -> int:
    """The instant of a local time, or of the jump where the clocks skip the time."""
    later = [c.instant for c in _changes_near(local // _US, zone) if local // _US < c.local_end]
    return min([instant_by_rules(local, zone), *(instant * _US for instant in later[:1])])


def _changes_near(second: int, zone: str) -> list[Change]:
    """The single changes of a zone, and the yearly ones of the three years around a time."""
    rules = zone_rules(zone)
    shift = second // _CYCLE * _CYCLE
    year = datetime.date.fromordinal(_EPOCH + (second - shift) // 86_400).year
    every = [rule.in_year(near) for near in (year - 1, year, year + 1) for rule in rules.yearly]
    yearly = [Change(change.instant + shift, change.before, change.after) for change in every]
    last = rules.changes[-1].instant if rules.changes else -(1 << 62)
    later = sorted((change for change in yearly if change.instant > last), key=lambda change: change.instant)
    return [*rules.changes, *later]


def _last(changes: list[Change], zone: str) -> int:
    return changes[-1].after if changes else zone_rules(zone).first
