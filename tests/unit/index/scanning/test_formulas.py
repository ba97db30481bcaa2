"""Arithmetic over stored numbers gives what the evaluation of values gives, or is left to it."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tailbit
from support.delta_builder import DeltaBuilder
from support.profiles import SEED
from support.scans import counted, scanned, scans_of
from tailbit.errors import EvaluationError, PredicateError
from tailbit.index.scanning.formulas import fitting_in, formula_of, formulas_in
from tailbit.index.scanning.scan import Scan
from tailbit.tables.parquet.data_file import open_layout

TYPES = {
    "b": pa.int8(),
    "i": pa.int32(),
    "l": pa.int64(),
    "p": pa.decimal128(7, 2),
    "q": pa.decimal128(15, 4),
    "w": pa.decimal128(18, 0),
    "dt": pa.date32(),
    "ts": pa.timestamp("us", "UTC"),
    "x": pa.float64(),
    "s": pa.string(),
    "y": pa.binary(),
}
ROWS = 400


def values(rng: np.random.Generator, type_: pa.DataType, most: int) -> pa.Array:
    """Small numbers of a type, some of them NULL."""
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return pa.array(rng.choice([None, "", "a", "ä", "日本", "𝄞 x", "\0"], ROWS), pa.string()).cast(type_)
    numbers, null = rng.integers(-most, most + 1, ROWS), rng.random(ROWS) < 0.1
    if pa.types.is_decimal(type_):
        unscaled = [Decimal(int(n)).scaleb(-type_.scale) for n in numbers]
        return pa.array([None if gone else n for n, gone in zip(unscaled, null, strict=True)], type_)
    stored = (
        pa.int32() if pa.types.is_date32(type_) else pa.int64() if pa.types.is_timestamp(type_) else type_
    )
    return pa.array(numbers, mask=null).cast(stored).cast(type_)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Files of small numbers, with statistics and without, decimals as integers and as bytes."""
    path, rng = str(tmp_path_factory.mktemp("formulas") / "table"), np.random.default_rng(SEED)
    builder = DeltaBuilder(path).create(pa.schema(list(TYPES.items())))
    files = []
    for number, stated in enumerate((True, True, True, False)):
        most = (9, 60, 127, 100)[number]
        table = pa.table({name: values(rng, type_, most) for name, type_ in TYPES.items()})
        more: dict[str, Any] = {"row_group_size": 150, "write_statistics": stated}
        more["store_decimal_as_integer"] = number != 2
        files.append(builder.data_file(table, f"f{number}.parquet", **more))
    builder.commit(files)
    return path


CONDITIONS = (
    "i + l > 3",
    "CAST(b AS INT) * b - i >= 2 * l",
    "p * (1 - q) > 0.5",
    "p * q + w <= i",
    "p / 3 > 0.1",
    "3 / 2.5 + p > q",
    "w / 7 <> 5",
    "p / 0.07 = 100",
    "q / (i + 200) > 0.001",
    "i / 2 > 1",
    "CASE WHEN p > q THEN i WHEN b IS NULL THEN -1 ELSE l END < 4",
    "CASE WHEN i > 3 THEN NULL ELSE i > l END",
    "coalesce(p, q, 1) = 1",
    "nullif(i, 3) IS NULL OR if(b > 0, p, NULL) > 0.02",
    "abs(i - b) <=> abs(l)",
    "-p < q AND NOT (i + b = l)",
    "i + 1 IN (1, 2, 3, NULL)",
    "i NOT IN (l, b, 7)",
    "p + 1 IN (1.5, 2)",
    "datediff(dt, DATE'1970-01-01') > i",
    "date_add(dt, i) < date_sub(DATE'1970-03-01', b)",
    "i > p",
    "w = l",
    "q <= b",
    "ts > TIMESTAMP'1970-01-01 00:00:00' AND CASE WHEN i > 0 THEN ts END = ts",
    "(i + l > 3) IS NULL",
    "(p > q * 2) IS NOT FALSE",
    "CAST(i AS DECIMAL(12, 3)) > q",
    "CAST(b AS INT) * 1000000 = i",
    "CAST(l AS TINYINT) = b",
    "i + CAST(NULL AS INT) > 1 OR l > 1",
    "length(s) > 1",
    "length(y) - i > octet_length(s) + 1",
    "NOT (octet_length(y) = length(s))",
    "coalesce(length(s), 7) IN (7, 2, i)",
    "(i + 200) % 7 = b",
    "abs(l) % 10 = 3",
    "(abs(i) + 1) div 3 = abs(b) div 40",
    "(p + 2) % 0.7 > q",
    "round(p + 2, 1) = round(q + 2, 1)",
    "round(abs(p) * 0.35, 1) > 0.1",
    "floor(p) = floor(q)",
    "ceil(abs(q) * 100) > i",
    "CAST(abs(p) * 10 AS INT) = b",
    "CAST(q + 2 AS DECIMAL(7, 2)) = p + 2",
    "month(dt) = i",
    "month(ts) = month(dt) OR day(dt) > 20 AND l > 0",
    "dayofweek(dt) + weekday(ts) = quarter(dt) + 3",
    "dayofyear(dt) > weekofyear(ts) * 3",
    "year(dt) - 1970 = b",
    "hour(ts) = 23 OR minute(ts) = abs(b) OR second(ts) = 59",
    "CAST(ts AS DATE) <> dt",
)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_formula_finds_what_evaluation_finds(path: str, condition: str) -> None:
    mine = scanned(path, condition, by_polars=True)
    assert mine == scanned(path, condition, by_polars=False)
    assert mine == scanned(path, condition)
    table, scans = scans_of(path, condition)
    assert counted(table, scans, by_polars=True) == sum(map(len, mine))


