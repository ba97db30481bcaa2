"""Expressions over rows: what is not looked at raises nothing, and what is long stays cheap."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from support.function_cells import rows, schema
from support.truth import matches
from tailbit.errors import EvaluationError, PredicateError
from tailbit.index.predicate.computed import Computed, TruthValue
from tailbit.index.predicate.tree import And, Constant, Leaf, Or, all_of, is_null, is_true, negate
from tailbit.index.predicate.truth import judged
from tailbit.index.sql.bind import bind

TABLE, SCHEMA = rows(), schema()


def true(text: str) -> list[int]:
    return np.flatnonzero(matches(bind(text, SCHEMA), TABLE, {})).tolist()


@pytest.mark.parametrize(
    "text",
    [
        "if(i = 0, TRUE, 10 / i > 0)",
        "coalesce(CASE WHEN i = 0 THEN 1 END, 10 / i) = 1",
        "CASE WHEN i IS NULL OR i = 0 THEN FALSE ELSE 10 % i = 1 END",
        "i <> 0 AND 10 / i > 1",
        "i = 0 OR 10 / i > 1",
    ],
)
def test_an_operand_that_is_not_looked_at_raises_nothing(text: str) -> None:
    assert judged(bind(text, SCHEMA), TABLE, {})[1] is None


@pytest.mark.parametrize("text", ["10 / i > 1", "i + i > 0", "CAST(n AS INT) = 1", "10 % i = 1 OR i > 5"])
def test_an_error_is_one_for_its_negation_and_its_null_too(text: str) -> None:
    node = bind(text, SCHEMA)
    for part in (node, negate(node), is_null(node), negate(is_null(node))):
        with pytest.raises(EvaluationError):
            matches(part, TABLE, {})


def test_a_computed_condition_is_negated_and_made_two_valued_by_its_outcomes() -> None:
    node = bind("length(s) = 3", SCHEMA)
    assert isinstance(node, Computed)
    assert negate(negate(node)) == node
    found = is_true(node)
    assert isinstance(found, Computed)
    assert found.false == {TruthValue.FALSE, TruthValue.NULL}
    assert is_true(found) is found
    assert true("(length(s) = 3) IS NOT TRUE") == sorted({*range(16)} - set(true("length(s) = 3")))


def test_what_is_a_range_of_one_column_stays_a_leaf() -> None:
    for text in (
        "s LIKE 'a%'",
        "s LIKE 'abc'",
        "s LIKE '%'",
        "upper('a') = s",
        "i = 1 + 1",
        "i IN (1 + 1, 3)",
    ):
        assert isinstance(bind(text, SCHEMA), Leaf), text
    assert true("s LIKE 'a%'") == true("startswith(s, 'a')")
    assert true("s NOT LIKE '%'") == []


def test_conditions_on_constants_are_known_when_they_are_bound() -> None:
    assert bind("upper('a') = 'A'", SCHEMA) == Constant(True)
    assert bind("'abc' LIKE 'a%' AND length('') = 0", SCHEMA) == Constant(True)
    assert bind("CAST(NULL AS INT) + 1 = 2", SCHEMA) == Constant(None)


def test_a_long_list_is_sought_in_once() -> None:
    listed = ", ".join(map(str, range(5000)))
    many = pa.table({"i": pa.array(np.arange(200_000, dtype=np.int32))})
    assert int(matches(bind(f"i + 1 IN ({listed})", SCHEMA), many, {}).sum()) == 4999


def test_a_long_sum_is_evaluated_or_refused_but_never_a_crash() -> None:
    short = bind(" + ".join(["l"] * 60) + " = 60", SCHEMA)
    with pytest.raises(EvaluationError, match="ARITHMETIC_OVERFLOW"):
        matches(short, TABLE, {})
    for terms in (200, 400, 900, 20_000):
        with pytest.raises(PredicateError, match="nested too deeply"):
            bind(" + ".join(["l"] * terms) + " = 1", SCHEMA)
    assert bind("l + " + " + ".join(["1"] * 140) + " = 140", SCHEMA) == bind("l + 140 = 140", SCHEMA)


def test_equal_conditions_are_one() -> None:
    twice = bind("length(s) = 3 AND length(s) = 3", SCHEMA)
    assert isinstance(twice, Computed)
    both = all_of([bind("length(s) = 3", SCHEMA), bind("length(s) = 2", SCHEMA)])
    assert isinstance(both, And)
    assert isinstance(negate(both), Or)


@pytest.mark.parametrize("name", ["try_mod", "try_divide"])
def test_what_is_divided_is_not_looked_at_where_the_divisor_is_zero(name: str) -> None:
    rows = pa.table({"i": pa.array([0, 2, None], pa.int32())})
    node = bind(f"{name}(1 % i, i) IS NULL", schema())
    assert matches(node, rows, {}).tolist() == [True, False, True]


@pytest.mark.parametrize("asked", ["IS NULL", "IS NOT NULL", "<=> NULL"])
def test_an_inequality_of_a_date_beyond_all_times_raises_where_it_is_asked_for_null(asked: str) -> None:
    """Spark casts the date then, and Java's `long overflow` has no error class."""
    far = "date_from_unix_date(i) > TIMESTAMP'1970-01-01 00:00:00'"
    raising = judged(bind(f"({far}) {asked}", SCHEMA), TABLE, {})[1]
    assert raising is not None
    beyond = [i is not None and abs(i) > 106_751_991 for i in TABLE["i"].to_pylist()]
    assert raising.tolist() == beyond
    assert any(beyond)
    assert judged(bind(far, SCHEMA), TABLE, {})[1] is None
