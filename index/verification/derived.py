"""Comparison of postings with whole files: postings are derived again from the data, column by column."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.arrays import Longs
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import CorruptIndexError, SourceError
from tailbit.index.evaluation.row_space import SpaceView
from tailbit.index.expression.indexed_term import sources_of, with_terms
from tailbit.index.keys import NO_KEYS, posting_type_of, widen_keys
from tailbit.index.kinds.kind import Blame, CheckedSource, Problem
from tailbit.index.roaring.elements import coding_of
from tailbit.index.verification.report import Report
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.parquet.rows import fetch
from tailbit.tables.positions import positions_in


def check_derived(
    spaces: Sequence[SpaceView],
    columns: Sequence[Column],
    source: CheckedSource,
    wanted: Callable[[str, str], bool] | None,
    derive: int,
    rng: random.Random,
    report: Report,
) -> Iterator[Problem]:
    """Derive the postings of (file, column) pairs from the data again, and yield the differences.

    The pairs are those whose path and column id are `wanted`; without `wanted`, `derive` pairs chosen by
    `rng`. Cost: each pair reads one column of a file and its postings. Memory: one column of one file.
    """
    pairs = [
        (space, order, column)
        for space in spaces
        for order in range(len(space.files))
        for column in columns
        if column.id in space.column_sets[space.posted[order]]
    ]
    if wanted is None:
        chosen = rng.sample(pairs, min(derive, len(pairs)))
    else:
        chosen = [p for p in pairs if wanted(source.slices[int(p[0].files[p[1]])].path, p[2].id)]
    for space, order, column in chosen:
        yield from _check(space, order, column, source, report)


def _check(
    space: SpaceView, order: int, column: Column, source: CheckedSource, report: Report
) -> Iterator[Problem]:
    slice_ = source.slices[int(space.files[order])]
    if source.is_gone(slice_):
        return
    where = f"file {slice_.path}, column {column.id}"
    base, rows = int(space.bases[order]), int(space.rows[order])
    try:
        data = _keys_of_rows(source, slice_, column)
        posted = _posted(space, column, base, rows)
    except CorruptIndexError as damage:
        yield Problem.of(damage)
        return
    except SourceError as unreadable:
        yield Problem.of_source(slice_.path, unreadable)
        return
    report.derived += 1
    if data.rows != rows:
        yield Problem(
            where, f"the data file has {data.rows} rows, {rows} are recorded", Blame.SPACE, space.space
        )
        return
    wrong = len(data.differing(posted))
    if wrong:
        yield Problem(where, f"{wrong} of {rows} values are posted otherwise", Blame.SPACE, space.space)


@dataclass(frozen=True)
class _Pairs:
    """Pairs of a row of a file and a key: row `at[i]` has `keys[codes[i]]`; `rows`: row count of the file."""

    keys: pa.BinaryArray
    codes: Longs
    at: Longs
    rows: int

    def differing(self, other: _Pairs) -> Longs:
        """Return the rows whose keys differ from those in `other`, or that have a key twice in `other`."""
        coded = pa.concat_arrays([self.keys, other.keys]).dictionary_encode(null_encoding="encode")
        place = np.asarray(coded.indices, dtype=np.int64)
        mine, theirs = self._packed(place[: len(self.keys)]), other._packed(place[len(self.keys) :])
        wrong = np.setxor1d(mine, theirs) & _ROW
        twice = theirs[1:][theirs[1:] == theirs[:-1]] & _ROW
        return np.union1d(wrong, twice)

    def _packed(self, place: Longs) -> Longs:
        return np.sort(place[self.codes] << _ROW_BITS | self.at)


_ROW_BITS = 32
_ROW = (1 << _ROW_BITS) - 1


def _keys_of_rows(source: CheckedSource, slice_: FileSlice, column: Column) -> _Pairs:
    """Return the keys of every physical row of a file, from its data."""
    coding, start = coding_of(column, posting_type_of(column.type)), 0
    for table in fetch(source.storage, slice_, sources_of([column]), None):
        coding.add(start, with_terms(table, [column])[0][column.id])
        start += table.num_rows
    coded = coding.finish()
    codes, at = coded.at(np.arange(start))
    return _Pairs(coded.keys, codes.astype(np.int64), at, start)


def _posted(space: SpaceView, column: Column, base: int, rows: int) -> _Pairs:
    """Return the keys in whose postings each row of a file occurs; its rows begin at position `base`."""
    current, claim = posting_type_of(column.type), BitMap(range(base, base + rows))
    keys, codes, at, count = [NO_KEYS], [_NONE], [_NONE], 0
    for segment in space.serving(column):
        for stored_keys, bitmaps in segment.postings(column.id):
            keys.append(widen_keys(stored_keys, segment.columns[column.id], current).cast(pa.binary()))
            for bits in bitmaps:
                posted_rows = positions_in(bits & claim).astype(np.int64) - base
                codes.append(np.full(len(posted_rows), count, dtype=np.int64))
                at.append(posted_rows)
                count += 1
    return _Pairs(pa.concat_arrays(keys), np.concatenate(codes), np.concatenate(at), rows)


_NONE = np.zeros(0, dtype=np.int64)
