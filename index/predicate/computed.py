"""A condition computed from the values of columns, where no value set expresses it.

Such a condition is TRUE for the outcomes of its expression in `true`, FALSE for those in `false`, else NULL.
NOT swaps `true` and `false`; IS TRUE and IS NULL make `false` the complement of `true`. An error is an
outcome of its own, in neither set: a row whose answer depends on an error is left open, and reading the row
raises the error.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Mask
from tailbit.base.dataclass import dataclass
from tailbit.base.lazy import lazy
from tailbit.index.functions.tree import Call, Expression, columns_in, key_of
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, decoded, numpy_of
from tailbit.tables.model import Column

if TYPE_CHECKING:
    from tailbit.index.expression import evaluate as evaluation
    from tailbit.index.functions import vectors
else:
    evaluation = lazy("tailbit.index.expression.evaluate")
    vectors = lazy("tailbit.index.functions.vectors")


class TruthValue(enum.Enum):
    """Outcome of a condition for a row."""

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
        """Return the columns that the condition reads."""
        return columns_in(self.expression)

    @property
    def column(self) -> Column | None:
        """Return the only column that the condition reads; None if there are several."""
        columns = self.columns
        return columns[0] if len(columns) == 1 else None

    @property
    def key(self) -> tuple[str, TruthValues]:
        """Return a key that is equal for conditions that are TRUE for the same values."""
        return key_of(self.expression), self.true

    def negated(self) -> Computed:
        """Return NOT of the condition."""
        text = self.text[5:-1] if self.text.startswith("NOT (") else f"NOT ({self.text})"
        return Computed(self.expression, text, self.false, self.true)

    def is_true(self) -> Computed:
        """Return IS TRUE of the condition, which is never NULL."""
        if self.true | self.false == _ALL:
            return self
        return Computed(self.expression, f"({self.text}) IS TRUE", self.true, _ALL - self.true)

    def is_null(self) -> Computed:
        """Return IS NULL of the condition, which is never NULL."""
        not_null = self.true | self.false
        null_source = self.expression.null_as if isinstance(self.expression, Call) else None
        return Computed(null_source or self.expression, f"({self.text}) IS NULL", _ALL - not_null, not_null)


def judge(
    node: Computed, columns: Mapping[str, pa.Array], rows: int, cache: evaluation.CallCache | None = None
) -> tuple[Mask, Mask]:
    """Return the rows where a condition is TRUE, and the rows that raise; `cache` as in `evaluate`.

    Cost: one evaluation of the expression. A condition on one column of texts or decimals with few distinct
    values is evaluated for these only.
    """
    plain = {name: decoded(values) for name, values in columns.items()}
    outcomes = (
        _evaluated(node, plain, rows)
        if cache is None
        else evaluation.evaluate(node.expression, plain, rows, cache)
    )
    raised = outcomes.failed
    null = vectors.nulls_of(outcomes.values)
    true = np.zeros(rows, dtype=np.bool_)
    if TruthValue.NULL in node.true:
        true |= null
    if TruthValue.TRUE in node.true:
        true |= vectors.is_set(outcomes.values)
    if TruthValue.FALSE in node.true:
        true |= ~null & ~vectors.is_set(outcomes.values)
    return true & ~raised, raised


_MANY, _SAMPLE = 1000, 500
"""From this many rows on, texts and decimals are evaluated once per distinct value, if a sample shows few."""


def _evaluated(node: Computed, columns: Mapping[str, pa.Array], rows: int) -> vectors.Vector:
    if len(columns) == 1 and rows >= _MANY:
        ((name, values),) = columns.items()
        if (pa.types.is_string(values.type) or pa.types.is_decimal(values.type)) and _are_few(values):
            coded = pc.dictionary_encode(values, null_encoding="encode")
            outcomes = evaluation.evaluate(node.expression, {name: coded.dictionary}, len(coded.dictionary))
            raised = None if outcomes.raised is None else outcomes.raised[numpy_of(coded.indices)]
            return vectors.Vector(pc.take(outcomes.values, coded.indices), raised)
    return evaluation.evaluate(node.expression, columns, rows)


def _are_few(values: pa.Array) -> bool:
    """Return whether a sample from all over the values has each value several times."""
    sample = pc.take(values, arrow_array(np.linspace(0, len(values) - 1, _SAMPLE).astype(np.int64)))
    return bool(pc.count_distinct(sample, mode="all").as_py() * 2 <= _SAMPLE)


def error_of(node: Computed, columns: Mapping[str, pa.Array]) -> str | None:
    """Return the error class that a condition raises for a row; None if it does not raise."""
    outcome = evaluation.evaluate(
        node.expression, {name: decoded(values) for name, values in columns.items()}, 1
    )
    return None if outcome.raised is None or not outcome.raised[0] else vectors.ERRORS[int(outcome.raised[0])]
