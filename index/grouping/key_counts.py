"""Result of a count by key: distinct keys, the rows of each, and the steps of counting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs
from tailbit.base.dataclass import dataclass
from tailbit.index.grouping.choice import Choice, CountingWay
from tailbit.index.grouping.dictionary import first_in_order
from tailbit.index.roaring.coding import order_with_nulls
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, numpy_of
from tailbit.tables.model import Column


@dataclass(frozen=True)
class Step:
    """One step of a count, for `explain`: the method, the number of rows (None: all) and the ms it took.

    `took` is None if the rows of a row space are read together with others, in a later step.
    """

    way: CountingWay
    rows: int | None
    took: float | None
    choice: Choice | None = None

    def account(self) -> dict[str, Any]:
        """Return the step in a form that JSON can hold."""
        estimates = {} if self.choice is None else self.choice.estimates
        return {
            "way": self.way.value,
            "row_space": None if self.choice is None else self.choice.space,
            "rows": self.rows,
            "estimates_ms": {method.value: round(ms, 3) for method, ms in estimates.items()},
            "took_ms": None if self.took is None else round(self.took, 3),
        }


@dataclass(frozen=True, eq=False)
class KeyCounts:
    """Distinct whole keys of a column in order, null (NULL) first, and the rows of each; no count is zero.

    `steps`: how the rows were counted. `ordered`: False if the keys are in no order.
    """

    column: Column
    key_type: str
    keys: pa.BinaryArray
    counts: Longs
    values: Callable[[], list[Any]]
    steps: Sequence[Step] = field(default=())
    ordered: bool = True

    @property
    def nulls(self) -> int:
        """Return the number of rows that are NULL."""
        if not self.keys.null_count:
            return 0
        return int(self.counts[0 if self.ordered else np.flatnonzero(numpy_of(pc.is_null(self.keys)))[0]])

    def most_frequent(self, n: int | None = None) -> Longs:
        """Return the places of the keys by falling count, ties in key order; `n`: only the first ones."""
        if n is None or n >= len(self.counts):
            places = np.arange(len(self.counts)) if self.ordered else order_with_nulls(self.keys)
        else:
            places = self._first(n)
        return places[np.argsort(-self.counts[places], kind="stable")]

    def _first(self, n: int) -> Longs:
        """Return the places of the most frequent keys, in key order. Cost: no full sort."""
        if n == 0:
            return np.zeros(0, dtype=np.int64)
        least = np.partition(self.counts, len(self.counts) - n)[-n]
        over, ties = np.flatnonzero(self.counts > least), np.flatnonzero(self.counts == least)
        missing = n - len(over)
        if self.ordered:
            return np.sort(np.concatenate([over, ties[:missing]]))
        places = np.concatenate([over, ties[first_in_order(pc.take(self.keys, arrow_array(ties)), missing)]])
        return places[order_with_nulls(pc.take(self.keys, arrow_array(places)))]
