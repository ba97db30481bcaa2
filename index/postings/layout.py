"""The layout of a segment, which its writers and readers share: its columns, and its row groups."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from tailbit.index.postings import gaps

if TYPE_CHECKING:
    import pyarrow.parquet as pq

NAME = "bitmap_index"

ROWS = "tailbit.rows"
"""The key in a segment's metadata that holds the row count of its row space."""

SHARED = "tailbit.shared"
"""The key in a segment's metadata that holds which rows of shared row groups belong to which column."""

SCHEMA = pa.schema(
    [
        ("space", pa.string()),
        ("column", pa.string()),
        ("key_type", pa.string()),
        ("key", pa.binary()),
        ("cardinality", pa.int64()),
        ("bitmap", pa.binary()),
        *gaps.SCHEMA,
    ]
)


NUMBER = "number"
"""The column of a paged segment that holds keys of eight bytes as integers of the same order."""

UUID, UUID_BYTES = "uuid", 16
"""The column of a paged segment that holds texts of UUIDs as the bytes of their digits; its width."""

PAGED_SCHEMA = SCHEMA.append(pa.field(NUMBER, pa.int64()))
"""The columns of a paged segment in an index of an older format, without UUID."""

PACKED_SCHEMA = PAGED_SCHEMA.append(pa.field(UUID, pa.binary(UUID_BYTES)))
"""The columns of a paged segment."""

PAGE_ROWS = 512
"""Keys in a page of a paged segment: fewer cost bytes, more are decoded for nothing."""

PAGED_GROUP_ROWS = 1 << 17
"""Most keys in a row group of a paged segment; smaller row groups only make the footer longer."""


def is_numbered(key_type: str) -> bool:
    """Return whether keys of a type have eight bytes, and so are integers in a paged segment."""
    return key_type in ("integer", "double", "date", "timestamp", "timestamp_ntz")


_LEAVES = range(SCHEMA.get_field_index("bitmap"), len(SCHEMA))
"""Parquet leaf numbers of the columns that hold positions; each column has one leaf."""

_FIRST = SCHEMA.get_field_index(gaps.FIRST) - _LEAVES.start


class GroupSize(NamedTuple):
    """Sizes of a row group of postings, from the footer.

    `keys`, and how many of them are `sparse`; `positions` of the sparse keys, overestimated by at most a
    fifth. `unpacked`, `packed`: bytes of all postings before compression, and in the file.
    """

    keys: int
    sparse: int
    positions: int
    unpacked: int
    packed: int

    @classmethod
    def of(cls, group: pq.RowGroupMetaData) -> GroupSize:
        """Return the size of a row group. Cost: pyarrow creates some objects per column."""
        chunks = [group.column(leaf) for leaf in _LEAVES]
        unpacked = [chunk.total_uncompressed_size for chunk in chunks]
        keys, first = int(group.num_rows), chunks[_FIRST].statistics
        # A sparse key has a first position, and each of its gaps has one byte in the next column.
        sparse = keys - (int(first.null_count) if first is not None else 0)
        packed = sum(chunk.total_compressed_size for chunk in chunks)
        return cls(keys, sparse, sparse + unpacked[_FIRST + 1] if sparse else 0, sum(unpacked), packed)


class Section(NamedTuple):
    """The rows of one column in a shared row group.

    `keys`: number of rows; `sparse`: how many are sparse, of `positions` in all; `size`: bytes of keys and
    postings; `low`, `high`: first and last key, None where the column has only NULL's posting.
    """

    column: str
    key_type: str
    keys: int
    sparse: int
    positions: int
    size: int
    low: bytes | None
    high: bytes | None


def sections_of(metadata: Mapping[bytes, bytes]) -> dict[int, list[Section]]:
    """Map the number of each shared row group of a file to its sections, read from what `cut` wrote."""
    by_group: dict[str, list[list[Any]]] = json.loads(metadata.get(SHARED.encode(), b"{}"))
    return {int(number): [_read(*section) for section in sections] for number, sections in by_group.items()}


def _read(*written: Any) -> Section:
    *numbers, low, high = written
    return Section(*numbers, *(None if key is None else b64decode(key) for key in (low, high)))
