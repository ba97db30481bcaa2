"""Statistics of an expression: computed from its values, row group by row group.

Two data files of equal footers may hold different values. Their statistics of an expression then have one
unit in common, and are united into bounds that hold for both files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.base.dataclass import dataclass
from tailbit.base.lazy import lazy
from tailbit.index.expression.indexed_term import IndexedTerm
from tailbit.index.keys import encode_array, is_textual, key_type_of
from tailbit.index.ordered import SIGN
from tailbit.tables import compute as pc

if TYPE_CHECKING:
    from tailbit.tables.parquet import bounds as footer_bounds
    from tailbit.tables.parquet.bounds import ChunkStatistics
else:
    footer_bounds = lazy("tailbit.tables.parquet.bounds")

Computed = Iterable[tuple[pa.ChunkedArray, Mask | None]]
"""The values of an expression in row order, and where it raises; None where it raises nowhere."""

_NUMBERS = range(-SIGN, SIGN)
"""The ranks that a bound can hold."""


@dataclass
class _Group:
    """What is known of the values of one row group so far."""

    rows: int = 0
    nulls: int = 0
    low: bytes | None = None
    high: bytes | None = None
    raised: bool = False

    def add(self, values: pa.Array, raised: bool, key_type: str) -> None:
        """Add some values of the row group."""
        self.rows, self.nulls = self.rows + len(values), self.nulls + values.null_count
        self.raised = self.raised or raised
        if values.null_count == len(values):
            return
        ends = pc.min_max(_comparable(values, key_type))
        low, high = ends["min"].as_py(), ends["max"].as_py()
        self.low = low if self.low is None else min(self.low, low)
        self.high = high if self.high is None else max(self.high, high)

    def stated(self, key_type: str) -> ChunkStatistics:
        """Return the statistics; of a row group in which the expression raises, nothing is known."""
        if self.raised:
            return footer_bounds.ChunkStatistics(None, None, None, self.rows, 0, False)
        low, high = _bound(self.low, key_type), _bound(self.high, key_type)
        if low is None or high is None:
            low = high = None
        return footer_bounds.ChunkStatistics(
            low, high, self.nulls, self.rows, 0, low is not None or self.low is None
        )


def computed_statistics(pieces: Computed, term: IndexedTerm, starts: Longs) -> list[ChunkStatistics]:
    """Return the statistics of an expression per row group; bounds of texts are bytes, others are ranks.

    `starts`: the first row of each row group, and the number of rows as the last item.
    """
    key_type = key_type_of(term.type)
    groups = [_Group() for _ in starts[1:]]
    for group, values, raised in _by_group(pieces, starts):
        groups[group].add(values, raised, key_type)
    return [group.stated(key_type) for group in groups]


def _by_group(pieces: Computed, starts: Longs) -> Iterator[tuple[int, pa.Array, bool]]:
    """Yield number of row group, some of its values, and whether the expression raises for some of them."""
    group = row = 0
    for values, raised in pieces:
        at, piece = 0, values.combine_chunks()
        while at < len(piece):
            while row >= starts[group + 1]:
                group += 1
            end = min(len(piece), at + int(starts[group + 1]) - row)
            yield group, piece.slice(at, end - at), raised is not None and bool(raised[at:end].any())
            row, at = row + end - at, end


def _comparable(values: pa.Array, key_type: str) -> pa.Array:
    """Return values as bytes that sort as the values do: texts as they are, other values as keys."""
    if not is_textual(key_type):
        return encode_array(values, key_type)
    if pa.types.is_dictionary(values.type):
        # Only the codes that occur: the dictionary may be that of more row groups.
        values = pc.take(values.dictionary, pc.drop_null(pc.unique(values.indices)))
    return pc.cast(values, pa.binary())


def _bound(key: bytes | None, key_type: str) -> Any:
    """Return a bound: a text as its bytes, a number as its rank; None if the rank has more than 64 bits."""
    if key is None or is_textual(key_type):
        return key
    number = int.from_bytes(key, "big")
    rank = number if len(key) == 1 else number - (1 << 8 * len(key) - 1)
    return rank if rank in _NUMBERS else None
