"""Where a bound predicate is TRUE: on rows, in partition values and by files' statistics.

All of these use the value sets of the predicate's leaves. Rows and files are evaluated in vectors, never one
by one; a node that occurs several times in a predicate is evaluated once.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, cast

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.base.errors import EvaluationError
from tailbit.index.keys import (
    Value,
    decimal_longs,
    encode_array,
    encode_value,
    is_textual,
    key_type_of,
    ordered_int,
    ordered_ints,
    scale_of,
)
from tailbit.index.predicate.computed import Computed, error_of, judge
from tailbit.index.predicate.tree import And, Constant, Leaf, Node, Or, nodes_of, shared_in
from tailbit.index.predicate.value_sets import Interval, ValueSet
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, arrow_scalar, decoded, filled, in_one, numpy_of
from tailbit.tables.date_text import date_texts
from tailbit.tables.model import Column, DataType
from tailbit.tables.partition_values import partition_array

Judgement = tuple[Mask, "Mask | None"]
"""Rows where a node is TRUE; rows whose answer is an error, None if there are none."""


def judged(node: Node, table: pa.Table, partition: Mapping[str, str | None]) -> Judgement:
    """Return the rows of a table where `node` is TRUE, and the rows whose answer depends on an error.

    An error counts only if no other condition decides the row, whatever the order of conditions.

    Args:
        node: a bound predicate.
        table: the non-partition columns of the predicate by `Column.id`, in their logical Arrow types.
        partition: the log's text by physical column name, for the file that the rows are from.

    Cost: one vector operation per leaf and chunk; independent of the number of constants but for sorting
    them. Memory: a byte a row for each node on the way down and for each that has several parents.
    """
    return _Rows(table, partition, shared_in(node)).judge(node)


def raise_error(
    node: Node, row: pa.Table, partition: Mapping[str, str | None], file: str, position: int
) -> NoReturn:
    """Raise the error that a condition raises for the only row of a table."""
    rows = _Rows(row, partition, frozenset())
    for condition in nodes_of(node):
        if (
            isinstance(condition, Computed)
            and (error := error_of(condition, rows.arrays(condition))) is not None
        ):
            values = {c.label: rows.array(c)[:1] for c in condition.columns}
            shown = ", ".join(f"{name} = {_cut(_text(value))}" for name, value in values.items())
            raise EvaluationError(
                error=error,
                condition=condition.text,
                values=shown,
                file=file or "these rows",
                position=position,
                **_instead(error, condition.text),
            )
    raise AssertionError("no part of the condition raises")


_CAST = re.compile(r"(?<!TRY_)CAST\(")


_HINTS = {
    "NOT_READ_EXACTLY": (
        "What Spark gives there is not known here: exclude such rows by another condition, or ask Spark."
    ),
    "INVALID_ARRAY_INDEX": "Write get(tags, 0) for tags[0]: it is NULL where there is no such element.",
    "INVALID_ARRAY_INDEX_IN_ELEMENT_AT": (
        "Write try_element_at in place of element_at: it is NULL where there is no such element."
    ),
    "DIVIDE_BY_ZERO": "Write try_divide(a, b), or a / nullif(b, 0): NULL where b is 0.",
    "REMAINDER_BY_ZERO": "Write a % nullif(b, 0): NULL where b is 0.",
    "INVALID_INDEX_OF_ZERO": "Places of element_at begin at 1, or at -1 from the end; those of get at 0.",
}
"""Hints of what to write instead, by error name."""


def _instead(error: str, condition: str) -> dict[str, str]:
    """Return the field `hint` of an error: what to write instead, such as the condition with TRY_CAST."""
    if error in _HINTS:
        return {"hint": _HINTS[error]}
    if not error.startswith("CAST") or not (tried := _CAST.sub("TRY_CAST(", condition)) != condition:
        return {}
    return {"hint": f"Write {tried}: then it is NULL for such rows. Or compare values of one type."}


_MANY = 16
"""From this many operands on, operands that no value of the rows can affect are pruned."""


class Guards(NamedTuple):
    """Intervals of one column, each owned by an operand that matters only for rows with values in it.

    Under OR the operand is TRUE for no other row; under AND it is TRUE for all other rows, rows of NULL only
    with `nulls`.
    """

    column: Column
    nulls: bool
    owners: Longs
    low: Longs
    high: Longs


def _guards(node: And | Or) -> Sequence[Guards]:
    """Return, by column, one guard leaf of each operand that has one; cached per node."""
    if node.forms.guards is None:
        whole, inner = (False, Or) if isinstance(node, And) else (True, And)
        leaves: dict[tuple[str, bool], list[tuple[int, Leaf]]] = {}
        for owner, child in enumerate(node.children):
            operands = child.children if isinstance(child, inner) else (child,)
            leaf = next((p for p in operands if isinstance(p, Leaf) and _is_guard(p, whole)), None)
            if leaf is not None:
                leaves.setdefault((leaf.column.id, leaf.true.nulls), []).append((owner, leaf))
        node.forms.guards = [_guards_on(guarded) for guarded in leaves.values()]
    return cast(Sequence[Guards], node.forms.guards)


def _is_guard(leaf: Leaf, whole: bool) -> bool:
    few = not leaf.true.complement and not leaf.true.nulls if whole else leaf.true.complement
    return few and not leaf.column.partition and has_numbers(leaf.column.type)


def _guards_on(leaves: list[tuple[int, Leaf]]) -> Guards:
    column = leaves[0][1].column
    ends = [ends_of(leaf.true, column.type) for _, leaf in leaves]
    owners = np.repeat([owner for owner, _ in leaves], [len(low) for low, _ in ends])
    low, high = (np.concatenate(ends_of_side) for ends_of_side in zip(*ends, strict=True))
    return Guards(column, leaves[0][1].true.nulls, owners, low, high)


_SHOWN = 80
"""Limit of characters of a value in an error."""


def _text(value: pa.Array) -> str:
    """Return the only value of an array as an error shows it.

    Any year, and texts that are not UTF-8, can be shown.
    """
    if pa.types.is_string(value.type) and value.null_count == 0:
        return bytes(value[0].as_buffer()).decode(errors="replace")
    try:
        return str(value[0])
    except (OverflowError, ValueError):
        return str(date_texts(value)[0])


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _either(sure: Mask, open_: Mask | None) -> Mask:
    return sure if open_ is None else sure | open_


class _Rows:
    """The rows of one table, with cached results of the nodes that have several parents."""

    def __init__(self, table: pa.Table, partition: Mapping[str, str | None], shared: frozenset[int]) -> None:
        self.table, self.partition, self.shared = table, partition, shared
        self.memo: dict[int, Judgement] = {}

    def judge(self, node: Node) -> Judgement:
        if isinstance(node, (And, Or)):
            truth = self.memo.get(id(node))
            if truth is None:
                truth = self._combined(node)
                if id(node) in self.shared:
                    self.memo[id(node)] = truth
            return truth
        if isinstance(node, Computed):
            return self._computed(node)
        return self._mask(node), None

    def _mask(self, node: Leaf | Constant) -> Mask:
        if isinstance(node, Constant):
            return np.full(self.table.num_rows, node.value is True)
        return self._leaf(node)

    def _computed(self, node: Computed) -> Judgement:
        rows = 1 if all(column.partition for column in node.columns) else self.table.num_rows
        true, raised = judge(node, self.arrays(node, rows), rows)
        if rows != self.table.num_rows:
            true, raised = (np.full(self.table.num_rows, constant[0]) for constant in (true, raised))
        return true, raised if raised.any() else None

    def _combined(self, node: And | Or) -> Judgement:
        """Evaluate the children of an AND or OR; stop once every row is decided."""
        whole = isinstance(node, Or)
        children = self._met(node) if len(node.children) >= _MANY else node.children
        if not children:
            return np.full(self.table.num_rows, not whole), None
        out, open_ = self.judge(children[0])
        for child in children[1:]:
            if (out if whole else ~_either(out, open_)).all():
                break
            truth, child_open = self.judge(child)
            combine = np.logical_or if whole else np.logical_and
            may = (
                None
                if open_ is None and child_open is None
                else combine(_either(out, open_), _either(truth, child_open))
            )
            out = combine(out, truth)
            open_ = None if may is None or not (may & ~out).any() else may & ~out
        return out, open_

    def _met(self, node: And | Or) -> Sequence[Node]:
        """Return the operands without those that a guard leaf already decides for all rows of the table.

        Under OR, operands that no value of the rows can meet are dropped; under AND, those that every value
        meets. Cost: a sort of each column with guards, and two binary searches per interval.
        """
        met = np.ones(len(node.children), dtype=np.bool_)
        for guards in _guards(node):
            if isinstance(node, And) and not guards.nulls and self.table[guards.column.id].null_count:
                continue
            numbers = distinct_numbers(self.table[guards.column.id], guards.column.type)
            reached = np.searchsorted(numbers, guards.low) < np.searchsorted(
                numbers, guards.high, side="right"
            )
            met[guards.owners] = False
            met[guards.owners[reached]] = True
        return [node.children[n] for n in np.flatnonzero(met).tolist()]

    def _leaf(self, leaf: Leaf) -> Mask:
        if leaf.column.partition:
            text = self.partition.get(leaf.column.physical[0])
            return np.full(self.table.num_rows, partition_value_matches(leaf, text))
        chunks = self.table[leaf.column.id].chunks
        masks = [in_values(chunk, leaf.true, leaf.column.type) for chunk in chunks]
        return np.concatenate(masks) if masks else np.zeros(0, dtype=np.bool_)

    def arrays(self, node: Computed, rows: int | None = None) -> dict[str, pa.Array]:
        """Return the columns of a condition, by id."""
        return {column.id: self.array(column, rows) for column in node.columns}

    def array(self, column: Column, rows: int | None = None) -> pa.Array:
        """Return a column as one array.

        `rows`: the length of a partition column, by default that of the table.
        """
        if column.partition:
            text = self.partition.get(column.physical[0])
            return partition_array(column, text, self.table.num_rows if rows is None else rows)
        return in_one(self.table[column.id])


def partition_value_matches(leaf: Leaf, text: str | None) -> bool:
    """Return whether a condition on a partition column is TRUE for a file whose partition text is `text`."""
    return bool(partition_values_match(leaf, [text])[0][0])


def partition_values_match(node: Leaf | Computed, texts: Sequence[str | None]) -> tuple[Mask, Mask]:
    """Return, per partition text, whether a condition is TRUE, and whether it raises."""
    if not texts:
        return np.zeros(0, dtype=np.bool_), np.zeros(0, dtype=np.bool_)
    assert node.column is not None
    return values_match(node, partition_values(node.column, texts))


def partition_values(column: Column, texts: Sequence[str | None]) -> pa.Array:
    """Parse texts of a partition column, at least one, into values."""
    return pa.concat_arrays([partition_array(column, text, 1) for text in texts])


def values_match(node: Leaf | Computed, values: pa.Array) -> tuple[Mask, Mask]:
    """Return, per value of a condition's column, whether the condition is TRUE, and whether it raises."""
    assert node.column is not None
    if isinstance(node, Computed):
        return judge(node, {node.column.id: values}, len(values))
    return in_values(values, node.true, node.column.type), np.zeros(len(values), dtype=np.bool_)


