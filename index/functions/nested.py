"""Functions of arrays, maps and structs, over whole columns.

An array of rows is a `Spread`: all elements in one flat array, and per row where its elements begin and how
many there are. A function of elements runs once over the flat array, and its results are gathered by row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.index.functions.operators import ordered
from tailbit.index.functions.tree import Call, Expression
from tailbit.index.functions.vectors import (
    NOT_READ,
    Codes,
    Vector,
    array_of,
    code,
    first_of,
    is_set,
    nulls_of,
    numbers,
)
from tailbit.index.values.literals import Literal
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, filled, nested_array, numpy_of
from tailbit.tables.model import DataType


class Spread(NamedTuple):
    """Elements by row: row i has `lengths[i]` elements from `starts[i]` on in `flat`; a NULL row has none."""

    starts: Longs
    lengths: Longs
    null: Mask
    flat: pa.Array

    @property
    def rows(self) -> Longs:
        """Return the row of each element of `flat`."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)


def spread(values: pa.Array, side: str = "element") -> Spread:
    """Return the elements of arrays, or the keys or values of maps, without those that NULL rows hide.

    `side`: "element", "key" or "value". Cost: none of the elements is copied unless NULL rows hide some.
    """
    null = nulls_of(values)
    offsets = numpy_of(values.offsets, np.int64)
    lengths = np.where(null, 0, np.diff(offsets))
    child = values.values if side == "element" else values.keys if side == "key" else values.items
    total = int(lengths.sum())
    starts = np.cumsum(lengths) - lengths
    if total == offsets[-1] - offsets[0]:
        return Spread(starts, lengths, null, child.slice(int(offsets[0]), total))
    indexes = np.arange(total) + np.repeat(offsets[:-1] - starts, lengths)
    return Spread(starts, lengths, null, pc.take(child, arrow_array(indexes)))


def lists(rows: Spread, flat: pa.Array) -> pa.Array:
    """Return arrays of other elements with the same lengths."""
    offsets = np.append(rows.starts, rows.lengths.sum()).astype(np.int32)
    type_ = pa.list_(pa.field("element", flat.type))
    return nested_array(type_, [flat], arrow_array(offsets), rows.null)


def per_row(rows: Spread, elements: Mask) -> Longs:
    """Count the marked elements of each row."""
    total = np.concatenate([[0], np.cumsum(elements)])
    return np.asarray(total[rows.starts + rows.lengths] - total[rows.starts])


def _equal_to(rows: Spread, value: pa.Array, side: Expression) -> pa.Array:
    """Return whether each element equals the value of its row, of the same type; NULL if either is NULL.

    `side`: the expression of the value; a constant is one row, which stands for all.
    """
    if isinstance(side, Literal) and len(value):
        return pc.equal(ordered(rows.flat, side.type), ordered(value.slice(0, 1), side.type)[0])
    repeated = pc.take(value, arrow_array(rows.rows))
    return pc.equal(ordered(rows.flat, side.type), ordered(repeated, side.type))


def _nullable(truth: Mask, null: Mask) -> pa.Array:
    return arrow_array(truth, mask=null)


def contains(call: Call, args: list[pa.Array]) -> Vector:
    """Compute array_contains: NULL if the value is not found but an element is NULL."""
    rows = spread(args[0])
    same = _equal_to(rows, args[1], call.args[1])
    there = per_row(rows, is_set(same)) > 0
    unknown = per_row(rows, nulls_of(same)) > 0
    return Vector(_nullable(there, rows.null | nulls_of(args[1]) | (~there & unknown)))


def overlap(call: Call, args: list[pa.Array]) -> Vector:
    """Compute arrays_overlap: NULL if no element is shared, neither array is empty, and one has a NULL.

    A constant is one row, which stands for all.
    """
    first, second = spread(args[0]), spread(args[1])
    empty = (first.lengths == 0) | (second.lengths == 0)
    holes = (per_row(first, nulls_of(first.flat)) > 0) | (per_row(second, nulls_of(second.flat)) > 0)
    constant = next((n for n, arg in enumerate(call.args) if isinstance(arg, Literal)), None)
    type_ = call.args[0].type.fields[0].type
    if constant is None:
        there = _shared(first, second, type_)
    else:
        listed, rows = (first, second) if constant == 0 else (second, first)
        constants = pc.drop_null(ordered(listed.flat, type_))
        there = per_row(rows, is_set(pc.is_in(ordered(rows.flat, type_), value_set=constants))) > 0
    null = first.null | second.null
    return Vector(_nullable(there, null | (~there & ~empty & holes)))


