"""Times that a question names: what is read, in which zone, and what is refused."""

from __future__ import annotations

import datetime

import pytest

from tailbit.arguments.values import to_millis
from tailbit.errors import UsageError


@pytest.mark.parametrize(
    ("text", "zone", "millis"),
    [
        ("1970-01-02", "UTC", 86_400_000),
        ("1970-01-01T00:00:01", "UTC", 1000),
        ("1970-01-01 00:00:01.5", "UTC", 1500),
        ("1970-01-01T00:00:01.123456789Z", "UTC", 1123),
        (" 1970-01-01T01:00:00+01:00 ", "UTC", 0),
        ("1970-01-01T01:00", "Europe/Paris", 0),
        ("1970-01-01T01:00Z", "Europe/Paris", 3_600_000),
        ("1969-12-31T23:59:59.9999", "UTC", -1),
    ],
)
def test_a_time_is_read_in_every_usual_form(text: str, zone: str, millis: int) -> None:
    assert to_millis(text, zone) == millis


def test_a_time_may_be_a_datetime() -> None:
    moment = datetime.datetime(1970, 1, 1, 1, tzinfo=datetime.timezone.utc)
    assert to_millis(moment) == 3_600_000
    assert to_millis(moment.replace(tzinfo=None), "Europe/Paris") == 0


@pytest.mark.parametrize(
    "text", ["yesterday", "", "2026-13-01", "2026-01-01T25:00", "12", "2026-01-01T00:00+99"]
)
def test_what_is_no_time_is_refused_by_name(text: str) -> None:
    with pytest.raises(UsageError, match="is not a time"):
        to_millis(text)