def in_values(values: pa.Array, value_set: ValueSet, type_: DataType) -> Mask:
    """Return the mask of the rows whose value, or NULL, belongs to the set `value_set`.

    Cost: for types of up to 8 bytes, and for decimals that fit in 8 bytes, one binary search per row over the
    intervals; for text and wide decimals one hash lookup for all single values, and two comparisons per wider
    interval, or, where wider intervals are many, one binary search per distinct value. The intervals are
    prepared once per set, not per call.
    """
    null = numpy_of(pc.is_null(values))
    if not value_set.intervals:
        return np.where(null, value_set.nulls, value_set.complement)
    inside = _inside(values, value_set, key_type_of(type_))
    return np.where(null, value_set.nulls, inside != value_set.complement)


def _inside(values: pa.Array, value_set: ValueSet, key_type: str) -> Mask:
    values = decoded(values)
    if is_textual(key_type):
        return _compared(pc.cast(values, pa.binary()), _ready(value_set, key_type, _texts))
    scale = scale_of(key_type)
    if scale is not None:
        words, fit = decimal_longs(values, scale)
        if fit is not None:
            return _compared(encode_array(values, key_type), _ready(value_set, key_type, _texts))
        return _searched(words, _ready(value_set, key_type, _numbers))
    return _searched(ordered_ints(values, key_type), _ready(value_set, key_type, _numbers))


