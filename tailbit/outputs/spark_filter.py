"""A predicate as a Spark filter that loses no row whose FLOAT or DOUBLE is NaN or -0.0.

Spark pushes comparisons of a column with constants down to Delta's data skipping and to Parquet's statistics,
dictionaries and Bloom filters. In Spark NaN is the greatest value and -0.0 equals 0.0; but most writers leave
NaN out of statistics, and Parquet dictionaries distinguish -0.0 from 0.0, so files and row groups with
matching rows would be pruned. Therefore such a column is wrapped in an identity function, which Spark does
not push down. A weaker condition that is safe whatever writers do with NaN is added beside it and is pushed
down: bounds, widened past zeros, where NaN does not match. Conditions on other columns are pushed down as
always.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from tailbit.index.predicate.tree import And, Leaf, Node
from tailbit.index.predicate.value_sets import Interval, ValueSet
from tailbit.index.predicate.walks import columns_of
from tailbit.wording import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

_FLOATING = ("float", "double")
_ALL = ValueSet.of([Interval(None, False, None, False)])


def filtered(frame: DataFrame, node: Node, predicate: str) -> DataFrame:
    """Return the rows of a frame where a predicate is TRUE.

    `node`: the predicate, bound to the frame's columns. Columns, types, nullability and metadata are those of
    the frame.
    """
    from pyspark.sql.functions import col, expr, nanvl

    floats = [c for c in columns_of(node) if c.type.name in _FLOATING and not c.partition]
    if not floats:
        return frame.where(predicate)
    unused = "_" * (max(map(len, frame.columns)) + 1)
    plain = {name: f"{unused}{n}" for n, name in enumerate(dict.fromkeys(c.name[0] for c in floats))}
    hidden = {name: col(quoted(name)) for name in plain}
    for column in floats:
        top, *inner = column.name
        value = col(quoted(*column.name))
        same = nanvl(value, value)
        hidden[top] = hidden[top].withField(quoted(*inner), same) if inner else same
    condition = expr(predicate)
    for leaf in node.children if isinstance(node, And) else (node,):
        if isinstance(leaf, Leaf) and leaf.column in floats:
            top, *inner = leaf.column.name
            for sure in _sure(leaf, col(quoted(plain[top], *inner))):
                condition &= sure
    both = frame.withColumns(hidden | {other: col(quoted(name)) for name, other in plain.items()})
    shown = both.where(condition).withColumns({name: col(other) for name, other in plain.items()})
    return shown.drop(*plain.values())


def _sure(leaf: Leaf, value: SparkColumn) -> Iterator[SparkColumn]:
    """Yield weaker conditions on a column that statistics without NaN can be pruned by.

    Each condition holds of every row for which `leaf` is TRUE.
    """
    from pyspark.sql.functions import lit

    within = leaf.true.intersect(_ALL).intervals
    if leaf.true.nulls:
        if not within:
            yield value.isNull()
        return
    yield value.isNotNull()
    if not within or leaf.true.contains(math.nan):
        return
    type_ = leaf.column.type.name
    low, high = _outwards(type_, within[0].lo, -math.inf), _outwards(type_, within[-1].hi, math.inf)
    if low is not None:
        yield value >= lit(low).cast(type_)
    if high is not None:
        yield value <= lit(high).cast(type_)


def _outwards(type_: str, bound: object, end: float) -> float | None:
    """Return the next number of a type from a bound towards an end; None if there is none."""
    if not isinstance(bound, float) or not math.isfinite(bound):
        return None
    kind = np.float32 if type_ == "float" else np.float64
    with np.errstate(over="ignore"):
        nearest = float(np.nextafter(kind(bound), kind(end)))
    return nearest if math.isfinite(nearest) else None
