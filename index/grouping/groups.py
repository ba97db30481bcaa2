"""Rows counted by group: the result of grouping by one column or by several, and the steps of counting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs
from tailbit.base.dataclass import dataclass
from tailbit.index.grouping.choice import Choice, CountingWay
from tailbit.index.grouping.dictionary import Dictionary, first_in_order
from tailbit.index.model import key_type_of_column
from tailbit.index.roaring.coding import order_with_nulls
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array
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
class Groups:
    """Combinations of whole keys of some columns, with the rows of each; no count is zero.

    `keys`: per column, in order, null (NULL) first; keys without a group may be among them. `codes`: per
    column, the place of each group's key. `steps`: how the rows were counted. `ordered`: False for groups by
    one column in no order; its keys are in the same order as the groups.
    """

    columns: Sequence[Column]
    keys: Sequence[Dictionary]
    codes: Sequence[Longs]
    counts: Longs
    steps: Sequence[Step] = field(default=())
    ordered: bool = True

    def key_type(self, column: int = 0) -> str:
        """Return the key type of a column, by its number."""
        return key_type_of_column(self.columns[column])

    def keys_of(self, column: int = 0) -> pa.BinaryArray:
        """Return each group's key of a column."""
        keys, codes = self.keys[column].keys, self.codes[column]
        # Ascending codes of as many groups as there are keys are all places in order.
        whole = len(self.columns) == 1 and len(codes) == len(keys)
        return keys if whole else pc.take(keys, arrow_array(codes))

    def values(self, column: int = 0) -> list[Any]:
        """Return the Python value of each key of a column; the values are kept with the keys."""
        return self.keys[column].values(self.columns[column], self.key_type(column))

    def values_of(self, column: int = 0) -> list[Any]:
        """Return each group's Python value of a column."""
        values, codes = self.values(column), self.codes[column]
        whole = len(self.columns) == 1 and len(codes) == len(values)
        return values if whole else [values[code] for code in codes.tolist()]

    @property
    def nulls(self) -> int:
        """Return the number of rows that are NULL in the only column."""
        (codes,), (dictionary,) = self.codes, self.keys
        if not len(codes) or not dictionary.keys.null_count:
            return 0
        null = dictionary.null_place
        group = 0 if self.ordered else null
        return int(self.counts[group]) if codes[group] == null else 0

    def most_frequent(self, n: int | None = None) -> Longs:
        """Return the groups by falling count, ties in key order; `n`: only the first ones."""
        if n is None or n >= len(self.counts):
            places = np.arange(len(self.counts)) if self.ordered else order_with_nulls(self.keys_of())
        else:
            places = self._first(n)
        return places[np.argsort(-self.counts[places], kind="stable")]

    def _first(self, n: int) -> Longs:
        """Return the most frequent groups, in key order. Cost: no full sort."""
        if n == 0:
            return np.zeros(0, dtype=np.int64)
        least = np.partition(self.counts, len(self.counts) - n)[-n]
        over, ties = np.flatnonzero(self.counts > least), np.flatnonzero(self.counts == least)
        missing = n - len(over)
        if self.ordered:
            return np.sort(np.concatenate([over, ties[:missing]]))
        keys = self.keys_of()
        places = np.concatenate([over, ties[first_in_order(pc.take(keys, arrow_array(ties)), missing)]])
        return places[order_with_nulls(pc.take(keys, arrow_array(places)))]
