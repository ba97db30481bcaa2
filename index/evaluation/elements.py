"""A computed condition on one array column, decided by the postings of its elements.

`array_contains`, `arrays_overlap` with a constant array, `exists` and `forall` follow one rule: a row is TRUE
(for `forall`: FALSE) if the condition has that outcome for the array of just one of its elements; else NULL
if the outcome is NULL for one of its elements; else the other outcome. So the condition is evaluated once per
distinct element, on the array of that element, and once for a NULL and for an empty array. For other
conditions, such as `size(tags) > 2`, only the outcomes for NULL and for empty arrays are known; other rows
are left open, except where all arrays with elements have one outcome, as in `size(tags) > 0`.

Worked example: four rows, `array_contains(tags, 'a')` evaluated for each key; TRUE decides.

    tags            [b, a]      NULL       []         [NULL, b]
    keys            a b         (NULL)     (empty)    (NULL element) b
    outcomes        TRUE FALSE  NULL       FALSE      NULL FALSE
    of the row      TRUE        NULL       FALSE      NULL

An element whose key is truncated, or for which the condition raises, leaves its rows open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tailbit.index.evaluation.key_selection import OPEN, KeyOutcomes, Outcomes, RangeKeys
from tailbit.index.evaluation.row_space import EMPTY, Bounds, SpaceView, union
from tailbit.index.expression.evaluate import evaluate
from tailbit.index.functions.tree import Call, Expression, Ref, columns_in, key_of
from tailbit.index.functions.vectors import is_set, nulls_of
from tailbit.index.keys import (
    ELEMENT,
    MAX_KEY,
    NO_ELEMENT,
    NULL_ELEMENT,
    KeyRange,
    decode_keys,
    element_keys,
    element_type,
    is_textual,
    key_type_of,
    posting_type_of,
    widen_keys,
)
from tailbit.index.postings.segment import Segment
from tailbit.index.predicate.computed import Computed, TruthValue
from tailbit.index.predicate.key_ranges import KeyRanges, key_ranges
from tailbit.index.predicate.value_sets import ValueSet
from tailbit.index.values.coercion import MIRRORED
from tailbit.index.values.literals import WHOLE, Literal
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, filled, numpy_of
from tailbit.tables.model import Column
from tailbit.tables.schema import arrow_type

_TRUE, _FALSE, _NULL = TruthValue.TRUE, TruthValue.FALSE, TruthValue.NULL
_DECIDES = {
    "array_contains": _TRUE,
    "arrays_overlap": _TRUE,
    "exists": _TRUE,
    "forall": _FALSE,
}
"""Functions of an array and constants, each with the outcome that a single element decides."""

_AROUND = {
    "not": {_TRUE: _FALSE, _FALSE: _TRUE, _NULL: _NULL},
    "is null": {_TRUE: _FALSE, _FALSE: _FALSE, _NULL: _TRUE},
}
"""Outcome of NOT and of IS NULL for each outcome of their operand."""

_NUMBERS = {_FALSE: 0, _TRUE: 1, _NULL: 2}
"""The outcomes of a condition for an array beside `OPEN`."""


def element_bounds(node: Computed, space: SpaceView) -> Bounds:
    """Compute the bounds of a condition on one array column.

    Cost: one evaluation over the distinct elements of each segment, cached; then the postings of the elements
    that decide, give NULL or leave rows open.
    """
    assert node.column is not None
    segments = space.serving(node.column)
    if not segments:
        return Bounds.between(EMPTY, space.visible)
    unposted = space.unposted(node.column.id)
    node = _unwrapped(node)
    decides = _decides(node.expression)
    bounds = (
        _by_bare(node, segments, space) if decides is None else _by_element(node, decides, segments, space)
    )
    if unposted is None:
        return bounds
    return Bounds.between(bounds.sure - unposted, bounds.maybe | unposted)


def _unwrapped(node: Computed) -> Computed:
    """Strip NOT and IS NULL from around a condition; the result is TRUE for the same rows."""
    call, true = node.expression, node.true
    while isinstance(call, Call) and call.name in _AROUND and call.args[0].type.name == "boolean":
        inner = _AROUND[call.name]
        true = frozenset(of for of, outcome in inner.items() if outcome in true)
        call = call.args[0]
    return Computed(call, node.text, true)


def _decides(expression: Expression) -> TruthValue | None:
    """Return the outcome that a single element decides; None for conditions of another kind."""
    if not isinstance(expression, Call) or expression.name not in _DECIDES:
        return None
    return _DECIDES[expression.name] if _is_elementwise(expression) else None


def _is_elementwise(call: Call) -> bool:
    """Return whether one argument is the array column, perhaps cast, and the other reads only an element."""
    array, other = call.args
    if isinstance(array, Literal):
        array, other = other, array
    while isinstance(array, Call) and array.name == "transform" and _is_of_element(array, array.args[1]):
        array = array.args[0]
    return isinstance(array, Ref) and _is_of_element(call, other)


def _is_of_element(call: Call, body: Expression) -> bool:
    """Return whether an expression over the elements of a call reads only the element, or is constant."""
    variable = call.setting[0] if call.setting else None
    return all(column.id == variable for column in columns_in(body))


class _Rows(NamedTuple):
    """Rows of a row space by the outcomes of their elements: decided, open (needs a recheck), or NULL.

    `null` is computed on demand; it may include rows that another element decides.
    """

    deciding: BitMap
    left_open: BitMap
    null: Callable[[], BitMap]


def _by_element(node: Computed, decides: TruthValue, segments: Sequence[Segment], space: SpaceView) -> Bounds:
    """Compute bounds from the outcomes of all keys, or only of the keys that the condition names."""
    points = _points(node.expression)
    rows = _judged_rows(node, decides, segments) if points is None else _named_rows(points, segments, space)
    null, others = _NULL in node.true, bool(node.true - {decides, _NULL})
    if null and others:
        sure = space.visible - rows.deciding
    elif null:
        sure = rows.null() - rows.deciding
    else:
        sure = space.visible - rows.deciding - rows.null() if others else EMPTY
    if decides in node.true:
        sure = sure | rows.deciding
    if not rows.left_open:
        return Bounds.exactly(sure)
    return Bounds.between(sure - rows.left_open, sure | rows.left_open)


class _Points(NamedTuple):
    """An array column, and the constants that a condition compares its elements with.

    `values`: the non-null constants, of key type `key_type`. `some_null`: whether NULL is a constant, too.
    `overlap`: whether the condition is `arrays_overlap`.
    """

    column: Column
    values: ValueSet
    key_type: str
    some_null: bool
    overlap: bool


def _points(expression: Expression) -> _Points | None:
    """Return the constants that a condition compares elements with; None for other conditions.

    Also None for `arrays_overlap` with a floating-point zero: it may tell 0.0 from -0.0, which share one key.
    """
    assert isinstance(expression, Call)
    if expression.name not in ("array_contains", "arrays_overlap"):
        return None
    overlap = expression.name == "arrays_overlap"
    ref, constant = expression.args[::-1] if isinstance(expression.args[0], Literal) else expression.args
    if not isinstance(ref, Ref) or not isinstance(constant, Literal) or constant.value is None:
        return None
    current = element_type(posting_type_of(ref.type))
    type_ = constant.type.fields[0].type if overlap else constant.type
    listed: Sequence[Any] = constant.value if isinstance(constant.value, tuple) else (constant.value,)
    values = [value for value in listed if value is not None]
    if current is None or (values and key_type_of(type_) != current):
        return None
    if overlap and current == "double" and 0 in values:
        return None
    return _Points(ref.column, ValueSet.points(values), current, len(values) < len(listed), overlap)


def _named_rows(points: _Points, segments: Sequence[Segment], space: SpaceView) -> _Rows:
    """Find rows by the postings of the constants alone. Cost: one lookup per constant."""
    column = points.column.id
    deciding, left_open = list[BitMap](), list[BitMap]()
    for segment in segments:
        inner = element_type(segment.columns[column])
        assert inner is not None
        ranges = key_ranges(points.values, points.key_type, inner)
        deciding += _of_elements_in(ranges.sure, segment, column)
        left_open += _of_elements_in(ranges.maybe, segment, column)

    def with_key(*keys: bytes | None) -> BitMap:
        postings = (segment.lookup(column, key) for segment in segments for key in keys)
        return union([bits for bits in postings if bits is not None])

    def null() -> BitMap:
        if not points.overlap:
            return with_key(None, NULL_ELEMENT)
        if points.some_null:
            return space.visible - with_key(NO_ELEMENT)
        return with_key(None, NULL_ELEMENT) if points.values.intervals else with_key(None)

    return _Rows(union(deciding), union(left_open), null)


def _of_elements_in(ranges: Sequence[KeyRange], segment: Segment, column: str) -> list[BitMap]:
    """Return the rows with an element in bounded ranges of value keys."""
    marked = [(ELEMENT + (low or b""), a, ELEMENT + (high or b""), b) for low, a, high, b in ranges]
    of_elements = KeyRanges.of(marked, ())
    return RangeKeys(segment, column, of_elements.sure, of_elements.points).bitmaps()


def _judged_rows(node: Computed, decides: TruthValue, segments: Sequence[Segment]) -> _Rows:
    """Find rows by the outcome of every key."""
    column = node.column
    assert column is not None
    type_ = str(arrow_type(column.type, column.label))
    judged = [
        KeyOutcomes.of(s, column.id, (type_, key_of(node.expression)), partial(_judged, node, column, s))
        for s in segments
    ]

    def rows(outcome: int) -> BitMap:
        return union([bits for of in judged for bits in of.keys(outcome).bitmaps()])

    return _Rows(rows(_NUMBERS[decides]), rows(OPEN), lambda: rows(_NUMBERS[_NULL]))


def _by_bare(node: Computed, segments: Sequence[Segment], space: SpaceView) -> Bounds:
    """Compute bounds from the outcomes for NULL and empty arrays, and for all others if these share one."""
    column = node.column
    assert column is not None
    type_ = arrow_type(column.type, column.label)
    true_numbers = [_NUMBERS[outcome] for outcome in node.true]
    matching, out = list[BitMap](), list[BitMap]()
    for key, array in _bare(type_):
        bits = [rows for segment in segments if (rows := segment.lookup(column.id, key)) is not None]
        (outcome,) = _evaluated(node, column, array).tolist()
        if outcome in true_numbers:
            matching += bits
        elif outcome != OPEN:
            out += bits
    if not _is_of_emptiness(node.expression):
        # Postings also hold rows of removed files: keep `sure` within `maybe`.
        return Bounds.between(union(matching) & space.visible, space.visible - union(out))
    (others,) = _evaluated(node, column, arrow_array([[None]], type_)).tolist()
    return Bounds.exactly(space.visible - union(out) if others in true_numbers else union(matching))


_ALIKE = {"=": 0, "<>": 0, "<=>": 0, ">": 0, "<=": 0, "<": 1, ">=": 1}
"""Comparisons of a size, each with the greatest constant for which all non-empty arrays have one outcome."""


_WHOLE_CASTS = (("cast", "integer"), ("cast", "long"))
"""Casts of a size that raise an error for no array."""


def _is_of_emptiness(expression: Expression) -> bool:
    """Return whether a comparison of `size` with a constant has one outcome for all non-empty arrays."""
    if not isinstance(expression, Call) or expression.name not in _ALIKE:
        return False
    name, (measured, number) = expression.name, expression.args
    if isinstance(measured, Literal):
        name, measured, number = MIRRORED[name], number, measured
    while isinstance(measured, Call) and (measured.name, measured.type.name) in _WHOLE_CASTS:
        measured = measured.args[0]
    of_size = isinstance(measured, Call) and measured.name == "size" and isinstance(measured.args[0], Ref)
    if not of_size or not isinstance(number, Literal) or number.type.name not in WHOLE:
        return False
    return isinstance(number.value, int) and number.value <= _ALIKE[name]


def _bare(type_: pa.DataType) -> Sequence[tuple[bytes | None, pa.Array]]:
    """Return the keys of NULL and of the empty array, each with an array of just that value."""
    return (None, pa.nulls(1, type_)), (NO_ELEMENT, arrow_array([[]], type_))


def _judged(node: Computed, column: Column, segment: Segment) -> Outcomes:
    keys, stored = segment.keys(column.id)[0], segment.columns[column.id]
    type_ = arrow_type(column.type, column.label)
    inner, current = element_type(stored), element_type(posting_type_of(column.type))
    assert inner is not None
    assert current is not None
    whole = numpy_of(filled(pc.starts_with(keys, ELEMENT), False))
    if is_textual(inner):
        whole &= numpy_of(filled(pc.binary_length(keys), 0)) <= MAX_KEY + len(ELEMENT)
    out = np.full(len(keys), OPEN, dtype=np.int8)
    elements = widen_keys(element_keys(pc.filter(keys, arrow_array(whole))), inner, current)
    out[whole] = _of_elements(node, column, decode_keys(elements, current, column.type.fields[0].type))
    for key, array in (*_bare(type_), (NULL_ELEMENT, arrow_array([[None]], type_))):
        indexes = np.flatnonzero(
            numpy_of(pc.is_null(keys) if key is None else filled(pc.equal(keys, key), False))
        )
        out[indexes] = _evaluated(node, column, array)
    return out


def _of_elements(node: Computed, column: Column, elements: pa.Array) -> Outcomes:
    """Evaluate a condition on single-element arrays."""
    out = _evaluated(node, column, _alone(elements))
    if pa.types.is_floating(elements.type):
        # 0.0 and -0.0 share one key, but some functions tell them apart.
        zero = np.flatnonzero(numpy_of(elements) == 0)
        negative = arrow_array(np.full(len(zero), -0.0), elements.type)
        other = _evaluated(node, column, _alone(negative))
        out[zero[other != out[zero]]] = OPEN
    return out


def _alone(elements: pa.Array) -> pa.ListArray:
    """Wrap each element in an array of its own."""
    ends = arrow_array(np.arange(len(elements) + 1, dtype=np.int32))
    return pa.ListArray.from_arrays(ends, elements)


def _evaluated(node: Computed, column: Column, arrays: pa.Array) -> Outcomes:
    """Evaluate a condition on some arrays."""
    vector = evaluate(node.expression, {column.id: arrays}, len(arrays))
    out = np.where(is_set(vector.values), _NUMBERS[_TRUE], _NUMBERS[_FALSE])
    out[nulls_of(vector.values)] = _NUMBERS[_NULL]
    out[vector.failed] = OPEN
    return out.astype(np.int8)
