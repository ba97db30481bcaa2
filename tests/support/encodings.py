"""Postings in either encoding, whatever their density: tests draw which, so that each meets each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from tailbit.index.postings.gaps import COLUMNS, Gaps, encoded
from tailbit.index.postings.postings import Postings

Key = bytes | None


def postings_of(
    column: str, key_type: str, bits: Mapping[Key, BitMap], sparse: Sequence[bool] | None = None
) -> Postings:
    """The postings of a column, keys as they come; those told are sparse, all others dense."""
    keys = pa.array(list(bits), pa.binary())
    table = stored(list(bits.values()), sparse)
    cardinality, bitmaps = np.asarray(table["cardinality"]), table["bitmap"].combine_chunks()
    return Postings(column, key_type, keys, cardinality, bitmaps, table.select(COLUMNS))


def stored(bits: Sequence[BitMap], sparse: Sequence[bool] | None = None) -> pa.Table:
    """Cardinality, bitmap and the columns of gaps of some postings; an empty one is always dense."""
    told = sparse or [False] * len(bits)
    alone = [some and len(one) > 0 for some, one in zip(told, bits, strict=True)]
    cardinality = np.array([len(one) for one in bits], dtype=np.int64)
    listed = [
        np.array(one.to_array(), dtype=np.uint32) for one, some in zip(bits, alone, strict=True) if some
    ]
    positions = np.concatenate([np.zeros(0, dtype=np.uint32), *listed])
    bitmaps = [None if some else one.serialize() for one, some in zip(bits, alone, strict=True)]
    columns = encoded(positions, np.where(np.array(alone, dtype=bool), cardinality, 0))
    dense = pa.table({"cardinality": cardinality, "bitmap": pa.array(bitmaps, pa.binary())})
    return pa.table([*dense.columns, *columns.columns], names=[*dense.column_names, *COLUMNS])


def read_postings(table: pa.Table, rows: int = 1 << 31) -> list[BitMap]:
    """The postings of stored rows, of either encoding."""
    sizes: npt.NDArray[np.int64] = np.asarray(table["cardinality"], dtype=np.int64)
    gaps = Gaps.of(table, sizes, rows)
    return [
        BitMap(gaps.positions(at, at + 1).tolist()) if data is None else BitMap.deserialize(data)
        for at, data in enumerate(table["bitmap"].to_pylist())
    ]
