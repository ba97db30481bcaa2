"""Values read again from the data files are posted where they stand."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from tailbit.errors import CorruptIndexError, SourceError
from tailbit.index.evaluation.row_space import SpaceView
from tailbit.index.keys import encode_array, key_type_of, widen_keys
from tailbit.index.kinds.bitmap_index.segment import Segment
from tailbit.index.kinds.kind import Blame, Problem, Source
from tailbit.index.verification.report import Report
from tailbit.tables.model import Column
from tailbit.tables.parquet.rows import fetch


def check_sample(
    spaces: Sequence[SpaceView],
    ids: Sequence[str],
    columns: Mapping[str, Column],
    source: Source,
    samples: int,
    rng: random.Random,
    report: Report,
) -> Iterator[Problem]:
    """Read `samples` (file, column, row) values again, chosen by `rng`.

    `ids`: of the indexed columns; `columns`: those that the source has, by id. Cost: at most a row group of
    data each.
    """
    choices = [space for space in spaces if space.extent]
    weights = [space.extent for space in choices]
    for _ in range(samples if choices else 0):
        (space,) = rng.choices(choices, weights)
        order = int(rng.choice(np.flatnonzero(space.rows).tolist()))
        position = rng.randrange(int(space.rows[order]))
        column = columns.get(rng.choice(list(ids)))
        if column is not None and column.id in space.column_sets[space.posted[order]]:
            yield from _check_value(space, order, column, position, source, report)


def _check_value(
    space: SpaceView, order: int, column: Column, position: int, source: Source, report: Report
) -> Iterator[Problem]:
    """Check one value; a file of an older version that is gone, as after VACUUM, is passed over."""
    slice_ = source.slices[int(space.files[order])]
    if not source.at_head and source.storage.stat(source.storage.resolve(slice_.path)) is None:
        return
    where = f"file {slice_.path}, column {column.id}, position {position}"
    try:
        at = np.array([position], dtype=np.uint64)
        tables = list(fetch(source.storage, slice_, [column], at))
        if not tables:
            yield Problem(where, "the data file has fewer rows than recorded")
            return
        value = tables[0][column.id].combine_chunks()
        segments = space.serving(column)
        found = [_posting(segment, column, value) for segment in segments]
    except CorruptIndexError as damage:
        yield Problem(where, str(damage), Blame.FILE, str(damage.fields.get("file")))
        return
    except SourceError as unreadable:
        yield Problem(where, str(unreadable))
        return
    report.sampled += 1
    here = int(space.bases[order]) + position
    if segments and not any(bits is not None and here in bits for bits in found):
        yield Problem(where, "the value in the data file is not the one posted", Blame.SPACE, space.space)


def _posting(segment: Segment, column: Column, value: pa.Array) -> BitMap | None:
    """The posting of a value of the column's current type, in a segment whose keys may be narrower."""
    stored, current = segment.columns[column.id], key_type_of(column.type)
    key: bytes | None = encode_array(value, current)[0].as_py()
    if key is not None and stored != current:
        keys = segment.keys(column.id)[0]
        at = pc.index(widen_keys(keys, stored, current), pa.scalar(key, pa.binary())).as_py()
        if at < 0:
            return None
        key = keys[at].as_py()
    return segment.lookup(column.id, key)
