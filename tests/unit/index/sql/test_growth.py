"""What a predicate costs grows with its text: nesting shares its operands, and long chains stay flat."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from support.function_cells import rows, schema
from support.truth import matches
from tailbit import col
from tailbit.index.expression import evaluate as evaluation
from tailbit.index.functions.tree import Call, Expression
from tailbit.index.predicate.computed import Computed
from tailbit.index.predicate.tree import And, Or
from tailbit.index.sql.bind import bind

TABLE, SCHEMA = rows(), schema()

NESTED = (
    "if({0} IN (1, l, 3), 1, 2)",
    "nullif({0}, 7)",
    "if({0} BETWEEN l AND 3, 1, 2)",
    "CASE {0} WHEN 1 THEN 1 WHEN 3 THEN 4 END",
    "CASE {0} WHEN 1 THEN 1 WHEN 3 THEN {0} END",
    "if(concat('', {0}) ILIKE ANY ('1', '2', '3'), 1, 2)",
)
"""Operators that use an operand more than once; the fifth writes it twice, so that its text doubles."""


def calls(expression: Expression) -> Iterator[Call]:
    """All calls of an expression, each object once."""
    seen: set[int] = set()
    rest = [expression]
    while rest:
        at = rest.pop()
        if isinstance(at, Call) and id(at) not in seen:
            seen.add(id(at))
            yield at
            rest.extend(at.args)


def nested(shape: str, depth: int) -> str:
    text = "i"
    for _ in range(depth):
        text = shape.format(text)
    return f"{text} = 1"


def made(shape: str, depth: int) -> Expression:
    node = bind(nested(shape, depth), SCHEMA)
    assert isinstance(node, Computed)
    return node.expression


@pytest.mark.parametrize("shape", [shape for shape in NESTED if shape.count("{0}") == 1])
def test_an_operand_that_is_used_twice_is_one_object(shape: str) -> None:
    sizes = [len(list(calls(made(shape, depth)))) for depth in range(1, 16)]
    assert len(set(np.diff(sizes))) == 1


@pytest.mark.parametrize("shape", NESTED)
def test_the_key_and_the_text_of_a_nested_expression_are_short(shape: str) -> None:
    node = bind(nested(shape, 6), SCHEMA)
    assert isinstance(node, Computed)
    assert len(node.key[0]) < 2500
    assert len(node.text) <= 400


@pytest.mark.parametrize("shape", NESTED)
def test_what_is_shared_in_an_expression_is_evaluated_once(
    shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    before: Callable[..., object] = evaluation._called

    def counted(call: Call, *rest: object) -> object:
        asked.append(id(call))
        return before(call, *rest)

    expression = made(shape, 6)
    monkeypatch.setattr(evaluation, "_called", counted)
    matches(Computed(expression, ""), TABLE, {})
    assert sorted(asked) == sorted(id(call) for call in calls(expression))


def test_a_shared_operand_gives_what_a_copied_one_gives() -> None:
    for low, value in ((4, 3), (3, 3), (0, 1)):
        shared = bind(f"nullif(nullif(i % 5, {low}), 9) = {value}", SCHEMA)
        copied = f"CASE WHEN i % 5 = {low} THEN NULL ELSE i % 5 END"
        whole = bind(f"CASE WHEN {copied} = 9 THEN NULL ELSE {copied} END = {value}", SCHEMA)
        assert matches(shared, TABLE, {}).tolist() == matches(whole, TABLE, {}).tolist()
        assert shared == whole


def test_a_list_of_patterns_evaluates_its_value_once() -> None:
    patterns = ", ".join(f"'%{n}'" for n in range(50))
    node = bind(f"upper(concat(s, s)) LIKE ANY ({patterns})", SCHEMA)
    assert isinstance(node, Computed)
    assert [call.name for call in calls(node.expression)].count("concat") == 1


@pytest.mark.parametrize("joined", [operator.or_, operator.and_])
def test_conditions_joined_one_by_one_are_one_flat_chain(joined: Callable[..., object]) -> None:
    parts = [(col("i") == n) | (col("s") > col("n")) if n % 2 else col("l") != n for n in range(400)]
    node = bind(str(functools.reduce(joined, parts)), SCHEMA)
    assert isinstance(node, Or if joined is operator.or_ else And)
    assert all(type(child) is not type(node) for child in node.children)


def test_chains_that_are_joined_from_the_right_are_flat_too() -> None:
    chain = functools.reduce(lambda done, part: part | done, [col("i") == n for n in range(3)])
    assert str(chain) == "((`i` = 2) OR (`i` = 1) OR (`i` = 0))"
    assert str(~chain & (col("l") > 0) & True).count("NOT") == 1
