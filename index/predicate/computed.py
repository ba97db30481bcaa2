"""A condition that is computed from the values of columns, where no set of values says it.

It says what becomes of each outcome: TRUE where the expression gives one of `true`, FALSE where one of
`false`, NULL elsewhere. NOT swaps the two; IS TRUE and IS NULL make one the rest of the other. An error is an
outcome of its own, which is neither: a row for which the answer depends on it is left open, and whoever reads
the row raises it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailbit.arrays import Mask
from tailbit.index.expression.evaluate import Kept, evaluate
from tailbit.index.functions.tree import Call, Expression, columns_in, key_of
from tailbit.index.functions.vectors import ERRORS, Vector, is_set, nulls_of
from tailbit.tables.arrow import arrow_array, numpy_of
from tailbit.tables.model import Column


class TruthValue(enum.Enum):
    """What a condition gives for a row."""

    TRUE = "TRUE"
    FALSE = "FALSE"
    NULL = "NULL"


TruthValues = frozenset[TruthValue]
_ALL = frozenset(TruthValue)
IS_TRUE, IS_FALSE = frozenset({TruthValue.TRUE}), frozenset({TruthValue.FALSE})


@dataclass(frozen=True, slots=True)
class Computed:
    """A boolean expression; TRUE for the outcomes of `true`, FALSE for those of `false`, else NULL."""

    expression: Expression
    text: str
    true: TruthValues = IS_TRUE
    false: TruthValues = IS_FALSE

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that it reads."""
        return columns_in(self.expression)

    @property
    def column(self) -> Column | None:
        """The one column that it reads; None where there are several."""
        found = self.columns
        return found[0] if len(found) == 1 else None

    @property
    def key(self) -> tuple[str, TruthValues]:
        """What is equal for conditions that are TRUE for the same values."""
        return key_of(self.expression), self.true

    def negated(self) -> Computed:
        """NOT."""
        text = self.text[5:-1] if self.text.startswith("NOT (") else f"NOT ({self.text})"
        return Computed(self.expression, text, self.false, self.true)

    def is_true(self) -> Computed:
        """IS TRUE: never NULL."""
        if self.true | self.false == _ALL:
            return self
        return Computed(self.expression, f"({self.text}) IS TRUE", self.true, _ALL - self.true)

    def is_null(self) -> Computed:
        """IS NULL: never NULL."""
        known = self.true | self.false
        asked = self.expression.null_as if isinstance(self.expression, Call) else None
        return Computed(asked or self.expression, f"({self.text}) IS NULL", _ALL - known, known)


def judge(
    node: Computed, columns: Mapping[str, pa.Array], rows: int, kept: Kept | None = None
) -> tuple[Mask, Mask]:
    """Rows where a condition is TRUE, and rows that raise; `kept` as in `evaluate`.

    Cost: one evaluation of the expression; over the distinct values alone where it reads one column of texts.
    """
    plain = {name: _plain(values) for name, values in columns.items()}
    found = _evaluated(node, plain, rows) if kept is None else evaluate(node.expression, plain, rows, kept)
    raised = found.failed
    null = nulls_of(found.values)
    true = np.zeros(rows, dtype=np.bool_)
    if TruthValue.NULL in node.true:
        true |= null
    if TruthValue.TRUE in node.true:
        true |= is_set(found.values)
    if TruthValue.FALSE in node.true:
        true |= ~null & ~is_set(found.values)
    return true & ~raised, raised


def _plain(values: pa.Array) -> pa.Array:
    return values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values


_MANY, _SAMPLE = 1000, 500
"""From this many rows on, texts are evaluated once for each distinct one, if in a sample they are few."""


def _evaluated(node: Computed, columns: Mapping[str, pa.Array], rows: int) -> Vector:
    if len(columns) == 1 and rows >= _MANY:
        ((name, values),) = columns.items()
        if (pa.types.is_string(values.type) or pa.types.is_decimal(values.type)) and _are_few(values):
            coded = values.dictionary_encode(null_encoding="encode")
            found = evaluate(node.expression, {name: coded.dictionary}, len(coded.dictionary))
            raised = None if found.raised is None else found.raised[numpy_of(coded.indices)]
            return Vector(found.values.take(coded.indices), raised)
    return evaluate(node.expression, columns, rows)


def _are_few(values: pa.Array) -> bool:
    """Whether a sample of values, from all over them, holds each several times."""
    sample = values.take(arrow_array(np.linspace(0, len(values) - 1, _SAMPLE).astype(np.int64)))
    return bool(pc.count_distinct(sample, mode="all").as_py() * 2 <= _SAMPLE)


def error_of(node: Computed, columns: Mapping[str, pa.Array]) -> str | None:
    """The error class that a condition raises for a row; None where it does not raise."""
    found = evaluate(node.expression, {name: _plain(values) for name, values in columns.items()}, 1)
    return None if found.raised is None or not found.raised[0] else ERRORS[int(found.raised[0])]
