"""Where a bound predicate is TRUE: on rows, in partition values and by files' statistics.

All of these use the value sets of the predicate's leaves. Rows and files are evaluated in vectors, never one
by one; a node that occurs several times in a predicate is evaluated once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, NoReturn, cast

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.base.errors import EvaluationError
from tailbit.index.predicate.column_pairs import compare_columns
from tailbit.index.predicate.computed import Computed, error_of, judge
from tailbit.index.predicate.membership import distinct_numbers, ends_of, has_numbers, in_values
from tailbit.index.predicate.tree import And, Compare, Constant, Leaf, Node, Or
from tailbit.index.predicate.walks import nodes_of, shared_in
from tailbit.tables.arrow import in_one
from tailbit.tables.date_text import date_texts
from tailbit.tables.model import Column
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
    """Raise the error that a condition raises for the only row of a table.

    Raises:
        EvaluationError: always.
    """
    rows = _Rows(row, partition, frozenset())
    for part in nodes_of(node):
        if isinstance(part, Computed) and (error := error_of(part, rows.arrays(part))) is not None:
            values = {c.label: rows.array(c)[:1] for c in part.columns}
            shown = ", ".join(f"{name} = {_cut(_text(value))}" for name, value in values.items())
            raise EvaluationError(
                error=error,
                condition=part.text,
                values=shown,
                file=file or "these rows",
                position=position,
                **_instead(error, part.text),
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
            parts = child.children if isinstance(child, inner) else (child,)
            leaf = next((p for p in parts if isinstance(p, Leaf) and _is_guard(p, whole)), None)
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
    low, high = (np.concatenate(part) for part in zip(*ends, strict=True))
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
        self.known: dict[int, Judgement] = {}

    def judge(self, node: Node) -> Judgement:
        if isinstance(node, (And, Or)):
            truth = self.known.get(id(node))
            if truth is None:
                truth = self._combined(node)
                if id(node) in self.shared:
                    self.known[id(node)] = truth
            return truth
        if isinstance(node, Computed):
            return self._computed(node)
        return self._mask(node), None

    def _mask(self, node: Leaf | Compare | Constant) -> Mask:
        if isinstance(node, Constant):
            return np.full(self.table.num_rows, node.value is True)
        if isinstance(node, Compare):
            return compare_columns(self.array(node.left), self.array(node.right), node)
        return self._leaf(node)

    def _computed(self, node: Computed) -> Judgement:
        rows = 1 if all(column.partition for column in node.columns) else self.table.num_rows
        true, raised = judge(node, self.arrays(node, rows), rows)
        if rows != self.table.num_rows:
            true, raised = (np.full(self.table.num_rows, part[0]) for part in (true, raised))
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
        parts = [in_values(chunk, leaf.true, leaf.column.type) for chunk in chunks]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.bool_)

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
    """Return whether a condition on a partition column is TRUE for a file whose partition text is `text`.

    Raises:
        MalformedLogError: the text is no value of the column's type.
    """
    return bool(partition_values_match(leaf, [text])[0][0])


def partition_values_match(node: Leaf | Computed, texts: Sequence[str | None]) -> tuple[Mask, Mask]:
    """Return, per partition text, whether a condition is TRUE, and whether it raises; all in one evaluation.

    Raises:
        MalformedLogError: a text is no value of the column's type.
    """
    if not texts:
        return np.zeros(0, dtype=np.bool_), np.zeros(0, dtype=np.bool_)
    assert node.column is not None
    return values_match(node, partition_values(node.column, texts))


def partition_values(column: Column, texts: Sequence[str | None]) -> pa.Array:
    """Parse texts of a partition column, at least one, into values.

    Raises:
        MalformedLogError: a text is no value of the column's type.
    """
    return pa.concat_arrays([partition_array(column, text, 1) for text in texts])


def values_match(node: Leaf | Computed, values: pa.Array) -> tuple[Mask, Mask]:
    """Return, per value of a condition's column, whether the condition is TRUE, and whether it raises."""
    assert node.column is not None
    if isinstance(node, Computed):
        return judge(node, {node.column.id: values}, len(values))
    return in_values(values, node.true, node.column.type), np.zeros(len(values), dtype=np.bool_)
