"""Check that the postings of sampled values hold the positions of these values."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.errors import CorruptIndexError, SourceError
from tailbit.index.evaluation.row_space import SpaceView
from tailbit.index.expression.indexed_term import sources_of, with_terms
from tailbit.index.keys import posting_type_of, widen_keys
from tailbit.index.kinds.kind import Blame, CheckedSource, Problem
from tailbit.index.postings.segment import Segment
from tailbit.index.roaring.elements import coding_of
from tailbit.index.verification.report import Report
from tailbit.tables import compute as pc
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.parquet.rows import fetch


def check_sample(
    spaces: Sequence[SpaceView],
    ids: Sequence[str],
    columns: Mapping[str, Column],
    source: CheckedSource,
    samples: int,
    rng: random.Random,
    report: Report,
) -> Iterator[Problem]:
    """Yield the differences of `samples` (file, column, row) values, chosen by `rng`, from their postings.

    `ids`: of the indexed columns; `columns`: those that the source has, by id. Cost: each column of a file is
    read once, and only the row groups of its chosen rows.
    """
    choices = [space for space in spaces if space.extent]
    weights = [space.extent for space in choices]
    drawn: dict[tuple[int, int, str], list[int]] = {}
    for _ in range(samples if choices and ids else 0):
        (which,) = rng.choices(range(len(choices)), weights)
        space = choices[which]
        order = int(rng.choice(np.flatnonzero(space.rows).tolist()))
        position, id_ = rng.randrange(int(space.rows[order])), rng.choice(list(ids))
        if id_ in columns and id_ in space.column_sets[space.posted[order]]:
            drawn.setdefault((which, order, id_), []).append(position)
    for (which, order, id_), positions in sorted(drawn.items()):
        yield from _check_values(choices[which], order, columns[id_], sorted(positions), source, report)


def _check_values(
    space: SpaceView, order: int, column: Column, positions: list[int], source: CheckedSource, report: Report
) -> Iterator[Problem]:
    """Check values of one column of a file; a file that is gone from an older version is skipped."""
    slice_ = source.slices[int(space.files[order])]
    if source.is_gone(slice_):
        return
    where = f"file {slice_.path}, column {column.id}, position "
    try:
        values = _read(slice_, column, positions, source)
        segments = space.serving(column)
        postings_of_values = [_postings(segments, column, value) for value in values]
    except CorruptIndexError as damage:
        yield Problem.of(damage)
        return
    except SourceError as unreadable:
        yield Problem.of_source(slice_.path, unreadable)
        return
    if len(values) < len(positions):
        yield Problem(f"file {slice_.path}", "the data file has fewer rows than recorded")
    report.sampled += len(values)
    base = int(space.bases[order])
    for position, postings in zip(positions, postings_of_values, strict=False):
        if segments and not all(base + position in bits for bits in postings):
            reason = "the value in the data file is not the one posted"
            yield Problem(f"{where}{position}", reason, Blame.SPACE, space.space)


def _read(
    slice_: FileSlice, column: Column, positions: Sequence[int], source: CheckedSource
) -> list[pa.Array]:
    """Return the values at ascending positions, each as an array of one; fewer if the file ends before."""
    at, place = np.unique(np.array(positions, dtype=np.uint64), return_inverse=True)
    read = fetch(source.storage, slice_, sources_of([column]), at)
    tables = (with_terms(table, [column])[0] for table in read)
    values = [
        chunk[n : n + 1] for table in tables for chunk in table[column.id].chunks for n in range(len(chunk))
    ]
    return [values[n] for n in place.tolist() if n < len(values)]


def _postings(segments: Sequence[Segment], column: Column, value: pa.Array) -> list[BitMap]:
    """Return the posting of each key of a value of the column's current type; empty if there is none."""
    current = posting_type_of(column.type)
    coding = coding_of(column, current)
    coding.add(0, pa.chunked_array([value]))
    coded = coding.finish()
    keys = [coded.keys[code].as_py() for code in coded.at(np.zeros(1, np.int64))[0].tolist()]
    postings_of_keys = [[_posting(segment, column.id, current, key) for segment in segments] for key in keys]
    return [BitMap.union(BitMap(), *filter(None, bits)) for bits in postings_of_keys]


def _posting(segment: Segment, column: str, current: str, key: bytes | None) -> BitMap | None:
    """Return the posting of a key of the column's current type, in a segment whose keys may be narrower."""
    stored = segment.columns[column]
    if key is not None and stored != current:
        keys = segment.keys(column)[0]
        at = pc.index(widen_keys(keys, stored, current), pa.scalar(key, pa.binary())).as_py()
        if at < 0:
            return None
        key = keys[at].as_py()
    return segment.lookup(column, key)
