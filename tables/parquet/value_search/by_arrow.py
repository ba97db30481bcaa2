"""Test of stored values with pyarrow and numpy, for processes that have not loaded Polars.

Importing Polars takes longer than it takes pyarrow to decode some ten million numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import and_, or_
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow._parquet import ParquetReader

from tailbit.base.arrays import Mask
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, arrow_scalar, numpy_of
from tailbit.tables.parquet.value_search.condition import (
    AllOf,
    Condition,
    Floats,
    Numbers,
    Part,
    Test,
    Texts,
)
from tailbit.tables.parquet.value_search.expressions import PASSES, Names


def passing_rows(data: bytes, condition: Condition, names: Names, masked: bool) -> npt.NDArray[np.uint32]:
    """Return the row numbers of a file for which a condition is true, ascending.

    `masked`: only rows that the last column marks count.

    Raises:
        pyarrow.ArrowException, OSError, ValueError: the file cannot be read.
    """
    before, rows = 0, [np.zeros(0, np.uint32)]
    for passes in _passing(data, condition, names, masked):
        rows.append((np.flatnonzero(passes) + before).astype(np.uint32))
        before += len(passes)
    return np.concatenate(rows)


def passing_count(data: bytes, condition: Condition, names: Names, masked: bool) -> int:
    """Count the rows of a file for which a condition is true; arguments and errors as in `passing_rows`."""
    return sum(int(np.count_nonzero(passes)) for passes in _passing(data, condition, names, masked))


def _passing(data: bytes, condition: Condition, names: Names, masked: bool) -> Iterator[Mask]:
    """Yield per row group which rows pass."""
    reader = ParquetReader()
    # No thread of Arrow reads these bytes: see `ParquetFile`.
    reader.open(pa.BufferReader(data), pre_buffer=False)
    for group in range(reader.metadata.num_row_groups):
        table = reader.read_row_groups([group], use_threads=False)
        if table.num_rows != reader.metadata.row_group(group).num_rows:
            raise ValueError(f"{table.num_rows} rows can be read of row group {group}")
        if table.num_rows:
            columns = [pa.concat_arrays(values.chunks) for values in table.columns]
            places = {key: int(name) for key, (name, _, _) in names.items()}
            passes = _passes(condition, {key: columns[place] for key, place in places.items()}, names)
            yield passes & numpy_of(columns[-1]) if masked else passes


def _passes(condition: Condition, columns: Mapping[int, pa.Array], names: Names) -> Mask:
    if not isinstance(condition, Test):
        parts = [_passes(part, columns, names) for part in condition.parts]
        joined: Mask = reduce(and_ if isinstance(condition, AllOf) else or_, parts)
        return joined
    values, form = columns[id(condition)], names[id(condition)][2]
    if form.coded:
        passes: Mask = _plain(values) == PASSES
    else:
        passes = _stored(values, condition)
        passes = ~passes if condition.complement else passes
    if values.null_count:
        valid = numpy_of(pc.is_valid(values))
        passes = passes | ~valid if condition.nulls else passes & valid
    return passes


def _plain(values: pa.Array) -> npt.NDArray[Any]:
    """Return numbers or booleans as a numpy array, with any value in the place of NULL."""
    if not values.null_count:
        return numpy_of(values)
    _, data = values.buffers()
    return numpy_of(pa.Array.from_buffers(values.type, len(values), [None, data], offset=values.offset))


def _stored(values: pa.Array, test: Test) -> Mask:
    """Return whether each value is among the test's stored values; the result for NULL is arbitrary."""
    stored = test.stored
    if isinstance(stored, Texts):
        return _texts(values, stored)
    if isinstance(stored, Part):
        return _part(values, stored)
    numbers = _plain(values)
    if isinstance(stored, Floats):
        return _floats(numbers.astype(np.float64, copy=False), stored)
    assert isinstance(stored, Numbers)
    return _numbers(numbers.view(np.int8) if numbers.dtype == bool else numbers, stored)


def _floats(numbers: npt.NDArray[np.float64], floats: Floats) -> Mask:
    passes: Mask = np.isnan(numbers) if floats.nan else np.zeros(len(numbers), bool)
    for low, high in floats.ranges:
        passes |= (numbers >= low) & (numbers <= high)
    return passes


def _numbers(numbers: npt.NDArray[Any], stored: Numbers) -> Mask:
    passes: Mask = np.zeros(len(numbers), bool)
    span = np.iinfo(numbers.dtype)
    points, wider = stored.within(span.min, span.max)
    for low, high in wider:
        passes |= _between(numbers, low, high, span)
    if len(points) == 1:
        passes |= numbers == numbers.dtype.type(points[0])
    elif len(points):
        passes |= np.isin(numbers, points.astype(numbers.dtype))
    return passes


def _between(numbers: npt.NDArray[Any], low: int, high: int, span: np.iinfo[Any]) -> Mask:
    of = numbers.dtype.type
    if low == span.min:
        below: Mask = numbers <= of(high)
        return below
    above: Mask = numbers >= of(low)
    return above if high == span.max else above & (numbers <= of(high))


def _texts(values: pa.Array, texts: Texts) -> Mask:
    parts, points = [], list[bytes]()
    for low, low_closed, high, high_closed in texts.ranges:
        if low is not None and low == high:
            points.append(low)
            continue
        ends = []
        if low is not None:
            ends.append((pc.greater_equal if low_closed else pc.greater)(values, _text(low)))
        if high is not None:
            ends.append((pc.less_equal if high_closed else pc.less)(values, _text(high)))
        parts.append(_all(ends, len(values)))
    if len(points) == 1:
        parts.append(_bits(pc.equal(values, _text(points[0]))))
    elif points:
        parts.append(_bits(pc.is_in(values, value_set=arrow_array(points, pa.binary()))))
    return reduce(or_, parts, np.zeros(len(values), bool))


def _part(values: pa.Array, part: Part) -> Mask:
    tests = []
    if part.begin and part.end:
        length = arrow_scalar(len(part.begin) + len(part.end), pa.int32())
        tests.append(pc.greater_equal(pc.binary_length(values), length))
    if part.begin:
        tests.append(pc.starts_with(values, part.begin))
    if part.end:
        tests.append(pc.ends_with(values, part.end))
    if part.middle:
        tests.append(pc.match_substring(values, part.middle))
    return _all(tests, len(values))


def _all(tests: Sequence[pa.Array], rows: int) -> Mask:
    return reduce(and_, map(_bits, tests), np.ones(rows, bool))


def _bits(test: pa.Array) -> Mask:
    """Return booleans as a numpy array, with either value in the place of NULL."""
    return _plain(test)


def _text(value: bytes) -> pa.Scalar:
    return arrow_scalar(value, pa.binary())
