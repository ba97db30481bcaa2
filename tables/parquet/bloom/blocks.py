"""Split block Bloom filters: a value sets one bit in each of the eight words of one block of 32 bytes.

Source: Parquet format, BloomFilter.md. A value is hashed by XXH64 with seed 0: the upper half of the hash
names the block, the lower half the bits.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tailbit.base.arrays import Longs, Mask
from tailbit.base.dataclass import dataclass
from tailbit.tables.parquet.bloom.xxh64 import Hashes

Words = npt.NDArray[np.uint32]
"""The words of a filter, little-endian: rows of eight."""

WORDS, BLOCK_BYTES = 8, 32

MOST_VALUES = 1024
"""Most values that filters are asked about: among more values, some would pass by chance."""

_SALT = np.array(
    [
        0x47B6137B,
        0x44974D91,
        0x8824AD5B,
        0xA2B7289D,
        0x705495C7,
        0x2DF1424B,
        0x9EFC4947,
        0x5C6BFB31,
    ],
    dtype=np.uint32,
)

_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


@dataclass(frozen=True, eq=False)
class Bloom:
    """A filter in memory: `words`, uint32, a row of eight per block."""

    words: Words

    @classmethod
    def of(cls, hashes: Hashes, false_positives: float) -> Bloom:
        """Return a filter of some values, which other values pass with the probability `false_positives`.

        `hashes`: distinct hashes of the values.
        """
        bits = -WORDS * max(1, len(hashes)) / math.log(1 - false_positives ** (1 / WORDS))
        words = np.zeros((max(1, math.ceil(bits / 8 / BLOCK_BYTES)), WORDS), dtype=np.uint32)
        np.bitwise_or.at(words, blocks_of(hashes, len(words)), masks_of(hashes))
        return cls(words)

    @classmethod
    def read(cls, data: bytes) -> Bloom:
        """Return the filter that `data` encodes.

        Raises:
            ValueError: the bytes are empty or not whole blocks.
        """
        if not data or len(data) % BLOCK_BYTES:
            raise ValueError(f"a Bloom filter of {len(data)} bytes has no whole blocks")
        return cls(np.frombuffer(data, dtype="<u4").reshape(-1, WORDS))

    def may_hold(self, hashes: Hashes) -> Mask:
        """Return, per hash, whether the filter may hold its value; False: it surely does not."""
        return _have(self.words[blocks_of(hashes, len(self.words))], hashes)

    def written(self) -> bytes:
        """Return the bytes of the filter."""
        return self.words.astype("<u4").tobytes()


def blocks_of(hashes: Hashes, blocks: int | Longs) -> Longs:
    """Return the block number of each hash; `blocks`: the filter's block count, per hash or for all."""
    numbers: Longs = ((hashes >> _HALF) * np.asarray(blocks, dtype=np.uint64) >> _HALF).astype(np.int64)
    return numbers


def masks_of(hashes: Hashes) -> Words:
    """Return the bits that each hash has in its block: uint32, rows of eight."""
    keys = (hashes & _LOW).astype(np.uint32)
    masks: Words = np.uint32(1) << (keys[:, None] * _SALT >> np.uint32(27))
    return masks


def _have(blocks: Words, hashes: Hashes) -> Mask:
    masks = masks_of(hashes)
    held: Mask = (blocks & masks == masks).all(axis=1)
    return held
