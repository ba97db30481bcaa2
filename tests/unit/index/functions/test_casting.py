"""Casts of columns at the edges of what is read, hash over parts of arrays, and the table of functions."""

from __future__ import annotations

import pyarrow as pa
import pytest

from support.function_cells import schema
from support.truth import matches
from tailbit.errors import EvaluationError, PredicateError
from tailbit.index.functions.table import FUNCTIONS, OPERATIONS, kernel
from tailbit.index.predicate.truth import judged
from tailbit.index.sql.bind import bind

DAYS = pa.array([200_000_000, -200_000_000, 0], pa.int32()).cast(pa.date32())
ENDS = pa.array([2**63 - 1, -(2**63), 0], pa.int64()).cast(pa.timestamp("us", "UTC"))


def texts(*values: str) -> pa.Table:
    return pa.table({"n": pa.array(values)})


@pytest.mark.parametrize(
    ("value", "to"),
    [
        ("0x1p3", "DOUBLE"),
        ("1e0000001", "DOUBLE"),
        ("1e-9999999", "FLOAT"),
        ("1e-9999999", "DECIMAL(5,0)"),
        ("0." + "1" * 5000, "DOUBLE"),
        ("0." + "1" * 5000, "DECIMAL(5,1)"),
        ("\u0661\u0662", "DECIMAL(5,0)"),
        ("12:34", "TIMESTAMP"),
        ("T12:34:56", "TIMESTAMP"),
    ],
)
def test_a_text_that_spark_reads_and_that_is_not_read_here_is_no_null(value: str, to: str) -> None:
    for predicate in (f"TRY_CAST(n AS {to}) IS NULL", f"CAST(n AS {to}) IS NULL"):
        with pytest.raises(EvaluationError, match="NOT_READ_EXACTLY"):
            matches(bind(predicate, schema()), texts(value), {})
    with pytest.raises(PredicateError, match="not supported"):
        bind(f"TRY_CAST('{value}' AS {to}) IS NULL", schema())


def test_a_nan_with_a_sign_is_one() -> None:
    found = matches(bind("isnan(CAST(n AS DOUBLE))", schema()), texts("-NaN", "+NaN", " NaN "), {})
    assert found.all()


def test_a_fraction_loses_fewer_blanks_than_a_whole_number() -> None:
    rows = texts("1\x7f", "1\x1f", "\x00 1")
    for to, read in (("DOUBLE", [False, True, True]), ("DECIMAL(5,0)", [False, True, True])):
        assert matches(bind(f"TRY_CAST(n AS {to}) = 1", schema()), rows, {}).tolist() == read
    assert matches(bind("TRY_CAST(n AS INT) = 1", schema()), rows, {}).all()


@pytest.mark.parametrize(
    "predicate",
    [
        "TRY_CAST(dt AS TIMESTAMP) IS NULL",
        "CAST(dt AS TIMESTAMP_NTZ) IS NULL",
        "hour(dt) = 1",
        "date_format(dt, 'HH') = '01'",
        "date_trunc('DAY', dt) < TIMESTAMP'1960-01-01 00:00:00'",
    ],
)
def test_a_date_that_no_time_holds_has_no_time(predicate: str) -> None:
    true, open_ = judged(bind(predicate, schema()), pa.table({"dt": DAYS}), {})
    assert not true.any()
    assert open_ is not None
    assert open_.tolist() == [True, True, False]


def test_a_date_that_no_time_holds_is_compared_as_a_date_where_spark_does_so() -> None:
    condition = bind("CAST(dt AS TIMESTAMP) > TIMESTAMP'2020-01-01 00:00:00'", schema())
    assert matches(condition, pa.table({"dt": DAYS}), {}).tolist() == [True, False, False]


@pytest.mark.parametrize("zone", ["+10:00", "Asia/Tokyo", "Europe/Oslo"])
@pytest.mark.parametrize(
    "predicate",
    [
        "CAST(ts AS TIMESTAMP_NTZ) < TIMESTAMP_NTZ'-1000-01-01 00:00:00'",
        "hour(ts) < 0",
        "CAST(ts AS STRING) LIKE '2%'",
        "date_format(ts, 'HH') = 'x'",
    ],
)
def test_a_local_time_beyond_64_bits_is_not_another_time(predicate: str, zone: str) -> None:
    _, open_ = judged(bind(predicate, schema(), zone), pa.table({"ts": ENDS}), {})
    assert open_ is not None
    assert open_[0]


def test_a_time_that_is_cut_beyond_64_bits_is_not_another_time() -> None:
    for unit in ("YEAR", "WEEK", "DAY"):
        node = bind(f"coalesce(date_trunc('{unit}', ts), ts) > TIMESTAMP'2000-01-01 00:00:00'", schema())
        true, open_ = judged(node, pa.table({"ts": ENDS}), {})
        assert true.tolist() == [True, False, False]
        assert open_ is not None
        assert open_.tolist() == [False, True, False]


def test_a_time_that_is_cut_beyond_64_bits_is_before_every_other() -> None:
    node = bind("date_trunc('YEAR', ts) > TIMESTAMP'2000-01-01 00:00:00'", schema())
    true, open_ = judged(node, pa.table({"ts": ENDS}), {})
    assert true.tolist() == [True, False, False]
    assert open_ is None


def test_every_function_is_evaluated_by_a_function_that_there_is() -> None:
    kernels = {name: operation.kernel for name, operation in OPERATIONS.items() if operation.kernel}
    names = [kernel(name).__name__ for name in kernels]
    assert names == [path.rpartition(".")[2] for path in kernels.values()]


def test_every_function_of_fixed_arguments_has_a_kernel() -> None:
    assert [name for name, function in FUNCTIONS.items() if function.kernel not in OPERATIONS] == []


def test_the_hash_of_a_text_is_that_of_its_own_bytes_in_a_part_of_an_array() -> None:
    texts = pa.table({"s": ["x", "Spark", None, "äÖß"]})
    node = bind("hash(s) = hash('Spark') OR hash(s) = 42", schema())
    assert matches(node, texts, {}).tolist() == [False, True, True, False]
    assert matches(node, texts.slice(1, 2), {}).tolist() == [True, True]
    assert matches(node, texts.slice(0, 0), {}).tolist() == []
