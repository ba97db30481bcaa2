"""Computed conditions of numbers, dates, times and text lengths as formulas over stored values.

Footers bound the stored numbers: a formula is used only where no intermediate result can overflow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tailbit.imports.lazy import lazy
from tailbit.index.functions.tree import Ref
from tailbit.index.predicate.computed import Computed, TruthValue
from tailbit.index.predicate.tree import Compare, Node
from tailbit.index.predicate.walks import nodes_of
from tailbit.tables.model import Column
from tailbit.tables.parquet.bounds import row_group_bounds
from tailbit.tables.parquet.data_file import flat_column
from tailbit.tables.parquet.layout import Layout
from tailbit.tables.parquet.value_search.formula import TEXTUAL, Formula, Span, fits

if TYPE_CHECKING:
    from tailbit.index.scanning import terms as formula_terms
else:
    formula_terms = lazy("tailbit.index.scanning.terms")

_PASSING: Mapping[TruthValue, bool | None] = {
    TruthValue.TRUE: True,
    TruthValue.FALSE: False,
    TruthValue.NULL: None,
}


def formula_of(node: Computed | Compare) -> Formula | None:
    """Return the formula of a condition, or None."""
    terms = formula_terms.Terms()
    try:
        if isinstance(node, Compare):
            return Formula(terms.compared(node.op, Ref(node.left), Ref(node.right)), frozenset({True}))
        return Formula(terms.truth(node.expression), frozenset(_PASSING[value] for value in node.true))
    except formula_terms.NoFormula:
        return None


def formulas_in(node: Node) -> dict[int, Formula]:
    """Return the formulas of the parts of a predicate, by identity of the part."""
    parts = (part for part in nodes_of(node) if isinstance(part, (Computed, Compare)))
    return {id(part): formula for part in parts if (formula := formula_of(part)) is not None}


def fitting_in(
    formulas: Mapping[int, Formula], layout: Layout, path: str, groups: Sequence[int]
) -> dict[int, Formula]:
    """Return the formulas to use in some row groups of a file: those that cannot overflow there.

    A formula of one dictionary-encoded date column is left out: testing the dictionary is quicker.

    Raises:
        DataFileError: the name of a column is ambiguous in the file.
    """
    columns = {column.id: column for formula in formulas.values() for column in formula.columns}
    bounds = {file_column.id: _span_in(layout, path, file_column, groups) for file_column in columns.values()}
    spans = {id_: span for id_, span in bounds.items() if span is not None}
    return {
        node: formula
        for node, formula in formulas.items()
        if all(column.id in spans for column in formula.columns)
        and fits(formula, spans)
        and not _is_of_coded_days(formula, layout, path, groups)
    }


def _span_in(layout: Layout, path: str, column: Column, groups: Sequence[int]) -> Span | None:
    """Return the least and the greatest number of a column in some row groups of a file.

    None if the file stores the column in a form without formulas. For a text column the numbers are lengths:
    no encoding makes a text longer than its decompressed chunk.
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
    least, most = formula_terms.span_of(column.type)
    group_bounds = row_group_bounds(layout, path, column)
    known = [bounds for group in groups if (bounds := group_bounds[group]) is not None]
    if len(known) < len(groups) or not known:
        return least, most
    low = min(_stored(bounds.min, column) for bounds in known)
    high = max(_stored(bounds.max, column) for bounds in known)
    return max(least, low), min(most, high)


def _stored(value: Any, column: Column) -> int:
    return int(value.scaleb(column.type.scale)) if isinstance(value, Decimal) else int(value)


def _is_of_coded_days(formula: Formula, layout: Layout, path: str, groups: Sequence[int]) -> bool:
    """Return whether a formula reads one date column, which is dictionary-encoded in all these row groups."""
    columns = formula.columns
    if len(columns) != 1 or columns[0].type.name != "date":
        return False
    node = flat_column(layout, columns[0], path)
    return node is not None and all(layout.chunk(group, node.first).coded for group in groups)
