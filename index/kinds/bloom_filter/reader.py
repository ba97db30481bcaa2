"""Reader of kind `bloom_filter`: which row groups of data files may hold one of some values.

All filters of a column are read together and cached up to a limit of bytes; the lookup of a value tests one
block of each filter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import CorruptIndexError
from tailbit.index.keys import encode_value, key_type_of
from tailbit.index.kinds.bloom_filter.rows import SCHEMA
from tailbit.index.kinds.rows import conform, read_groups
from tailbit.index.ordered import Value
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_scalar, filled, no_rows, numpy_of
from tailbit.tables.cache import Cache, share
from tailbit.tables.model import Column
from tailbit.tables.parquet.bloom import (
    BLOCK_BYTES,
    WORDS,
    Bloom,
    Hashes,
    Words,
    blocks_of,
    hashes_of_texts,
    masks_of,
)
from tailbit.tables.storage import Storage


@dataclass(frozen=True, eq=False)
class Filters:
    """The filters of one column of one key type, a row each.

    `footers`: hash of the data file's footer. `units`: number of the row group in the data file; `rows`: its
    row count. `starts`, `blocks`: first block of the filter in `words`, and its number of blocks; 0 blocks if
    the index has no filter.
    """

    footers: pa.StringArray
    units: Longs
    rows: Longs
    starts: Longs
    blocks: Longs
    words: Words

    @classmethod
    def of(cls, table: pa.Table) -> Filters:
        """Return the filters in some rows of the index.

        Raises:
            ValueError: a filter has no whole blocks.
        """
        blocks = _blocks(table)
        data = b"".join(part for part in table["filter"].to_pylist() if part)
        units, rows = (numpy_of(table[name], dtype=np.int64) for name in ("unit", "rows"))
        words = np.frombuffer(data, dtype="<u4").reshape(-1, WORDS)
        return cls(table["footer"].combine_chunks(), units, rows, np.cumsum(blocks) - blocks, blocks, words)

    def may_hold(self, hashes: Hashes) -> Mask:
        """Return, per row, whether its row group may hold one of the hashed values."""
        may: Mask = self.blocks == 0
        left = np.flatnonzero(~may)
        starts, blocks = self.starts[left], self.blocks[left]
        held = np.zeros(len(left), dtype=np.bool_)
        for at in range(len(hashes)):
            masks = masks_of(hashes[at : at + 1])
            words = self.words[starts + blocks_of(hashes[at], blocks)]
            held |= (words & masks == masks).all(axis=1)
        may[left] = held
        return may

    def hold(self, numbers: Longs, hashes: Hashes) -> Mask:
        """Return, per hash, whether a filter in rows `numbers` may hold it; True if a row has no filter."""
        held: Mask = np.full(len(hashes), bool((self.blocks[numbers] == 0).any()))
        for number in numbers.tolist():
            start, blocks = int(self.starts[number]), int(self.blocks[number])
            if blocks:
                held |= Bloom(self.words[start : start + blocks]).may_hold(hashes)
        return held


def _blocks(table: pa.Table) -> Longs:
    """Return the number of blocks of each row's filter; 0 for a row without a filter."""
    filters = table["filter"].combine_chunks()
    sizes = numpy_of(filled(pc.binary_length(filters), 0), dtype=np.int64)
    if (sizes % BLOCK_BYTES).any() or (numpy_of(pc.is_valid(filters)) & (sizes == 0)).any():
        raise ValueError("a Bloom filter has no whole blocks")
    blocks: Longs = sizes // BLOCK_BYTES
    return blocks


_HELD: Cache[tuple[str, frozenset[str], str, str], Filters] = Cache(share(1 / 32))
"""The filters that this process has read: by the root of the index, its files, column and key type."""


class BloomFilters:
    """Reader of the filters in the index files `paths`. Threads may share a reader."""

    def __init__(self, storage: Storage, paths: Iterable[str]) -> None:
        self._storage, self.paths = storage, frozenset(paths)

    def of(self, column: Column) -> Filters:
        """Return the filters of a column that were made with its present key type.

        Raises:
            CorruptIndexError: an index file is missing, truncated or altered.
        """
        key_type = key_type_of(column.type)
        key = str(self._storage.root), self.paths, column.id, key_type
        return _HELD.get(key, lambda: self._read(column.id, key_type))

    def table(self, path: str, column: str) -> pa.Table:
        """Return the rows of a column in one index file."""
        rows = conform(read_groups(self._storage, path, "column", column, SCHEMA.names), SCHEMA)
        return pc.filter(rows, pc.equal(rows["column"], arrow_scalar(column)))

    def _read(self, column: str, key_type: str) -> tuple[Filters, int]:
        tables = []
        for path in sorted(self.paths):
            rows = self.table(path, column)
            tables.append(pc.filter(rows, pc.equal(rows["key_type"], arrow_scalar(key_type))))
            try:
                _blocks(tables[-1])
            except ValueError as damage:
                raise CorruptIndexError(file=path, reason=str(damage)) from damage
        filters = Filters.of(pa.concat_tables([no_rows(SCHEMA), *tables]))
        return filters, filters.words.nbytes + 64 * len(filters.units)


def hashes_of_values(values: Sequence[Value], column: Column) -> Hashes:
    """Return the hashes of values in the canonical form of a column's type."""
    key_type = key_type_of(column.type)
    return hashes_of_texts([encode_value(value, key_type) for value in values])
