"""What is done in vectors where it can be gives what is done value by value."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from tailbit.index.functions import casting, texts
from tailbit.index.functions.vectors import Vector, per_distinct
from tailbit.index.values.literals import DOUBLE, STRING, decimal_type
from tailbit.tables.model import DataType

CHARACTERS = ["a", "B", "é", "€", "😀", "ß", "İ", " ", "\x00", "ǅ"]
SPELLED = [
    "1e5",
    "NaN",
    "inf",
    "true",
    "1_000",
    "\uff11",
    " 1 ",
    "1\n",
    "1.",
    "-.5",
    ".5",
    "0x1F",
    "00",
    "1\x00",
    "",
]
TYPES = [
    *map(DataType, ("byte", "short", "integer", "long", "float", "double", "boolean")),
    *map(DataType, ("date", "timestamp", "timestamp_ntz")),
    *(decimal_type(*size) for size in ((10, 2), (38, 10), (5, 5), (4, 0))),
]


def some_texts(rng: random.Random, count: int) -> pa.Array:
    def one() -> str:
        chars = CHARACTERS if rng.random() < 0.5 else ["a", "b", "C", " "]
        return "".join(rng.choices(chars, k=rng.randint(0, 6)))

    return pa.array([None if rng.random() < 0.1 else one() for _ in range(count)], pa.string())


def numerals(rng: random.Random, count: int) -> pa.Array:
    def digits(*counts: int) -> str:
        return "".join(rng.choices("0123456789", k=rng.choice(counts)))

    def one() -> str:
        year, month = (
            rng.choice(["0000", "0001", "1582", "2024", "9999", "12345"]),
            rng.choice(["02", "12", "13"]),
        )
        day = f"{year}-{month}-{rng.choice(['01', '28', '29', '30', '00', '5'])}"
        clock = ":".join(
            rng.choice(parts) for parts in (["00", "23", "24"], ["00", "59", "60"], ["00", "59", "5"])
        )
        rest = rng.choice(["", ".1", ".123456", ".1234567", "Z", "+01:00"])
        kinds = [
            rng.choice(["", "-", "+", " "]) + digits(1, 2, 3, 4, 5, 9, 10, 18, 19, 20, 25),
            f"{rng.choice(['', '-'])}{digits(1, 2, 8, 15, 16)}.{digits(0, 1, 2, 6, 15, 16)}",
            day,
            f"{day}{rng.choice([' ', 'T'])}{clock}{rest}",
            rng.choice(SPELLED),
        ]
        return rng.choice(kinds)

    return pa.array([None if rng.random() < 0.05 else one() for _ in range(count)], pa.string())


def stored(found: Vector) -> tuple[list[object], list[int]]:
    """Values in a form that holds years of any size, NaN as a text; and the codes of errors."""
    values = found.values
    if pa.types.is_date32(values.type) or pa.types.is_timestamp(values.type):
        values = values.cast(pa.int32() if pa.types.is_date32(values.type) else pa.int64())
    listed = ["NaN" if value != value else value for value in values.to_pylist()]
    return listed, [0] * len(listed) if found.raised is None else found.raised.tolist()


@pytest.mark.parametrize("zone", ["UTC", "+02:00", "Europe/Berlin"])
@pytest.mark.parametrize("to", TYPES, ids=str)
def test_texts_are_cast_as_one_by_one(to: DataType, zone: str) -> None:
    given = numerals(random.Random(1), 2000)
    expected = per_distinct([given], [STRING], to, casting._cast_of_value(STRING, to, zone))
    assert stored(casting._of_text(given, STRING, to, zone)) == stored(expected)


@pytest.mark.parametrize("position", [-(1 << 31), -1000, -7, -2, -1, 0, 1, 2, 5, 1000, (1 << 31) - 1])
def test_texts_are_cut_as_one_by_one(position: int) -> None:
    given = some_texts(random.Random(position), 500)
    for count in (-1, 0, 1, 2, 6, (1 << 31) - 1):
        expected = [
            None if t is None else texts._substring(t.encode(), position, count).decode()
            for t in given.to_pylist()
        ]
        assert texts._sliced(given, position, count).values.to_pylist() == expected


@pytest.mark.parametrize("digits", [-2, 0, 1, 2, 5, 15, 22, 25])
def test_numbers_are_rounded_as_one_by_one(digits: int) -> None:
    rng = random.Random(digits)
    numbers = [round(rng.uniform(-1e6, 1e6), rng.randint(0, 6)) for _ in range(1000)]
    numbers += [rng.randint(-(10**6), 10**6) / 2 ** rng.randint(0, 10) for _ in range(1000)]
    numbers += [rng.gauss(0, 1) * 10.0 ** rng.randint(-20, 20) for _ in range(1000)]
    numbers += [np.nan, np.inf, -np.inf, -0.0, 0.5, 1.5, 2.5, -0.5, -0.4, 1e308, 5e-324]
    round_one: Callable[[float], float] = lambda value: casting._round_float(value, digits)  # noqa: E731
    expected = per_distinct([pa.array(numbers)], [DOUBLE], DOUBLE, round_one)
    assert stored(casting._rounded_floats(pa.array(numbers), DOUBLE, digits)) == stored(expected)
