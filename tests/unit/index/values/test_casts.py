"""Casts of constants at the edges of their types, and of texts that are longer than any number."""

from __future__ import annotations

import warnings

import pyarrow as pa
import pytest

from support.function_cells import schema
from support.truth import matches
from tailbit.errors import PredicateError
from tailbit.index.predicate.truth import judged
from tailbit.index.sql.bind import bind

SCHEMA = schema()
ONE = pa.table({"n": pa.array(["1"]), "i": pa.array([1], pa.int32())})
ZEROS, DIGITS = "0" * 5000, "9" * 5000


def holds(text: str, table: pa.Table = ONE) -> bool:
    return bool(matches(bind(text, SCHEMA), table, {}).all())


@pytest.mark.parametrize("kind", ["D", "F"])
def test_a_floating_constant_of_two_to_the_63_is_the_greatest_bigint(kind: str) -> None:
    greatest = f"9223372036854775807{kind}"
    assert holds(f"CAST({greatest} AS BIGINT) = 9223372036854775807")
    assert holds(f"TRY_CAST({greatest} AS BIGINT) IS NOT NULL")
    assert holds(f"bigint({greatest}) = 9223372036854775807")
    assert holds(f"CAST(-{greatest} AS BIGINT) = -9223372036854775808")
    assert holds(f"TRY_CAST(9223373136366403584{kind} AS BIGINT) IS NULL")
    assert holds(f"TRY_CAST(2147483648{kind} AS INT) IS NULL")


def test_a_decimal_constant_of_two_to_the_63_is_no_bigint() -> None:
    assert holds("TRY_CAST(9223372036854775808 AS BIGINT) IS NULL")
    assert holds("CAST(9223372036854775807.5 AS BIGINT) = 9223372036854775807")


@pytest.mark.parametrize("sign", ["", "+", "-"])
def test_a_whole_number_may_begin_with_thousands_of_zeros(sign: str) -> None:
    text, table = f"{sign}{ZEROS}1", pa.table({"n": pa.array([f"{sign}{ZEROS}1"])})
    for to in ("TINYINT", "INT", "BIGINT"):
        assert holds(f"TRY_CAST('{text}' AS {to}) = {sign}1")
        assert holds(f"TRY_CAST(n AS {to}) = {sign}1", table)
        assert holds(f"CAST(n AS {to}) = {sign}1", table)
    assert holds(f"i = '{ZEROS}1'")


def test_a_text_of_thousands_of_digits_is_beyond_every_integer() -> None:
    table = pa.table({"n": pa.array([DIGITS])})
    assert holds(f"TRY_CAST('{DIGITS}' AS BIGINT) IS NULL")
    assert holds("TRY_CAST(n AS BIGINT) IS NULL", table)
    raised = judged(bind("CAST(n AS BIGINT) = 1", SCHEMA), table, {})[1]
    assert raised is not None
    with pytest.raises(PredicateError, match="out of the range of BIGINT") as refused:
        bind(f"i = '{DIGITS}'", SCHEMA)
    assert "sys." not in str(refused.value)


@pytest.mark.parametrize("to", ["INT", "DOUBLE", "DECIMAL(10,2)"])
def test_a_long_text_that_is_no_number_is_known_as_such_at_once(to: str) -> None:
    table = pa.table({"n": pa.array(["1" * 200_000 + "x"])})
    assert holds(f"TRY_CAST(n AS {to}) IS NULL", table)


@pytest.mark.parametrize("text", ["not supported", "out of the range"])
def test_a_malformed_text_is_malformed_whatever_words_it_holds(text: str) -> None:
    table = pa.table({"n": pa.array([text])})
    for to in ("INT", "DOUBLE", "DECIMAL(10,2)", "DATE", "BOOLEAN"):
        assert holds(f"TRY_CAST('{text}' AS {to}) IS NULL")
        assert holds(f"TRY_CAST(n AS {to}) IS NULL", table)


def test_a_decimal_text_beyond_every_double_is_out_of_the_range_of_decimals() -> None:
    table = pa.table({"n": pa.array(["1e400"])})
    with pytest.raises(PredicateError, match=r"1e400 is out of the range of DECIMAL\(10,2\)"):
        bind("CAST('1e400' AS DECIMAL(10,2)) = 1", SCHEMA)
    assert holds("TRY_CAST(n AS DECIMAL(10,2)) IS NULL", table)


def test_a_double_beyond_all_floats_becomes_infinite_in_silence() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert holds("CAST(1e300D AS FLOAT) > 1")
        assert holds("CAST(-1e300D AS FLOAT) < 1")
        assert holds("CAST('1e39' AS FLOAT) = CAST('Infinity' AS FLOAT)")


EPOCHS = ("epoch", " EPOCH ", "epoch UTC", "Epoch\t+01:00", "epoch Europe/Berlin")


@pytest.mark.parametrize("text", EPOCHS)
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_the_epoch_is_the_first_of_january_1970_in_any_zone(text: str, zone: str) -> None:
    table = pa.table({"dt": pa.array([0], pa.int32()).cast(pa.date32())})
    for predicate in (
        f"CAST('{text}' AS DATE) = DATE'1970-01-01'",
        f"TRY_CAST('{text}' AS DATE) IS NOT NULL",
        f"DATE'{text}' = DATE'1970-01-01'",
        f"dt = '{text}'",
        f"dt IN ('{text}')",
        f"to_date('{text}') = dt",
        f"TIMESTAMP'{text}' = TIMESTAMP'1970-01-01 00:00:00Z'",
        f"CAST('{text}' AS TIMESTAMP_NTZ) = TIMESTAMP_NTZ'1970-01-01 00:00:00'",
        f"year(concat('{text}', '')) = 1970",
    ):
        assert matches(bind(predicate, SCHEMA, zone), table, {}).all(), predicate


@pytest.mark.parametrize("word", ["now", "today", "Tomorrow", "yesterday", "today +01:00"])
@pytest.mark.parametrize("to", ["DATE", "TIMESTAMP", "TIMESTAMP_NTZ"])
def test_a_word_for_the_present_day_is_refused_as_what_depends_on_the_moment(word: str, to: str) -> None:
    for predicate in (f"TRY_CAST('{word}' AS {to}) IS NULL", f"CAST('{word}' AS {to}) IS NULL"):
        with pytest.raises(PredicateError, match="depends on the moment"):
            bind(predicate, SCHEMA)
    with pytest.raises(PredicateError, match="depends on the moment"):
        bind(f"dt > '{word}'", SCHEMA)


@pytest.mark.parametrize(
    "text", ["now UTC", "epoch Nowhere", "epochUTC", "epochs", "ep", "\x7fepoch", "epoch\nUTC", "+epoch"]
)
def test_what_is_not_quite_such_a_word_is_malformed(text: str) -> None:
    assert holds(f"TRY_CAST('{text}' AS DATE) IS NULL")
    with pytest.raises(PredicateError, match="CAST_INVALID_INPUT"):
        bind(f"CAST('{text}' AS DATE) IS NULL", SCHEMA)


def test_in_a_column_the_epoch_and_today_are_malformed() -> None:
    table = pa.table({"n": pa.array(["epoch", "now", "today"])})
    for to in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"):
        assert holds(f"TRY_CAST(n AS {to}) IS NULL", table)
