"""Whether a file may hold a row where a leaf is TRUE, by the log's statistics; in doubt, it may."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

from tailbit.index.predicate import Leaf
from tailbit.index.values import Value
from tailbit.tables.delta.statistics import min_max


def leaf_can_match(leaf: Leaf, stats: str | None) -> bool:
    """Whether a row of a file with these statistics may make a leaf TRUE.

    The bounds of the statistics hold for every non-null row, hidden or not, and are rounded outwards.

    Raises:
        MalformedLogError: statistics that are not JSON.
    """
    bounds = min_max(stats, leaf.column)
    if bounds is None:
        return True
    if bounds.num_records == 0:
        return False
    if leaf.true.nulls and bounds.null_count != 0:
        return True
    if bounds.null_count is not None and bounds.null_count == bounds.num_records:
        return False
    scale = leaf.column.type.scale
    return leaf.true.touches(
        _canonical(bounds.min, scale, math.floor), _canonical(bounds.max, scale, math.ceil)
    )


def _canonical(bound: Any, scale: int, outwards: Any) -> Value | None:
    if isinstance(bound, str):
        return bound.encode()
    if isinstance(bound, Decimal):
        return int(outwards(Fraction(bound) * 10**scale))
    return bound if isinstance(bound, (int, float)) else None
