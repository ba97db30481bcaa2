"""Computed conditions of numbers, days, times and lengths of texts as formulas over what data files store.

Footers say within which bounds their numbers are: a formula is asked where none can leave its range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from tailbit.index.functions.tree import Ref
from tailbit.index.predicate.computed import Computed, TruthValue
from tailbit.index.predicate.tree import Compare, Node
from tailbit.index.predicate.walks import nodes_of
from tailbit.index.scanning.terms import NoFormula, Terms, span_of
from tailbit.tables.model import Column
from tailbit.tables.parquet.bounds import row_group_bounds
from tailbit.tables.parquet.data_file import flat_column
from tailbit.tables.parquet.layout import Layout
from tailbit.tables.parquet.sought.formula import TEXTUAL, Formula, Span, fits

_PASSING: Mapping[TruthValue, bool | None] = {
    TruthValue.TRUE: True,
    TruthValue.FALSE: False,
    TruthValue.NULL: None,
}


def formula_of(node: Computed | Compare) -> Formula | None:
    """The formula of a condition; None where it has none."""
    terms = Terms()
    try:
        if isinstance(node, Compare):
            return Formula(terms.compared(node.op, Ref(node.left), Ref(node.right)), frozenset({True}))
        return Formula(terms.truth(node.expression), frozenset(_PASSING[value] for value in node.true))
    except NoFormula:
        return None


def formulas_in(node: Node) -> dict[int, Formula]:
    """By identity the parts of a predicate that have a formula."""
    parts = (part for part in nodes_of(node) if isinstance(part, (Computed, Compare)))
    return {id(part): formula for part in parts if (formula := formula_of(part)) is not None}


def fitting_in(
    formulas: Mapping[int, Formula], layout: Layout, path: str, groups: Sequence[int]
) -> dict[int, Formula]:
    """Those of some formulas of which no number can be out of its range in row groups of a file.

    Raises:
        DataFileError: the name of a column is ambiguous in the file.
    """
    columns = {column.id: column for formula in formulas.values() for column in formula.columns}
    found = {its.id: _span_in(layout, path, its, groups) for its in columns.values()}
    spans = {id_: span for id_, span in found.items() if span is not None}
    return {
        node: formula
        for node, formula in formulas.items()
        if all(column.id in spans for column in formula.columns)
        and fits(formula, spans)
        and not _is_of_coded_days(formula, layout, path, groups)
    }


def _span_in(layout: Layout, path: str, column: Column, groups: Sequence[int]) -> Span | None:
    """What the numbers of a column are between in a file; None where it stores none that a formula takes.

    Of a text it is the length: no encoding makes one longer than its chunk is, decompressed.
    """
    node = flat_column(layout, column, path)
    if node is None:
        return None
    physical = str(layout.metadata.schema.column(node.first).physical_type)
    if column.type.name in TEXTUAL:
        longest = max((layout.chunk(group, node.first).unpacked for group in groups), default=0)
        return (0, longest) if physical == "BYTE_ARRAY" else None
    if physical not in ("INT32", "INT64"):
        return None
    least, most = span_of(column.type)
    found = row_group_bounds(layout, path, column)
    known = [bounds for group in groups if (bounds := found[group]) is not None]
    if len(known) < len(groups) or not known:
        return least, most
    low = min(_stored(bounds.min, column) for bounds in known)
    high = max(_stored(bounds.max, column) for bounds in known)
    return max(least, low), min(most, high)


def _stored(value: Any, column: Column) -> int:
    return int(value.scaleb(column.type.scale)) if isinstance(value, Decimal) else int(value)


def _is_of_coded_days(formula: Formula, layout: Layout, path: str, groups: Sequence[int]) -> bool:
    """Whether a formula is of one column of dates with dictionaries: to test those is quicker."""
    columns = formula.columns
    if len(columns) != 1 or columns[0].type.name != "date":
        return False
    node = flat_column(layout, columns[0], path)
    return node is not None and all(layout.chunk(group, node.first).coded for group in groups)
