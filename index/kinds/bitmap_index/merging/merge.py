"""Merge of the segments of several row spaces into segments of one row space.

Claims are laid end to end, and postings of equal keys are united: see `moves` and `combine`. Memory: one row
group of every input.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence, Set

import numpy as np
import pyarrow as pa

from tailbit.base.errors import ColumnTypeError
from tailbit.index.keys import widen_keys, widest
from tailbit.index.kinds.bitmap_index.merging.combine import combine
from tailbit.index.kinds.bitmap_index.merging.moves import Input, Moves, lay_out
from tailbit.index.kinds.merging import Merged
from tailbit.index.kinds.settings import PostingForms
from tailbit.index.model import FileRecord, raised_id
from tailbit.index.parquet.sorted_rows import aligned, regrouped, sort
from tailbit.index.postings import gaps
from tailbit.index.postings.postings import Postings, write_paged_segment, write_segment
from tailbit.index.postings.segment import STORED, Segment
from tailbit.tables.arrow import numpy_of
from tailbit.tables.storage import Storage


def merge_spaces(
    storage: Storage,
    spaces: Sequence[Sequence[Segment]],
    claims: Sequence[Sequence[FileRecord]],
    earliest: int | None,
    forms: PostingForms,
) -> Merged:
    """Write the postings and claims of some row spaces as one row space; drop claims of unreachable files."""
    paged = forms.paged
    space = uuid.uuid4().hex
    moves, moved, rows = lay_out(claims, lambda record: record.is_reachable(earliest), space)
    built = {id_ for records in claims for record in records for id_ in record.built}
    posted = built | {raised_id(id_) for id_ in built}
    files = []
    in_pages = _has_any(spaces, posted & paged)
    if rows and (not in_pages or _has_any(spaces, posted - paged)):
        files.append(
            write_segment(storage, space, rows, _postings(spaces, moves, posted - paged), forms.share)
        )
    if rows and in_pages:
        postings = _postings(spaces, moves, posted & paged)
        files.append(write_paged_segment(storage, space, rows, postings, forms.packs))
    return Merged(tuple(files), tuple(moved))


def _has_any(spaces: Sequence[Sequence[Segment]], ids: Set[str]) -> bool:
    return bool(ids) and any(not ids.isdisjoint(s.columns) for segments in spaces for s in segments)


def _postings(
    spaces: Sequence[Sequence[Segment]], moves: Sequence[Moves], posted: Set[str]
) -> Iterator[Postings]:
    """Yield the merged postings, column by column, keys in order.

    Columns that no file has posted are left out.

    Raises:
        ColumnTypeError: a column has key types of which none holds all others; such row spaces are not
            merged.
    """
    sources = [(number, segment) for number, segments in enumerate(spaces) for segment in segments]
    for column in sorted(posted & {c for _, s in sources for c in s.columns}):
        mine = [(n, s) for n, s in sources if column in s.columns]
        types = {s.columns[column] for _, s in mine}
        key_type = widest(types)
        if key_type is None:
            type_names = ", ".join(sorted(types))
            raise ColumnTypeError(
                column=column, type=type_names, reason="none holds the values of all others"
            )
        inputs = [Input(moves[n], s.path, s.rows) for n, s in mine]
        batches = [_batches(s, column, key_type, at) for at, (_, s) in enumerate(mine)]
        for part in regrouped(combine(sort(rows, ["key"]), inputs) for rows in aligned(batches, ["key"])):
            cardinality = numpy_of(part["cardinality"], dtype=np.int64)
            keys, bitmaps = part["key"].combine_chunks(), part["bitmap"].combine_chunks()
            yield Postings(column, key_type, keys, cardinality, bitmaps, part.select(gaps.COLUMNS))


def _batches(segment: Segment, column: str, key_type: str, source: int) -> Iterator[pa.Table]:
    stored = segment.columns[column]
    for _, read in segment.parts(column):
        rows = read(STORED)
        if stored != key_type:
            rows = rows.set_column(0, "key", widen_keys(rows["key"].combine_chunks(), stored, key_type))
        yield rows.append_column("source", pa.array(np.full(len(rows), source, dtype=np.int64)))
