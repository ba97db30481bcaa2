"""Arrays of times become local times and instants as single times do."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from support.zoned import edges
from tailbit.arrays import Longs
from tailbit.tables.zones.arrays import offsets_of_instants, offsets_of_local, offsets_of_starts
from tailbit.tables.zones.rules import zone_rules
from tailbit.tables.zones.times import first_instant, to_instant, to_local

ZONES = (
    "Europe/Berlin",
    "America/Toronto",
    "Pacific/Apia",
    "Africa/El_Aaiun",
    "Antarctica/Troll",
    "Asia/Gaza",
)
ARRAYS: dict[Callable[[Longs, str], Longs], Callable[[int, str], int]] = {
    offsets_of_instants: lambda time, zone: to_local(time, zone) - time,
    offsets_of_local: lambda time, zone: time - to_instant(time, zone),
    offsets_of_starts: lambda time, zone: time - first_instant(time, zone),
}


@pytest.mark.parametrize("many", ARRAYS, ids=lambda many: many.__name__)
@pytest.mark.parametrize("zone", [*ZONES, "UTC", "-05:30", "Asia/Tokyo"])
def test_many_times_are_what_each_of_them_is(zone: str, many: Callable[[Longs, str], Longs]) -> None:
    rng = random.Random(zone)
    times = [rng.randrange(-(10**bits), 10**bits) for bits in (15, 16, 17, 18) for _ in range(100)]
    if zone in ZONES:
        times += edges(zone_rules(zone))
    assert many(np.array(times), zone).tolist() == [ARRAYS[many](time, zone) for time in times]


def test_times_after_the_last_year_that_is_listed_are_what_they_are() -> None:
    far = np.array([1 << 60, -(1 << 62), 0, 1 << 60])
    found = offsets_of_instants(far, "Europe/Paris").tolist()
    assert found == [to_local(time, "Europe/Paris") - time for time in far.tolist()]


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "Asia/Tokyo", "Europe/Berlin"])
def test_a_day_of_a_far_year_begins_by_the_last_offset_of_its_zone(zone: str) -> None:
    day = 106_000_000 * 86_400_000_000
    found = offsets_of_starts(np.array([day]), zone).tolist()
    assert found == [day - first_instant(day, zone)]