def has_numbers(type_: DataType) -> bool:
    """Return whether values of a type are compared as 64-bit integers."""
    key_type = key_type_of(type_)
    return not is_textual(key_type) and scale_of(key_type) is None


def ends_of(value_set: ValueSet, type_: DataType) -> tuple[Longs, Longs]:
    """Return the closed ends of the intervals of a set, for a type that `has_numbers`."""
    ends: tuple[Longs, Longs] = _ready(value_set, key_type_of(type_), _numbers)
    return ends


def distinct_numbers(values: pa.ChunkedArray, type_: DataType) -> Longs:
    """Return the sorted distinct values of a column, for a type that `has_numbers`; 0 for NULL."""
    arrays = [ordered_ints(decoded(chunk), key_type_of(type_)) for chunk in values.chunks]
    return np.unique(np.concatenate(arrays)) if arrays else np.zeros(0, dtype=np.int64)


def _ready(value_set: ValueSet, key_type: str, make: Callable[[tuple[Interval, ...], str], Any]) -> Any:
    """Return the intervals of a set, prepared once for searching rows of a key type."""
    cache, form = value_set.prepared.rows, (key_type, make)
    if form not in cache:
        cache[form] = make(value_set.intervals, key_type)
    return cache[form]


def _numbers(intervals: tuple[Interval, ...], key_type: str) -> tuple[Longs, Longs]:
    """Return the closed ends of sorted disjoint intervals."""
    bounds = [(_low(i, key_type), _high(i, key_type)) for i in intervals]
    bounds = [(max(lo, _LEAST), min(hi, _MOST)) for lo, hi in bounds if lo <= min(hi, _MOST) and hi >= _LEAST]
    low, high = np.array(bounds, dtype=np.int64).reshape(-1, 2).T
    return low, high


