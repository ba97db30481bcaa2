"""Columns that a condition pins to few values: a term over these columns then has few values, too.

Worked example, for a term that holds `pmod(hash(k), 64)`:

    k = 7                     term = pmod(hash(7), 64)
    k IN (1, 2, 3)            term IN (up to three values)
    k BETWEEN 10 AND 12       as k IN (10, 11, 12), since k is a whole number

A term may have the same value for other arguments, so that no row is sure.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import product

from tailbit.index.expression.evaluate import evaluate
from tailbit.index.expression.indexed_term import IndexedTerm
from tailbit.index.functions.tree import columns_in
from tailbit.index.functions.vectors import canonical, from_canonical
from tailbit.index.ordered import Value
from tailbit.index.predicate.tree import Leaf
from tailbit.index.predicate.value_sets import Span, ValueSet
from tailbit.index.values.literals import FLOATING, range_of
from tailbit.tables.model import DataType

MOST_VALUES = 4096
"""Limit of the values, or combinations of values, for which a term is evaluated."""


def few_values(values: ValueSet, type_: DataType, most: int = MOST_VALUES) -> list[Value | None] | None:
    """Return the values of a set that a column of a type may hold, NULL last; None if they may exceed `most`.

    0.0 is listed with -0.0: they are equal, but some functions tell them apart.
    """
    if type_.fields:
        return None
    listed: list[Value | None]
    bounds = range_of(type_)
    if type_.name == "boolean":
        listed = [truth for truth in (False, True) if values.contains(truth)]
    elif bounds is not None:
        listed = []
        for span in values.spans():
            whole = _whole_numbers(span, *bounds)
            if len(listed) + whole.stop - whole.start > most:
                return None
            listed += whole
    else:
        if values.complement or len(values.intervals) > most or not all(map(is_point, values.spans())):
            return None
        listed = [interval.lo for interval in values.intervals]
        if type_.name in FLOATING and 0.0 in listed:
            listed += [0.0, -0.0]
    return [*listed, None] if values.nulls else listed


def _whole_numbers(span: Span, low: int, high: int) -> range:
    """Return the whole numbers of a span that lie between `low` and `high`, both included."""
    (end, first, behind), (last_end, last, closed) = span
    start = low if end else max(low, int(first) + behind)
    return range(start, (high + 1 if last_end else min(high + 1, int(last) + closed)))


def is_point(span: Span) -> bool:
    """Return whether a span holds one value."""
    (end, first, behind), (last_end, last, closed) = span
    return end == last_end == 0 and first == last and not behind and closed == 1


def pinned(leaves: Sequence[Leaf], term: IndexedTerm, *, raising_is_any: bool = False) -> Leaf | None:
    """Return the condition on a term that leaves, all TRUE, imply; None if they leave a column many values.

    Values for which the term raises are left out; with `raising_is_any` the term may be anything there, so
    that one such value implies nothing. Cost: one evaluation over the combinations of the values.
    """
    if term.type.fields:
        return None
    columns, listed, room = columns_in(term.expression), list[list[Value | None]](), MOST_VALUES
    for column in columns:
        sets = [leaf.true for leaf in leaves if leaf.column.id == column.id]
        values = few_values(reduce(ValueSet.intersect, sets), column.type, room) if sets else None
        if values is None:
            return None
        listed.append(values)
        room //= max(len(values), 1)
    rows = list(product(*listed))
    arrays = {c.id: from_canonical([row[n] for row in rows], c.type) for n, c in enumerate(columns)}
    vector = evaluate(term.expression, arrays, len(rows))
    if raising_is_any and vector.failed.any():
        return None
    outcomes = canonical(vector.values, term.type)
    kept = [value for value, failed in zip(outcomes, vector.failed.tolist(), strict=True) if not failed]
    true = ValueSet.points((value for value in kept if value is not None), nulls=None in kept)
    read = {column.id for column in columns}
    text = " AND ".join(dict.fromkeys(leaf.text for leaf in leaves if leaf.column.id in read))
    return Leaf(term, true, true.inverse(), text)
