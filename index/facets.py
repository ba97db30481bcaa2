"""Matching rows per value of a column.

Recorded value counts serve the question without WHERE at the covered version; postings serve covered files
(one intersection per key and row space); the data serves the rest. All meet as canonical keys, so that NaN,
-0.0 and types widened since count as Spark groups them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from tailbit.errors import CorruptIndexError
from tailbit.index.predicate import Constant
from tailbit.index.rows import Positions, fetch
from tailbit.index.segment import Segment
from tailbit.index.values import MAX_KEY, decode_keys, encode_array, key_type_of, widen_keys
from tailbit.tables.model import Column

if TYPE_CHECKING:
    from tailbit.index.answer import Answer
    from tailbit.index.coverage import SpaceView

Keys = Counter[bytes | None]

_TEXTUAL = ("string", "binary")


def facet_counts(answer: Answer, column: Column) -> dict[Any, int]:
    """Value to number of matching rows, most frequent first, ties by key order; None stands for NULL.

    Cost: one intersection per key and row space; rows of uncovered files and of row spaces with truncated
    keys are read.

    Raises:
        ColumnTypeError: the column's type has no keys (struct, array, map ...).
    """
    key_type = key_type_of(column.type)
    counts = _recorded(answer, column, key_type)
    if counts is None:
        counts = Counter()
        for number, positions in _left_to_data(answer, column, key_type, counts):
            counts.update(_in_data(answer, column, key_type, number, positions))
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0] is not None, item[0] or b""))
    return _decoded([(key, n) for key, n in ordered if n], column, key_type)


def _decoded(items: list[tuple[bytes | None, int]], column: Column, key_type: str) -> dict[Any, int]:
    if key_type in _TEXTUAL:
        as_text = key_type == "string"
        return {(k.decode("utf-8", "replace") if k is not None and as_text else k): n for k, n in items}
    values = decode_keys(pa.array([k for k, _ in items], pa.binary()), key_type, column.type).to_pylist()
    return dict(zip(values, (n for _, n in items), strict=True))


def _recorded(answer: Answer, column: Column, key_type: str) -> Keys | None:
    """The recorded value counts, where they answer the question and every key is exact."""
    if answer.counted is None or answer.node != Constant(True):
        return None
    stored = {c.id: c.key_type for c in answer.counted.settings.columns}
    if column.id not in stored:
        return None
    keys, counts = answer.counted.value_counts(column.id)
    if _has_truncated(keys, stored[column.id]):
        return None
    return _tally(widen_keys(keys, stored[column.id], key_type), counts.tolist())


def _tally(keys: pa.BinaryArray, counts: list[int]) -> Keys:
    out: Keys = Counter()
    for key, n in zip(keys.to_pylist(), counts, strict=True):
        out[key] += n
    return out


def _has_truncated(keys: pa.BinaryArray, key_type: str) -> bool:
    return key_type in _TEXTUAL and (pc.max(pc.binary_length(keys)).as_py() or 0) > MAX_KEY


def _left_to_data(
    answer: Answer, column: Column, key_type: str, counts: Keys
) -> Iterator[tuple[int, Positions]]:
    """Count what postings can into `counts`; yield (file number, positions) of the rows left over."""
    for space, bounds in answer.bounds:
        try:
            left = _by_postings(space, bounds.sure, column, key_type, counts)
        except CorruptIndexError as damage:
            answer.damaged.append(damage)
            left = bounds.sure
        yield from space.split(left)
    for hit in answer.read_hits:
        if len(hit.positions):
            yield hit.number, hit.positions


def _by_postings(space: SpaceView, bits: BitMap, column: Column, key_type: str, counts: Keys) -> BitMap:
    """Add the keys of `bits` to `counts`; return the positions that postings cannot serve.

    Nothing is added when it raises: a row space is counted by its postings as a whole or not at all.
    """
    segments = space.segments_of(column.id)
    if column.partition or not segments or not bits:
        return bits
    found: Keys = Counter()
    for segment in segments:
        if _has_truncated(segment.keys(column.id)[0], segment.columns[column.id]):
            return bits
        found.update(_segment_counts(segment, bits, column, key_type))
    counts.update(found)
    unposted = space.unposted(column.id)
    return BitMap() if unposted is None else bits & unposted


def _segment_counts(segment: Segment, bits: BitMap, column: Column, key_type: str) -> Keys:
    keys, postings = segment.select(column.id, [(None, False, None, False)])
    widened = widen_keys(pa.array(keys, pa.binary()), segment.columns[column.id], key_type)
    found = _tally(widened, [bits.intersection_cardinality(p) for p in postings])
    nulls = segment.lookup(column.id, None)
    if nulls is not None:
        found[None] += bits.intersection_cardinality(nulls)
    return found


def _in_data(answer: Answer, column: Column, key_type: str, number: int, positions: Positions) -> Keys:
    """Keys of some rows of one file, read from its data; a partition value is read from the log."""
    out: Keys = Counter()
    piece = answer.snapshot.files[number]
    for table in fetch(answer.storage, piece, [column], positions):
        values = pc.value_counts(_full_keys(table[column.id], key_type))
        out.update(_tally(values.field("values"), np.asarray(values.field("counts")).tolist()))
    return out


def _full_keys(values: pa.ChunkedArray, key_type: str) -> pa.BinaryArray:
    """Keys of values, never truncated."""
    whole = values.combine_chunks()
    return whole.cast(pa.binary()) if key_type in _TEXTUAL else encode_array(whole, key_type)
