"""The rows of a log block as a Parquet file in memory, made once and cached."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import pyarrow as pa

from tailbit.base.errors import LogBlockError
from tailbit.tables.cache import Cache, share
from tailbit.tables.hudi.log_files.blocks import LogBlock, list_blocks
from tailbit.tables.hudi.log_files.records import read_parquet, read_pieces
from tailbit.tables.storage import Stat, Storage

_CONTENTS: Cache[tuple[Storage, str, Stat, int], pa.Buffer] = Cache(share(1 / 64))
"""Blocks as Parquet files, by storage, log file, state of that file, and number of the block."""


def block_of(storage: Storage, path: str, number: int) -> LogBlock:
    """Return a block of a log file by its number.

    Raises:
        FileNotFoundError: the log file is gone.
        LogBlockError: the log file has no such block.
    """
    blocks = list_blocks(storage, path)
    if number >= len(blocks):
        raise LogBlockError(
            file=path, offset=0, reason=f"it has {len(blocks)} blocks, and no number {number}"
        )
    return blocks[number]


def block_parquet(storage: Storage, path: str, number: int) -> pa.Buffer:
    """Return the rows of a data block as a Parquet file with the columns that the block holds.

    Memory: the block's content, some megabytes of its rows, and the file.

    Raises:
        FileNotFoundError: the log file is gone.
        LogBlockError: the block is damaged.
        UnsupportedFeatureError: the block is of a type that is not read.
    """
    name, stat = storage.locate(path)
    if stat is None:
        raise FileNotFoundError(path)

    def load() -> tuple[pa.Buffer, int]:
        block = block_of(storage, path, number)
        data = read_parquet(storage, path, block)
        if data is None:
            data = as_parquet(read_pieces(storage, path, block))
        return data, data.size

    return _CONTENTS.get((storage, name, stat, number), load)


def as_parquet(pieces: Iterable[pa.Table]) -> pa.Buffer:
    """Return rows as a Parquet file; there is at least one piece."""
    import pyarrow.parquet as pq

    sink, rest = pa.BufferOutputStream(), iter(pieces)
    first = next(rest)
    options = {"store_schema": False, "compression": "zstd", "compression_level": 1}
    with pq.ParquetWriter(sink, first.schema, **options) as writer:
        for piece in chain([first], rest):
            writer.write_table(piece)
    return sink.getvalue()