def _shared(first: Spread, second: Spread, type_: DataType) -> Mask:
    """Return the rows whose two arrays share an element other than NULL."""
    whole = pa.concat_arrays([ordered(rows.flat, type_) for rows in (first, second)])
    codes = numpy_of(filled(pc.dictionary_encode(whole).indices, -1), np.int64)
    keys = np.concatenate([first.rows, second.rows]) * (len(codes) + 1) + codes
    boundary = len(first.flat)
    both = np.intersect1d(keys[:boundary][codes[:boundary] >= 0], keys[boundary:][codes[boundary:] >= 0])
    there = np.zeros(len(first.lengths), dtype=np.bool_)
    there[both // (len(codes) + 1)] = True
    return there


def size(call: Call, args: list[pa.Array]) -> Vector:
    """Return the number of elements of an array or map; NULL for NULL."""
    rows = spread(args[0], "key" if pa.types.is_map(args[0].type) else "element")
    return Vector(array_of(rows.lengths, rows.null, call.type))


_LEAST = -(1 << 31)


def element(call: Call, args: list[pa.Array]) -> Vector:
    """Return an element by index; settings: the index of the first, and the error if there is none, or "".

    Indexes of `element_at` begin at 1, or at -1 from the end; 0 is an error of its own. At the least integer,
    whose magnitude overflows, Spark reads past the array.
    """
    first, error = int(call.setting[0]), str(call.setting[1])
    rows, asked_index = spread(args[0]), numbers(args[1]).astype(np.int32).astype(np.int64)
    null = rows.null | nulls_of(args[1])
    zero = ~null & (asked_index == 0) & (first == 1)
    index = np.where(asked_index < 0, asked_index + rows.lengths, asked_index - 1) if first else asked_index
    outside = ~null & ~zero & ((index < 0) | (index >= rows.lengths))
    crashing = ~null & (asked_index == _LEAST) & (first == 1)
    outside &= ~crashing
    missing = null | zero | outside | crashing
    indexes = arrow_array(np.where(missing, 0, rows.starts + index), mask=missing)
    outside_of = code(error, outside) if error else None
    raised = first_of([code("INVALID_INDEX_OF_ZERO", zero), code(NOT_READ, crashing), outside_of])
    return Vector(_elements_at(rows.flat, indexes), raised)


def _elements_at(flat: pa.Array, indexes: pa.Array) -> pa.Array:
    return pc.take(flat, indexes) if len(flat) else pa.nulls(len(indexes), flat.type)


def value_of_key(call: Call, args: list[pa.Array]) -> Vector:
    """Return the value of a key of a map, NULL if the map lacks the key; the first of equal keys counts."""
    keys, values = spread(args[0], "key"), spread(args[0], "value")
    indexes = _firsts(keys, np.flatnonzero(is_set(_equal_to(keys, args[1], call.args[1]))))
    return Vector(_elements_at(values.flat, arrow_array(indexes, mask=indexes < 0)))


def _firsts(rows: Spread, elements: Longs) -> Longs:
    """Return for each row the element of the row that comes first in the order `elements`; -1 for none."""
    owners, first = np.unique(rows.rows[elements], return_index=True)
    out = np.full(len(rows.lengths), -1, dtype=np.int64)
    out[owners] = elements[first]
    return out


def keys_or_values(call: Call, args: list[pa.Array]) -> Vector:
    """Compute map_keys and map_values."""
    rows = spread(args[0], "key" if call.name == "map_keys" else "value")
    return Vector(lists(rows, rows.flat))


def position(call: Call, args: list[pa.Array]) -> Vector:
    """Compute array_position: the index, from 1, of the first element that equals the value; else 0."""
    rows = spread(args[0])
    first = _firsts(rows, np.flatnonzero(is_set(_equal_to(rows, args[1], call.args[1]))))
    positions = np.where(first < 0, 0, first - rows.starts + 1)
    return Vector(array_of(positions, rows.null | nulls_of(args[1]), call.type))


def extreme(call: Call, args: list[pa.Array]) -> Vector:
    """Compute array_max and array_min: the first of the greatest or least elements; NULL if all are NULL."""
    rows = spread(args[0])
    comparable = ordered(rows.flat, call.type)
    ranks = numpy_of(pc.rank(comparable, sort_keys="ascending", tiebreaker="dense")).astype(np.int64)
    ranks = np.where(nulls_of(comparable), 0, ranks if call.name == "array_max" else -ranks)
    present = ~nulls_of(comparable)
    order = np.lexsort((np.arange(len(ranks)), -ranks, rows.rows))
    indexes = _firsts(rows, order[present[order]])
    return Vector(_elements_at(rows.flat, arrow_array(indexes, mask=indexes < 0)))


def field(call: Call, args: list[pa.Array]) -> Vector:
    """Return a field of a struct, or of each struct in an array; the setting is the field's number."""
    number = int(call.setting[0])
    if pa.types.is_struct(args[0].type):
        return Vector(pc.struct_field(args[0], [number]))
    rows = spread(args[0])
    return Vector(lists(rows, pc.struct_field(rows.flat, [number])))


def array_of_values(call: Call, args: list[pa.Array]) -> Vector:
    """Compute array(...): one element per argument."""
    rows, count = len(args[0]), len(args)
    flat = pc.take(
        pa.concat_arrays(args), arrow_array(np.arange(rows * count).reshape(count, rows).T.ravel())
    )
    lengths = np.full(rows, count, dtype=np.int64)
    return Vector(lists(Spread(np.arange(rows) * count, lengths, np.zeros(rows, np.bool_), flat), flat))


def gathered(name: str, rows: Spread, body: Vector) -> Vector:
    """Compute `exists`, `forall` and `transform`; `body`: the result of their expression for each element.

    `exists` and `forall` stop at the first element that decides: an error of a later element does not count.
    """
    if name == "transform":
        nothing = np.zeros(len(body.values), dtype=np.bool_)
        return Vector(lists(rows, body.values), _first_raised(rows, nothing, body.raised))
    decides = is_set(body.values) if name == "exists" else is_set(pc.invert(body.values))
    raised = _first_raised(rows, decides & ~body.failed, body.raised)
    decided = per_row(rows, decides & ~body.failed) > 0
    unknown = per_row(rows, nulls_of(body.values)) > 0
    truth = decided if name == "exists" else ~decided
    return Vector(_nullable(truth, rows.null | (~decided & unknown)), raised)


def _first_raised(rows: Spread, decides: Mask, raised: Codes | None) -> Codes | None:
    """Return per row the first error of its elements, unless an earlier element decides the row."""
    if raised is None or not raised.any():
        return None
    ends = _firsts(rows, np.flatnonzero(decides | (raised != 0)))
    first_errors = np.where(ends < 0, 0, raised[ends])
    return first_errors if first_errors.any() else None
