"""How the postings of a column are encoded, read from the footers of its segments alone.

Worked example, a segment of two row groups:

    row group    keys    null in `first`    bytes
    0               3                  3    9,000      all dense
    1             200                 10    2,000      190 keys are sparse

For 5,000 rows that is `mixed`: 203 keys, of which 190 are sparse, 11,000 bytes, 2.2 bytes per row.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from tailbit.base.dataclass import dataclass
from tailbit.index.postings.segment import Segment


class Form(enum.Enum):
    """The forms in which the postings of a column are stored."""

    ROARING = "roaring"
    """All keys have bitmaps."""

    SPARSE = "sparse"
    """All keys have a first position and gaps."""

    MIXED = "mixed"
    """Some keys have bitmaps, the others a first position and gaps."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """The stored postings of a column.

    `keys`: of all segments; a key that is in several segments counts in each. `sparse_keys`: the keys that
    are stored as gaps. `bytes`: of the row groups in the files, keys included. `rows`: positions of the row
    spaces.
    """

    keys: int = 0
    sparse_keys: int = 0
    bytes: int = 0
    rows: int = 0

    def __add__(self, other: Encoding) -> Encoding:
        """Return the postings of both, which are of different row spaces."""
        sums = (self.keys + other.keys, self.sparse_keys + other.sparse_keys, self.bytes + other.bytes)
        return Encoding(*sums, self.rows + other.rows)

    @property
    def form(self) -> Form | None:
        """Return the form, or None if no posting is stored."""
        if not self.keys:
            return None
        if not self.sparse_keys:
            return Form.ROARING
        return Form.SPARSE if self.sparse_keys == self.keys else Form.MIXED

    def account(self) -> dict[str, object]:
        """Return the encoding as JSON-able values, with bytes per row, or None if there are no rows."""
        return {
            "encoding": None if self.form is None else self.form.value,
            "keys": self.keys,
            "sparse_keys": self.sparse_keys,
            "bytes": self.bytes,
            "bytes_a_row": round(self.bytes / self.rows, 2) if self.rows else None,
        }


def encoding_of(segments: Iterable[Segment], column: str) -> Encoding:
    """Return the encoding of a column in some segments. Cost: their cached footers; nothing is decoded."""
    forms = [(s.space, s.rows, s.forms(column)) for s in segments if column in s.columns]
    # Several segments of one row space cover the same rows.
    rows: dict[str, int] = {}
    for space, extent, _ in forms:
        rows[space] = max(extent, rows.get(space, 0))
    keys, sparse, size = (sum(form[i] for _, _, form in forms) for i in range(3))
    return Encoding(keys, sparse, size, sum(rows.values()))
