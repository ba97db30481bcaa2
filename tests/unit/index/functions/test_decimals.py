"""Decimals that fit in 64 bits give in vectors what Python's integers give, or are left to them."""

from __future__ import annotations

import random
from decimal import Context, Decimal

import pyarrow as pa
import pytest

from tailbit.index.expression.build import decimal_result
from tailbit.index.functions import decimals
from tailbit.index.functions.table import kernel
from tailbit.index.functions.tree import Call, Ref
from tailbit.index.functions.vectors import Vector, nulls_of
from tailbit.index.values.literals import DOUBLE, LONG
from tailbit.tables.model import Column, DataType

EXACT = Context(prec=60)
PRECISIONS = (1, 3, 9, 10, 15, 18, 19, 38)


def decimal(precision: int, scale: int) -> DataType:
    return DataType("decimal", precision, scale)


def column(name: str, type_: DataType) -> Ref:
    return Ref(Column((name,), (name,), type_, True, False, None, {}))


def values(rng: random.Random, type_: DataType, zero: bool = True) -> pa.Array:
    """Numbers of any size, their ends, and NULL."""
    most = 10**type_.precision - 1
    edges = [None, 1, -1, 5, -5, most, -most, 10 ** (type_.precision - 1), *([0] if zero else [])]
    sized = [10 ** rng.randint(1, type_.precision) - 1 for _ in range(30)]
    numbers = [*edges, *(n for some in sized if (n := rng.randint(-some, some)) or zero)]
    scaled = [None if n is None else Decimal(n).scaleb(-type_.scale, EXACT) for n in numbers]
    rng.shuffle(scaled)
    return pa.array(scaled, pa.decimal128(type_.precision, type_.scale))


def same(call: Call, args: list[pa.Array], monkeypatch: pytest.MonkeyPatch) -> None:
    """What the vectors give is what Python's integers give."""
    quick: Vector = kernel(call.name)(call, list(args))
    with monkeypatch.context() as without:
        without.setattr(decimals, "small", lambda _: None)
        exact = kernel(call.name)(call, list(args))
    quick.values.validate(full=True)
    assert quick.values.to_pylist() == exact.values.to_pylist(), call.key
    assert quick.failed.tolist() == exact.failed.tolist(), call.key


def types(rng: random.Random) -> tuple[DataType, DataType]:
    one, other = rng.choice(PRECISIONS), rng.choice(PRECISIONS)
    return decimal(one, rng.randint(0, one)), decimal(other, rng.randint(0, other))


@pytest.mark.parametrize("op", ["+", "-", "*", "/", "%"])
def test_operators_give_what_integers_of_any_size_give(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, judged = random.Random(7), 0
    for _ in range(60):
        left, right = types(rng)
        result = decimal_result(op, left, right)
        if result is not None:
            judged += 1
            a, b = values(rng, left), values(rng, right)
            length = min(len(a), len(b))
            call = Call(op, (column("a", left), column("b", right)), result)
            same(call, [a.slice(0, length), b.slice(0, length)], monkeypatch)
            nonzero = values(rng, right, zero=False)
            length = min(len(a), len(nonzero))
            same(call, [a.slice(0, length), nonzero.slice(0, length)], monkeypatch)
    assert judged > 20


@pytest.mark.parametrize("op", ["+", "-", "*", "/", "%"])
def test_rows_computed_some_at_a_time_have_the_values_and_errors_of_all_computed_at_once(
    op: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, raised = random.Random(9), 0
    for _ in range(20):
        left, right = decimal(18, rng.randint(0, 9)), decimal(38, rng.randint(0, 9))
        a, b = values(rng, left), values(rng, right)
        length = min(len(a), len(b))
        call = Call(op, (column("a", left), column("b", right)), decimal(38, 6))
        args = [a.slice(0, length), b.slice(0, length)]
        whole = decimals.decimal(call, args, nulls_of(*args))
        with monkeypatch.context() as few:
            few.setattr(decimals, "_CHUNK", 4)
            some = decimals.decimal(call, args, nulls_of(*args))
        some.values.validate(full=True)
        assert some.values.equals(whole.values)
        assert some.failed.tolist() == whole.failed.tolist()
        raised += int(whole.failed.sum())
    assert raised


def test_casts_and_rounding_give_what_integers_of_any_size_give(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(8)
    for _ in range(60):
        type_, to = types(rng)
        a, ref = values(rng, type_), column("a", type_)
        for target in (to, DOUBLE, LONG, DataType("byte")):
            same(Call("cast", (ref,), target, ("UTC",)), [a], monkeypatch)
        digits = rng.randint(-3, type_.scale + 2)
        rounded = decimal(38, max(0, min(digits, type_.scale)))
        same(Call("round", (ref,), rounded, (digits,)), [a], monkeypatch)
        for name in ("floor", "ceil"):
            same(Call(name, (ref,), decimal(38, 0), (0,)), [a], monkeypatch)
        for name in ("negative", "abs"):
            same(Call(name, (ref,), type_), [a], monkeypatch)


def test_integers_become_decimals_as_integers_of_any_size_do(monkeypatch: pytest.MonkeyPatch) -> None:
    longs = pa.array([0, 1, -1, None, 2**63 - 1, -(2**63), 10**17, -(10**18)], pa.int64())
    for some in (longs, longs.slice(0, 4)):
        for to in (decimal(38, 0), decimal(38, 18), decimal(10, 2), decimal(20, 2)):
            same(Call("cast", (column("a", LONG),), to, ("UTC",)), [some], monkeypatch)


def test_a_quotient_that_is_nearly_a_half_is_not_rounded_up(monkeypatch: pytest.MonkeyPatch) -> None:
    divisor = 3_999_999_999_999_999_999
    type_, by = decimal(1, 0), decimal(19, 0)
    numbers = pa.array([Decimal(2)], pa.decimal128(1, 0))
    divisors = pa.array([Decimal(divisor)], pa.decimal128(19, 0))
    call = Call("/", (column("a", type_), column("b", by)), decimal(38, 18))
    same(call, [numbers, divisors], monkeypatch)
