"""Local times and instants by the rules of the package; the integration tests ask the JVM for them."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable

import numpy as np
import pytest

from support.by_rules import first_instant_by_rules, instant_by_rules, local_by_rules
from support.jvm_zones import zone_data, zone_names
from support.zoned import edges
from tailbit.base.arrays import Longs
from tailbit.tables.partition_values import parse_micros
from tailbit.tables.zone_rules import Change, YearlyRule, zone_rules
from tailbit.tables.zones import (
    changes_between,
    check_zone,
    first_instant,
    fixed_offset,
    offsets_of_instants,
    offsets_of_local,
    offsets_of_starts,
    to_instant,
    to_local,
)

CYCLE = 146_097 * 86_400
"""Seconds of 400 years."""


def us(text: str) -> int:
    """Microseconds since 1970 of a time in UTC."""
    return parse_micros(text, None)


@pytest.mark.parametrize(
    ("local", "zone", "instant"),
    [
        ("2020-03-29 02:30:00", "Europe/Paris", "2020-03-29 01:30:00"),
        ("2020-10-25 02:30:00", "Europe/Paris", "2020-10-25 00:30:00"),
        ("1919-03-31 00:15:00", "America/Toronto", "1919-03-31 05:15:00"),
        ("1850-01-01 00:00:00", "Europe/Oslo", "1849-12-31 23:06:32"),
        ("1942-07-01 00:00:00", "Africa/Dakar", "1942-07-01 00:00:00"),
        ("9999-07-01 00:00:00", "Europe/Paris", "9999-06-30 22:00:00"),
        ("2020-07-01 00:00:00", "PST", "2020-07-01 07:00:00"),
        ("2020-07-01 00:00:00", "EST", "2020-07-01 05:00:00"),
    ],
)
def test_a_local_time_is_an_instant(local: str, zone: str, instant: str) -> None:
    assert to_instant(us(local), zone) == us(instant)


@pytest.mark.parametrize("year", ["1980", "2024", "2124", "2899"])
def test_the_changes_of_clocks_in_a_year_are_two_in_any_century(year: str) -> None:
    changes = changes_between(us(f"{year}-01-01 00:00:00"), us(f"{year}-12-31 00:00:00"), "Europe/Paris")
    offsets = offsets_of_instants(np.array([at + by for at in changes for by in (-1, 0)]), "Europe/Paris")
    assert (offsets // 3_600_000_000).tolist() == [1, 2, 2, 1]
    assert changes_between(changes[0] + 1, changes[1] - 1, "Europe/Paris") == []
    assert changes_between(changes[0], changes[1], "+01:00") == []


def test_a_day_begins_after_the_gap_where_clocks_jumped_over_midnight() -> None:
    midnight = us("1919-03-31 00:00:00")
    assert first_instant(midnight, "America/Toronto") == us("1919-03-31 04:30:00")
    assert to_instant(midnight, "America/Toronto") == us("1919-03-31 05:00:00")


def test_a_day_that_a_zone_left_out_begins_with_the_next() -> None:
    left_out, next_ = (first_instant(us(f"2011-12-{day} 00:00:00"), "Pacific/Apia") for day in (30, 31))
    assert left_out == next_ == us("2011-12-30 10:00:00")


@pytest.mark.parametrize("cycles", [-700, -1, 1, 2, 700])
def test_years_of_any_size_have_rules(cycles: int) -> None:
    base = us("2100-07-01 00:00:00") if cycles > 0 else us("1700-07-01 00:00:00")
    far = base + cycles * CYCLE * 1_000_000
    expected = 7_200 if cycles > 0 else 561
    assert far - to_instant(far, "Europe/Paris") == expected * 1_000_000
    assert to_local(far, "Europe/Paris") - far == expected * 1_000_000


def test_a_rule_of_the_last_weekday_before_a_day_of_the_month() -> None:
    last_sunday = YearlyRule(3, -1, 7, 3_600, 0, 0, 3_600)
    fixed_day = YearlyRule(12, -1, 0, 0, 0, 3_600, 0)
    utc = datetime.timezone.utc
    assert last_sunday.in_year(2020).instant == datetime.datetime(2020, 3, 29, 1, tzinfo=utc).timestamp()
    assert fixed_day.in_year(2020).instant == datetime.datetime(2020, 12, 31, tzinfo=utc).timestamp()


def test_a_zone_whose_clocks_never_change_is_an_offset() -> None:
    assert [fixed_offset(zone) for zone in ("Etc/GMT+5", "EST", "Zulu")] == [-18_000_000_000] * 2 + [0]
    assert fixed_offset("Europe/Paris") is None


UNKNOWN = (
    *(
        "right/UTC",
        "posix/Europe/Oslo",
        "localtime",
        "Factory",
        "posixrules",
        "europe/oslo",
        "Mars/Base",
        "#",
    ),
    *("", " ", "utc", "UTC+", "+1:0:0", "+123", "+19", "UTC0", "Europe/Oslo Europe/Paris", "OpenJDK", "../x"),
)


@pytest.mark.parametrize("zone", UNKNOWN)
def test_a_zone_that_java_does_not_know_is_refused(zone: str) -> None:
    with pytest.raises(ValueError, match="time zone"):
        check_zone(zone)


def test_every_zone_is_read_from_the_package() -> None:
    names = zone_names()
    assert len(names) > 600
    assert zone_data().startswith("OpenJDK 17.")
    for name in names:
        rules = zone_rules(name)
        assert list(rules.changes) == sorted(rules.changes, key=lambda change: change.instant), name
        assert all(isinstance(change, Change) and change.before != change.after for change in rules.changes)
        assert len(rules.yearly) in (0, 2), name


ZONES = (
    "Europe/Berlin",
    "America/Toronto",
    "Pacific/Apia",
    "Africa/El_Aaiun",
    "Antarctica/Troll",
    "Asia/Gaza",
    "Asia/Tokyo",
)
ARRAYS: dict[Callable[[Longs, str], Longs], Callable[[int, str], int]] = {
    offsets_of_instants: lambda time, zone: local_by_rules(time, zone) - time,
    offsets_of_local: lambda time, zone: time - instant_by_rules(time, zone),
    offsets_of_starts: lambda time, zone: time - first_instant_by_rules(time, zone),
}
ALONE: dict[Callable[[int, str], int], Callable[[int, str], int]] = {
    to_local: local_by_rules,
    to_instant: instant_by_rules,
    first_instant: first_instant_by_rules,
}


def _times(zone: str) -> list[int]:
    """Times of a zone: random ones of every size, and those at its changes and beside them."""
    rng = random.Random(zone)
    times = [rng.randrange(-(10**bits), 10**bits) for bits in (15, 16, 17, 18) for _ in range(100)]
    return [*times, *edges(zone_rules(zone)), us("2100-01-01 00:00:00"), us("2500-01-01 00:00:00") - 1]


@pytest.mark.parametrize("many", ARRAYS, ids=lambda many: many.__name__)
@pytest.mark.parametrize("zone", ZONES)
def test_many_times_are_what_the_rules_say_of_each(zone: str, many: Callable[[Longs, str], Longs]) -> None:
    times = _times(zone)
    assert many(np.array(times), zone).tolist() == [ARRAYS[many](time, zone) for time in times]


@pytest.mark.parametrize("alone", ALONE, ids=lambda alone: alone.__name__)
@pytest.mark.parametrize("zone", ZONES)
def test_a_time_alone_is_what_the_rules_say_of_it(zone: str, alone: Callable[[int, str], int]) -> None:
    for time in _times(zone):
        assert alone(time, zone) == ALONE[alone](time, zone)


@pytest.mark.parametrize("zone", ["UTC", "-05:30"])
def test_the_offset_of_a_zone_whose_clocks_never_change_is_that_of_every_time(zone: str) -> None:
    offset = fixed_offset(zone)
    times = np.array([-(1 << 62), 0, 1 << 60])
    assert [set(many(times, zone).tolist()) for many in ARRAYS] == [{offset}] * 3


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "Asia/Tokyo", "Europe/Berlin"])
def test_a_day_of_a_far_year_begins_by_the_last_offset_of_its_zone(zone: str) -> None:
    day = 106_000_000 * 86_400_000_000
    found = offsets_of_starts(np.array([day]), zone).tolist()
    assert found == [day - first_instant_by_rules(day, zone)]


def test_no_zone_changes_but_yearly_from_2100_on() -> None:
    end = us("2100-01-01 00:00:00") // 1_000_000
    assert all(change.local_end < end for name in zone_names() for change in zone_rules(name).changes[-1:])