class Arithmetic:
    """Random arithmetic over the columns of whole numbers."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def truth(self, depth: int) -> str:
        pick = self.rng.random()
        if depth and pick < 0.3:
            word = self.rng.choice((" AND ", " OR "))
            return f"({self.truth(depth - 1)}{word}{self.truth(depth - 1)})"
        if depth and pick < 0.45:
            return self.rng.choice(("(NOT {})", "({} IS NULL)", "({} IS NOT TRUE)")).format(
                self.truth(depth - 1)
            )
        if pick < 0.55:
            return f"({self.number(1)} / {self.number(1)} {self.sign()} {self.constant()})"
        if pick < 0.65:
            return f"({self.number(2)} IN ({self.number(0)}, {self.constant()}))"
        return f"({self.number(2)} {self.sign()} {self.number(2)})"

    def number(self, depth: int) -> str:
        pick = self.rng.random()
        if not depth or pick < 0.2:
            return self.rng.choice((*"bilpqw", self.constant()))
        if pick < 0.6:
            return f"({self.number(depth - 1)} {self.rng.choice('+-*')} {self.number(depth - 1)})"
        if pick < 0.65:
            return f"abs({self.number(depth - 1)})"
        if pick < 0.75:
            part = self.rng.choice(("year", "month", "day", "dayofweek", "weekofyear", "hour", "second"))
            return f"{part}({'ts' if part in ('hour', 'second') else self.rng.choice(('dt', 'ts'))})"
        if pick < 0.8:
            inner = self.rng.choice((f"abs({self.number(depth - 1)})", self.number(depth - 1)))
            made = ("({} % 3)", "({} div 2)", "round({}, 1)", "floor({})", "ceil({})", "CAST({} AS BIGINT)")
            return self.rng.choice(made).format(inner)
        if pick < 0.85:
            value, other = self.number(depth - 1), self.number(depth - 1)
            return f"CASE WHEN {self.truth(0)} THEN {value} ELSE {other} END"
        return f"coalesce({self.number(depth - 1)}, {self.number(depth - 1)})"

    def sign(self) -> str:
        return self.rng.choice(("=", "<>", "<", "<=", ">", ">=", "<=>"))

    def constant(self) -> str:
        return self.rng.choice(("0", "1", "-3", "0.5", "10.00", "7Y", "100L", "2.25", "NULL"))


def found(path: str, condition: str, by_polars: bool) -> list[list[int]] | str:
    try:
        return scanned(path, condition, by_polars)
    except EvaluationError as wrong:
        return str(wrong)


def test_random_arithmetic_finds_what_evaluation_finds(path: str) -> None:
    made, told = Arithmetic(random.Random(SEED)), 0
    for _ in range(150):
        text = made.truth(2)
        try:
            mine = found(path, text, by_polars=True)
        except PredicateError:
            continue
        assert mine == found(path, text, by_polars=False), text
        told += isinstance(mine, list)
    assert told > 60


def fitting(path: str, condition: str, file: int) -> int:
    """How many parts of a condition are formulas of which nothing is out of range in a file."""
    table, scans = scans_of(path, condition)
    its: Scan = scans[file]
    storage = table.where()._selection.storage
    layout = open_layout(storage, its.slice_.path, its.slice_.size)
    groups = list(range(layout.metadata.num_row_groups))
    return len(fitting_in(formulas_in(its.node), layout, its.slice_.path, groups))


@pytest.mark.parametrize(
    ("condition", "with_statistics", "without"),
    [
        ("i + b > 3", 1, 0),  # a type that its greatest number overflows
        ("CAST(i AS BIGINT) + b > l", 1, 1),
        ("p * p > 3", 1, 1),
        ("q * q > 3", 1, 0),  # 30 digits
        ("w + w > p", 1, 0),
        ("p / q > 2", 0, 0),  # by zero
        ("p / (q + 1) > 2", 1, 0),
        ("p / (abs(q) + 1) > 2", 1, 1),
        ("abs(b) > 3 + l", 1, 0),
        ("i % 3 = b", 0, 0),  # what is below 0
        ("abs(i) % 3 = b", 1, 0),
        ("abs(i) % l = b", 0, 0),  # by 0
        ("floor(p) = i", 1, 1),
        ("round(p) = i", 0, 0),
        ("round(abs(p)) = i", 1, 1),
        ("month(dt) = i", 1, 0),  # years beyond 9999
    ],
)
def test_a_formula_is_used_where_nothing_can_overflow(
    path: str, condition: str, with_statistics: int, without: int
) -> None:
    assert [fitting(path, condition, file) for file in (0, 3)] == [with_statistics, without]


@pytest.mark.parametrize(
    "condition", ["x + 1 > i", "i % x = 1", "round(l, -1) = i", "TRY_CAST(p AS INT) = i", "last_day(dt) = dt"]
)
def test_what_rounds_or_is_of_other_types_has_no_formula(path: str, condition: str) -> None:
    node = tailbit.open(path).where(condition)._selection.node
    assert formula_of(node) is None  # type: ignore[arg-type]


def table_of(tmp_path: Path, **columns: pa.Array) -> str:
    table = pa.table(columns)
    builder = DeltaBuilder(str(tmp_path / "table")).create(table.schema)
    builder.commit([builder.data_file(table, "f.parquet")])
    return str(tmp_path / "table")


@pytest.mark.parametrize(
    ("condition", "error"),
    [
        ("i + j > 3", "ARITHMETIC_OVERFLOW"),
        ("j / p > 3", "DIVIDE_BY_ZERO"),
        ("abs(b) > j", "ARITHMETIC_OVERFLOW"),
        ("CAST(i AS SMALLINT) = j", "CAST_OVERFLOW"),
    ],
)
def test_what_overflows_raises_as_ever(tmp_path: Path, condition: str, error: str) -> None:
    path = table_of(
        tmp_path,
        i=pa.array([1, 2**31 - 1], pa.int32()),
        j=pa.array([1, 1], pa.int32()),
        b=pa.array([-128, 1], pa.int8()),
        p=pa.array([Decimal(0), Decimal(1)], pa.decimal128(5, 2)),
    )
    with pytest.raises(EvaluationError, match=error):
        scanned(path, condition, by_polars=True)


@pytest.mark.parametrize("sign", ["=", "<>", "<", "<=", ">", ">=", "<=>", "IS DISTINCT FROM"])
def test_days_are_not_compared_with_microseconds(tmp_path: Path, sign: str) -> None:
    days = pa.array([1, 2, None, -5], pa.int32()).cast(pa.date32())
    times = pa.array([1, 86_400_000_000 * 2, 7, None], pa.int64()).cast(pa.timestamp("us"))
    table = pa.table({"d": days, "n": times, "t": times.cast(pa.timestamp("us", "UTC"))})
    builder = DeltaBuilder(str(tmp_path / "table")).create(table.schema, features=["timestampNtz"])
    builder.commit([builder.data_file(table, "f.parquet")])
    path = str(tmp_path / "table")
    for condition in (f"d {sign} n", f"d {sign} t", f"n {sign} t", f"coalesce(d, d) {sign} n"):
        assert scanned(path, condition, by_polars=True) == scanned(path, condition, by_polars=False), (
            condition
        )


def test_what_stands_in_many_places_is_counted_in_each(path: str) -> None:
    nested = "l"
    for number in range(20):
        nested = f"(nullif({nested}, {number}) + l)"
    node = tailbit.open(path).where(f"{nested} > 20")._selection.node
    assert formulas_in(node) == {}


def test_texts_that_are_not_utf_8_are_left_to_evaluation(tmp_path: Path) -> None:
    texts = pa.array([b"abc", b"\xff\xfe\xfd\xfc", b"\xe4\xb8", None], pa.binary())
    valid, ends, data = texts.buffers()
    path = table_of(tmp_path, s=pa.StringArray.from_buffers(len(texts), ends, data, valid))
    for by_polars in (True, False):
        assert scanned(path, "octet_length(s) > 3", by_polars=by_polars) == [[1]]
        for condition in ("length(s) > 2", "length(s) + 1 > 3"):
            with pytest.raises(EvaluationError, match="NOT_READ_EXACTLY"):
                scanned(path, condition, by_polars=by_polars)


def test_a_quotient_that_is_rounded_to_the_constant_is_left_to_evaluation(tmp_path: Path) -> None:
    # 1 / 3 rounds to 0.33333333333 (11 digits), which is less than it.
    path = table_of(
        tmp_path,
        a=pa.array([1, 2], pa.int64()).cast(pa.decimal128(19, 0)).cast(pa.decimal128(5, 0)),
        b=pa.array([3, 3], pa.int64()).cast(pa.decimal128(19, 0)).cast(pa.decimal128(10, 0)),
    )
    for sign in ("=", "<", ">", "<=", ">=", "<>"):
        for constant in ("0.33333333333", "0.333333", "0.5", "0.66666666667", "0.66666666666"):
            condition = f"a / b {sign} {constant}"
            assert scanned(path, condition, by_polars=True) == scanned(path, condition, by_polars=False), (
                condition
            )
    assert scanned(path, "a / b = 0.33333333333", by_polars=True) == [[0]]
