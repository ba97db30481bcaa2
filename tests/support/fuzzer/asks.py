"""Questions put to tailbit at some moment, and what came back: to be judged later, many in one pass."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

import tailbit
from support.oracle import Positions, as_lists
from support.predicates import Asked, Predicate, random_predicate

EVERYTHING = Predicate.both("TRUE")


class Version(Protocol):
    """A version of a table, as the fuzzer knows it."""

    @property
    def version(self) -> int:
        """Its number in the log."""

    @property
    def key(self) -> Any:
        """Versions of one key have rows of one schema."""

    @property
    def asked(self) -> Sequence[Asked]:
        """The columns that predicates may speak of."""

    def rows(self) -> pa.Table:
        """Every visible row with its `file` and `position`, in their order."""


@dataclass(frozen=True)
class Found:
    """What tailbit answered. `error`: what it raised instead; `rows` and `facets` only now and then."""

    positions: Positions
    count: int
    rows: list[Any] | None = None
    facets: tuple[Asked, Mapping[Any, int]] | None = None
    error: str = ""


@dataclass(frozen=True)
class Ask:
    """One check: a predicate at a version, the state of the index, and the answer."""

    version: Version
    predicate: Predicate
    moment: str
    found: Found


def ask(
    opened: tailbit.IndexedTable, version: Version, predicate: Predicate, moment: str, rng: random.Random
) -> Ask:
    """Ask for positions and count; one time in ten for rows and facets as well."""
    more = rng.random()
    try:
        answer = opened.where(predicate.spark, version=version.version)
        # A count is found by another way where it is asked for first.
        early = answer.count() if more < 0.5 else None
        positions = as_lists(answer.positions())
        count = answer.count() if early is None else early
        rows = answer.read().to_pylist() if more < 0.1 else None
        grouped = [column for column in version.asked if column.make is None]
        column = rng.choice(grouped) if grouped else None
        facets = None
        if column is not None and (more > 0.9 or predicate is EVERYTHING):
            facets = (column, answer.facets(column.spark))
        found = Found(positions, count, rows, facets)
    except Exception as error:  # Whatever is raised for a version that can be read is a finding.
        found = Found({}, -1, error=f"{type(error).__name__}: {error}")
    return Ask(version, predicate, moment, found)


def new_predicate(rng: random.Random, version: Version) -> Predicate:
    """A predicate over the columns of a version; now and then every row is asked for."""
    if rng.random() < 0.04:
        return EVERYTHING
    return random_predicate(rng, rng.choice((0, 0, 1, 1, 2, 3)), version.asked)


def same_facets(found: Mapping[Any, int], values: Sequence[Any]) -> bool:
    """Whether values occur as often as was said; NaN is one value."""
    return _tally(found) == _tally(Counter(map(_plain, values)))


def _tally(counts: Mapping[Any, int]) -> Counter[Any]:
    out: Counter[Any] = Counter()
    for value, count in counts.items():
        out[_plain(value)] += count
    return out


def _plain(value: Any) -> Any:
    return "NaN" if isinstance(value, float) and math.isnan(value) else value
