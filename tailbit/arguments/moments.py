"""Times in a question as milliseconds since 1970, and the time zones to read them in."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from tailbit.arguments.values import text, wrong_type
from tailbit.base.errors import UsageError
from tailbit.base.lazy import lazy
from tailbit.tables.zones.times import same_zone

if TYPE_CHECKING:
    from tailbit.tables import partition_values
else:
    partition_values = lazy("tailbit.tables.partition_values")


def known_zone(name: str, zone: str) -> str:
    """Check that a time zone exists; return its name, the same name for all zones of one fixed offset.

    Raises:
        UsageError: there is no such zone, or it is no text.
    """
    try:
        return same_zone(text(name, zone))
    except ValueError as unknown:
        raise UsageError(
            reason=f"there is no time zone {zone!r}", hint="Name it like UTC, +01:00 or Europe/Paris."
        ) from unknown


def to_millis(when: datetime.date | str, zone: str = "UTC") -> int:
    """Return a time as milliseconds since 1970; text is ISO 8601, a date is its midnight.

    A time without an offset is in `zone`.

    >>> to_millis("1970-01-02"), to_millis("1970-01-01T01:00:00.5+01:00")
    (86400000, 500)

    Raises:
        UsageError: the text is not a time, or there is no such zone.
    """
    known_zone("zone", zone)
    if not isinstance(when, (datetime.date, str)):
        raise wrong_type("as_of", when, "a datetime, a date or text like 2026-01-31T12:00:00")
    try:
        if isinstance(when, datetime.datetime) and when.tzinfo is not None:
            return int(when.timestamp() * 1000)
        when = when if isinstance(when, str) else when.isoformat()
        return partition_values.parse_micros(when, zone) // 1000
    except ValueError as wrong:
        raise UsageError(
            reason=f"{when!r} is not a time", hint="Write it like 2026-01-31T12:00:00 or 2026-01-31."
        ) from wrong
