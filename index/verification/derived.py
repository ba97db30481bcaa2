"""The postings of whole files are derived again from their data, column by column, and compared."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from tailbit.errors import CorruptIndexError, SourceError
from tailbit.index.evaluation.row_space import SpaceView
from tailbit.index.keys import key_type_of, widen_keys
from tailbit.index.kinds.kind import Blame, CheckedSource, Problem
from tailbit.index.roaring.coding import Coding
from tailbit.index.verification.report import Report
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.parquet.rows import fetch
from tailbit.tables.positions import positions_in
from tailbit.tables.schema import arrow_type


def check_derived(
    spaces: Sequence[SpaceView],
    columns: Sequence[Column],
    source: CheckedSource,
    wanted: Callable[[str, str], bool] | None,
    derive: int,
    rng: random.Random,
    report: Report,
) -> Iterator[Problem]:
    """Derive the postings of (file, column) pairs again.

    All those whose path and column id are `wanted`, where it is given; else `derive` chosen by `rng`.
    Cost: each pair reads one column of a file and its postings. Memory: one column of one file.
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
    if not source.at_head and source.storage.locate(slice_.path)[1] is None:
        return
    where = f"file {slice_.path}, column {column.id}"
    base, rows = int(space.bases[order]), int(space.rows[order])
    try:
        data = _keys_of_rows(source, slice_, column)
        posted = _posted(space, column, base, rows)
    except CorruptIndexError as damage:
        yield Problem(where, str(damage), Blame.FILE, str(damage.fields.get("file")))
        return
    except SourceError as unreadable:
        yield Problem(where, str(unreadable))
        return
    report.derived += 1
    if len(data) != rows:
        yield Problem(
            where, f"the data file has {len(data)} rows, {rows} are recorded", Blame.SPACE, space.space
        )
        return
    wrong = rows if posted is None else _differing(data, posted)
    if wrong:
        yield Problem(where, f"{wrong} of {rows} values are posted otherwise", Blame.SPACE, space.space)


def _differing(data: pa.Array, posted: pa.Array) -> int:
    both_null = pc.and_(pc.is_null(data), pc.is_null(posted))
    equal = pc.or_(pc.fill_null(pc.equal(data, posted), False), both_null)
    return int(pc.sum(pc.invert(equal)).as_py() or 0)


def _keys_of_rows(source: CheckedSource, slice_: FileSlice, column: Column) -> pa.Array:
    """The key of every physical row of a file, by its data."""
    coding, start = Coding(arrow_type(column.type, column.label), key_type_of(column.type)), 0
    for table in fetch(source.storage, slice_, [column], None):
        coding.add(start, table[column.id])
        start += table.num_rows
    coded = coding.finish()
    return (
        coded.keys.take(pa.array(np.asarray(coded.codes(0, start)))) if start else pa.array([], pa.binary())
    )


def _posted(space: SpaceView, column: Column, base: int, rows: int) -> pa.Array | None:
    """The key that each row of a claim is posted under; None where a row is posted under none, or several."""
    current, claim = key_type_of(column.type), BitMap(range(base, base + rows))
    keys, codes, count = [pa.array([], pa.binary())], np.full(rows, -1, dtype=np.int64), 0
    for segment in space.serving(column):
        for found, bitmaps in segment.postings(column.id):
            stored = segment.columns[column.id]
            keys.append(found if stored == current else widen_keys(found, stored, current))
            for bits in bitmaps:
                at = positions_in(bits & claim).astype(np.int64) - base
                if (codes[at] >= 0).any():
                    return None
                codes[at] = count
                count += 1
    if (codes < 0).any():
        return None
    return pa.concat_arrays([part.cast(pa.binary()) for part in keys]).take(pa.array(codes))
