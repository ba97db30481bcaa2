"""Matching rows per value of a column.

Recorded value counts serve the question without WHERE at the covered version; postings serve covered files
(one intersection per key and row space); the data serves the rest. All meet as canonical keys, so that NaN,
-0.0 and types widened since count as Spark groups them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from tailbit.errors import CorruptIndexError
from tailbit.index.keys import (
    decode_keys,
    encode_array,
    is_textual,
    is_truncated,
    widen_keys,
)
from tailbit.index.kinds.bitmap_index.segment import Segment
from tailbit.index.model import key_type_of_column
from tailbit.index.query.recorded_counts import RecordedCounts
from tailbit.index.query.row_space import SpaceView
from tailbit.index.query.selection import Selection
from tailbit.tables.date_text import date_texts
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.parquet.rows import Positions, fetch
from tailbit.tables.partition_values import partition_array

Keys = Counter[bytes | None]


def facet_counts(selection: Selection, column: Column, recorded: RecordedCounts | None) -> dict[Any, int]:
    """Value to number of matching rows, most frequent first, ties by key order; None stands for NULL.

    `recorded`: the value counts of the index, where it speaks of this source. Values are Python's; a date or
    time outside its calendar is text. Cost: one intersection per key and row space; one per file for a
    partition column; rows of uncovered files and rows with truncated keys are read.

    Raises:
        ColumnTypeError: the column's type has no keys (struct, array, map ...).
    """
    key_type = key_type_of_column(column)
    known = None if recorded is None else recorded.of(selection, column, key_type)
    if known is not None:
        counts = _tally(known[0], known[1].tolist())
    elif column.partition:
        counts = _by_files(selection, column, key_type)
    else:
        counts = Counter()
        for slice_, positions in _left_to_data(selection, column, key_type, counts):
            counts.update(_in_data(selection, column, key_type, slice_, positions))
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0] is not None, item[0] or b""))
    return _decoded([(key, n) for key, n in ordered if n], column, key_type)


def _decoded(items: list[tuple[bytes | None, int]], column: Column, key_type: str) -> dict[Any, int]:
    if key_type == "binary":
        return dict(items)
    if is_textual(key_type):
        out: dict[Any, int] = {}
        for key, n in items:
            text = None if key is None else key.decode("utf-8", "replace")
            out[text] = out.get(text, 0) + n
        return out
    values = decode_keys(pa.array([k for k, _ in items], pa.binary()), key_type, column.type)
    return dict(zip(_python(values), (n for _, n in items), strict=True))


def _python(values: pa.Array) -> list[Any]:
    try:
        found: list[Any] = values.to_pylist()
    except (OverflowError, ValueError):
        found = date_texts(values)
    return found


def _by_files(selection: Selection, column: Column, key_type: str) -> Keys:
    """Matching rows per value of a partition column: the log says it of whole files; no data is read."""
    physical = column.physical[0]
    per_text: Counter[str | None] = Counter()
    for space, bounds in selection.bounds:
        codes, texts = space.partitions.of(physical)
        used, at = np.unique(codes[space.files], return_inverse=True)
        sums = np.zeros(len(used), dtype=np.int64)
        np.add.at(sums, at, space.counts_by_file(bounds.sure))
        for code, n in zip(used.tolist(), sums.tolist(), strict=True):
            per_text[texts[code]] += n
    for hit in selection.read_hits:
        per_text[hit.slice_.partition.get(physical)] += len(hit.positions)
    out: Keys = Counter()
    for text, n in per_text.items():
        if n:
            out[_key_of_text(column, text, key_type)] += n
    return out


def _key_of_text(column: Column, text: str | None, key_type: str) -> bytes | None:
    key: bytes | None = _full_keys(partition_array(column, text, 1), key_type)[0].as_py()
    return key


def _tally(keys: pa.BinaryArray, counts: list[int]) -> Keys:
    out: Keys = Counter()
    for key, n in zip(keys.to_pylist(), counts, strict=True):
        out[key] += n
    return out


def _left_to_data(
    selection: Selection, column: Column, key_type: str, counts: Keys
) -> Iterator[tuple[FileSlice, Positions]]:
    """Count what postings can into `counts`; yield the files and positions of the rows left over."""
    for space, bounds in selection.bounds:
        try:
            left = _by_postings(space, bounds.sure, column, key_type, counts)
        except CorruptIndexError as damage:
            selection.damages.note(damage)
            left = bounds.sure
        yield from selection.by_slice(space, left)
    for hit in selection.read_hits:
        if len(hit.positions):
            yield hit.slice_, hit.positions


def _by_postings(space: SpaceView, bits: BitMap, column: Column, key_type: str, counts: Keys) -> BitMap:
    """Add the keys of `bits` to `counts`; return the positions that postings cannot serve.

    Nothing is added when it raises: a row space is counted by its postings as a whole or not at all.
    """
    segments = space.serving(column)
    if not segments or not bits:
        return bits
    unposted = space.unposted(column.id)
    left = BitMap() if unposted is None else bits & unposted
    served = bits - left
    found: Keys = Counter()
    for segment in segments:
        left |= _by_segment(segment, served, column, key_type, found)
    counts.update(found)
    return left


def _by_segment(segment: Segment, bits: BitMap, column: Column, key_type: str, counts: Keys) -> BitMap:
    """Add the keys of `bits` to `counts`; return the positions whose keys do not hold their value."""
    keys, postings = segment.select(column.id, [(None, False, None, False)])
    inexact: list[BitMap] = []
    if is_textual(key_type) and any(map(is_truncated, keys)):
        pairs = list(zip(keys, postings, strict=True))
        inexact = [posting for key, posting in pairs if is_truncated(key)]
        exact = [pair for pair in pairs if not is_truncated(pair[0])]
        keys, postings = [key for key, _ in exact], [posting for _, posting in exact]
    widened = widen_keys(pa.array(keys, pa.binary()), segment.columns[column.id], key_type)
    counts.update(_tally(widened, [bits.intersection_cardinality(p) for p in postings]))
    nulls = segment.lookup(column.id, None)
    if nulls is not None:
        counts[None] += bits.intersection_cardinality(nulls)
    return bits & BitMap.union(*inexact) if inexact else BitMap()


def _in_data(
    selection: Selection, column: Column, key_type: str, slice_: FileSlice, positions: Positions
) -> Keys:
    """Keys of some rows of one file, read from its data."""
    out: Keys = Counter()
    for table in fetch(selection.storage, slice_, [column], positions):
        values = pc.value_counts(_full_keys(table[column.id], key_type))
        out.update(_tally(values.field("values"), np.asarray(values.field("counts")).tolist()))
    return out


def _full_keys(values: pa.Array | pa.ChunkedArray, key_type: str) -> pa.BinaryArray:
    """Keys of values, never truncated."""
    whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return whole.cast(pa.binary()) if is_textual(key_type) else encode_array(whole, key_type)