def _searched(numbers: Longs, bounds: tuple[Longs, Longs]) -> Mask:
    """Return the rows within sorted disjoint intervals, by binary search for each row's interval."""
    low, high = bounds
    if not len(low):
        return np.zeros(len(numbers), dtype=np.bool_)
    if len(low) == 1:
        return np.asarray((numbers >= low[0]) & (numbers <= high[0]), dtype=np.bool_)
    index = np.searchsorted(low, numbers, side="right") - 1
    within: Mask = np.logical_and(index >= 0, numbers <= high[index])
    return within


_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


def _low(interval: Interval, key_type: str) -> int:
    return _LEAST if interval.lo is None else _order(interval.lo, key_type) + (not interval.lo_closed)


def _high(interval: Interval, key_type: str) -> int:
    return _MOST if interval.hi is None else _order(interval.hi, key_type) - (not interval.hi_closed)


def _order(bound: Value, key_type: str) -> int:
    """Return a bound as an integer, of any size if the column holds integers."""
    return ordered_int(bound, key_type) if key_type == "double" else int(bound)


Ends = tuple[bytes | None, bool, bytes | None, bool]
"""lo, lo_closed, hi, hi_closed of an interval of keys; None is unbounded."""


class _Texts(NamedTuple):
    """Intervals of keys: single keys, and the wider intervals in order."""

    points: pa.Array
    memo: frozenset[bytes | None]
    wider: list[Ends]


def _texts(intervals: tuple[Interval, ...], key_type: str) -> _Texts:
    def key(value: Value | None) -> bytes | None:
        if value is None or is_textual(key_type):
            return value  # type: ignore[return-value]
        return encode_value(value, key_type)

    single = [i.lo is not None and i.lo == i.hi for i in intervals]
    points = [key(i.lo) for i, is_point in zip(intervals, single, strict=True) if is_point]
    wider = [i for i, is_point in zip(intervals, single, strict=True) if not is_point]
    ends = [(key(i.lo), i.lo_closed, key(i.hi), i.hi_closed) for i in wider]
    return _Texts(arrow_array(points, pa.binary()), frozenset(points), ends)


def _compared(values: pa.Array, texts: _Texts) -> Mask:
    out = np.zeros(len(values), dtype=np.bool_)
    if len(texts.points) > len(values):  # hashing all points would cost more than hashing the rows
        out |= np.array([value in texts.memo for value in values.to_pylist()], dtype=np.bool_)
    elif len(texts.points):
        out |= true_mask(pc.is_in(values, value_set=texts.points))
    if len(texts.wider) > _MANY_WIDER:
        out |= _bisected(values, texts.wider)
        return out
    for ends in texts.wider:
        out |= _between(values, ends)
    return out


_MANY_WIDER = 8
"""From this many wider intervals on, each distinct value is sought among them by binary search."""


def _bisected(values: pa.Array, wider: list[Ends]) -> Mask:
    coded = pc.dictionary_encode(values)
    within = [_is_within(value, wider) for value in coded.dictionary.to_pylist()]
    return true_mask(pc.take(arrow_array(within, pa.bool_()), coded.indices))


def _is_within(value: bytes, wider: list[Ends]) -> bool:
    """Return whether a key lies in one of sorted disjoint intervals, by binary search."""
    index = bisect_right(wider, value, key=lambda ends: ends[0] or b"") - 1
    return any(_holds(wider[n], value) for n in (index - 1, index) if n >= 0)


def _holds(ends: Ends, value: bytes) -> bool:
    lo, lo_closed, hi, hi_closed = ends
    above = lo is None or value > lo or (lo_closed and value == lo)
    return above and (hi is None or value < hi or (hi_closed and value == hi))


def _between(values: pa.Array, ends: Ends) -> Mask:
    lo, lo_closed, hi, hi_closed = ends
    inside = np.ones(len(values), dtype=np.bool_)
    if lo is not None:
        above = pc.greater_equal if lo_closed else pc.greater
        inside &= true_mask(above(values, arrow_scalar(lo, pa.binary())))
    if hi is not None:
        below = pc.less_equal if hi_closed else pc.less
        inside &= true_mask(below(values, arrow_scalar(hi, pa.binary())))
    return inside


def true_mask(truths: pa.Array) -> Mask:
    """Return where a comparison is TRUE; unknown counts as not TRUE."""
    return numpy_of(filled(truths, False))
