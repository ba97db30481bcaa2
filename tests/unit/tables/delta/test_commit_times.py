from __future__ import annotations

import random

import pytest

from tailbit.errors import MalformedLogError
from tailbit.tables.delta.log import CommitTimes, Listing, commit_name
from tailbit.tables.storage import Entry


@pytest.mark.parametrize("seed", range(40))
def test_commits_are_found_as_in_a_dictionary(seed: int) -> None:
    rng = random.Random(seed)
    plain = {rng.randrange(30): rng.randrange(1000) for _ in range(rng.randint(0, 25))}
    found = CommitTimes.of(plain)
    for _ in range(rng.randint(0, 10)):
        version, time = rng.choice([rng.randrange(35), found.latest + 1]), rng.randrange(1000)
        plain[version] = time
        found.add(version, time)
    assert (len(found), found.latest) == (len(plain), max(plain, default=-1))
    assert [found.time(v) for v in range(40)] == [plain.get(v) for v in range(40)]
    assert [v in found for v in range(40)] == [v in plain for v in range(40)]
    for first in range(36):
        for last in range(first - 1, 36):
            absent = [v for v in range(first, last + 1) if v not in plain]
            assert found.missing(first, last) == (absent[0] if absent else None)
    oldest = found.latest
    while oldest - 1 in plain:
        oldest -= 1
    assert found.since == max(oldest, 0)


def test_a_commit_takes_sixteen_bytes() -> None:
    found = CommitTimes.of({})
    for version in range(100_000):
        found.add(version, 1_700_000_000_000 + version)
    held = sum(numbers.buffer_info()[1] * numbers.itemsize for numbers in (found.versions, found.times))
    assert held == 16 * 100_000


def test_a_version_of_more_than_64_bits_is_named() -> None:
    name = commit_name(10**20 - 1).rpartition("/")[2]
    with pytest.raises(MalformedLogError, match="64 bits"):
        Listing.of([Entry(name, 1, 1)])
