"""What functions give for all texts at once is what they give one by one."""

from __future__ import annotations

import hashlib
import zlib
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tailbit.index.expression.evaluate import evaluate
from tailbit.index.functions import dates, digests, groups
from tailbit.index.functions.tree import Call, Expression, Ref
from tailbit.index.functions.vectors import ERRORS, Vector, per_distinct
from tailbit.index.keys import bytes_of, texts_of
from tailbit.index.values.literals import BINARY, LONG, STRING, Literal, NotRead
from tailbit.tables.model import Column, DataType

INTEGER = DataType("integer")
CHARACTERS = st.sampled_from("aabb--..xA0 9é€😀\u0000\n\r\u2028\uffff")
WORDS = st.text(CHARACTERS, max_size=12)
TEXTS = st.lists(st.none() | WORDS, max_size=12)
PARTS = st.text(st.sampled_from("ab-.é€😀\u0000"), max_size=3)
COUNTS = st.integers(-4, 12)
TEXT = Ref(Column(("s",), ("s",), STRING))


def column_of(constant: Any, name: str) -> tuple[Literal, Ref]:
    """A constant, and a column that holds nothing else."""
    if isinstance(constant, str):
        return Literal(STRING, constant.encode()), Ref(Column((name,), (name,), STRING))
    return Literal(INTEGER, constant), Ref(Column((name,), (name,), INTEGER))


def both(name: str, texts: list[str | None], *constants: Any, setting: tuple[Any, ...] = ()) -> None:
    """Make sure that a function of texts and constants gives what it does of columns of these constants."""
    pairs = [column_of(constant, f"c{n}") for n, constant in enumerate(constants)]
    type_ = INTEGER if name in ("locate", "instr") else STRING
    columns = {"s": pa.array(["odd", *texts], pa.string())[1:]}
    for (_, ref), constant in zip(pairs, constants, strict=True):
        arrow = pa.string() if isinstance(constant, str) else pa.int32()
        columns[ref.column.id] = pa.array([constant] * len(texts), arrow)
    at_once, one_by_one = (
        evaluate(
            Call(name, placed(name, [pair[side] for pair in pairs]), type_, setting), columns, len(texts)
        )
        for side in (0, 1)
    )
    assert stored(at_once) == stored(one_by_one)


def placed(name: str, args: list[Expression]) -> tuple[Expression, ...]:
    return (args[0], TEXT, *args[1:]) if name == "locate" else (TEXT, *args)


def stored(found: Vector) -> tuple[list[Any], list[int]]:
    found.values.validate(full=True)
    values = found.values.to_pylist()
    return values, [0] * len(values) if found.raised is None else found.raised.tolist()


@given(TEXTS, PARTS, COUNTS)
@example(["a-b-c", "", None, "a"], "-", -2)
@example(["aaa"], "aa", -1)
def test_pieces_of_a_text_are_those_of_one_by_one(texts: list[str | None], part: str, n: int) -> None:
    both("substring_index", texts, part, n)
    if n:
        both("split_part", texts, part, setting=(n,))


@given(TEXTS, COUNTS, PARTS)
def test_texts_are_filled_up_and_searched_as_one_by_one(texts: list[str | None], n: int, part: str) -> None:
    both("lpad", texts, n, part)
    both("rpad", texts, n, part)
    both("locate", texts, part, n)


@given(TEXTS, PARTS, PARTS)
def test_characters_are_translated_as_one_by_one(texts: list[str | None], from_: str, to: str) -> None:
    both("translate", texts, from_, to)


@given(TEXTS, st.sampled_from(["-", "b", "\\.", "a\\.", "ab"]), st.integers(-4, 4))
def test_a_split_by_a_text_is_one_by_a_pattern_that_finds_that_text(
    texts: list[str | None], pattern: str, n: int
) -> None:
    for name, setting, type_ in (
        ("split item", (n, "INVALID_ARRAY_INDEX"), STRING),
        ("split size", (), INTEGER),
    ):
        at_once, one_by_one = (
            evaluate(
                Call(name, (TEXT, Literal(STRING, spelled.encode())), type_, setting),
                {"s": pa.array(texts, pa.string())},
                len(texts),
            )
            for spelled in (pattern, f"(?:{pattern})")
        )
        assert stored(at_once) == stored(one_by_one)


ATOMS = st.sampled_from(
    ["a", "b", "é", ".", "-", r"\d", r"\W", r"\s", "[a-b]", "[^a]", "[^-b]", "[é-€]", "\\."]
)
TIMES = st.sampled_from(["", "", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,2}?", "{0}"])
ITEMS = st.builds(lambda atom, times: atom + times, ATOMS, TIMES)
PATTERNS = st.recursive(
    ITEMS | st.sampled_from(["^", "$", ""]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map("|".join),
        inner.map(lambda within: f"({within})"),
        inner.map(lambda within: f"(?:{within})"),
        inner.map(lambda within: f"({within})?"),
    ),
    max_leaves=8,
)


@given(TEXTS, st.builds(lambda folded, rest: folded + rest, st.sampled_from(["", "", "(?i)"]), PATTERNS))
@example(["b", "ab", ""], "(a|(b))")
@example(["xab"], "(a|ab)(b|)")
def test_a_pattern_finds_the_same_in_all_texts_as_in_one(texts: list[str | None], pattern: str) -> None:
    try:
        compiled = groups.groups_of(pattern)
    except NotRead:
        assume(False)
    rows = pa.array(texts, pa.string())
    for group in range(compiled.groups + 1):
        call = Call("regexp_extract", (TEXT, Literal(STRING, pattern.encode())), STRING, (group,))
        one_by_one = groups.each_found(call, rows, partial(groups._group, group))
        assert stored(groups.extracted(call, [rows])) == stored(one_by_one)
    if compiled.search("") is not None:
        return
    parts = ("<\\", *range(min(compiled.groups, 9) + 1), "1>")
    for setting in (parts, ("\\0",), ()):
        call = Call("regexp_replace", (TEXT, Literal(STRING, pattern.encode())), STRING, setting)
        one_by_one = groups.each_found(call, rows, partial(groups._substituted, setting))
        assert stored(groups.substituted(call, [rows])) == stored(one_by_one)


@pytest.mark.parametrize("type_", [STRING, BINARY], ids=str)
@given(st.lists(st.none() | st.binary(max_size=70), max_size=8))
def test_digests_are_those_of_each_value(type_: DataType, values: list[bytes | None]) -> None:
    rows = pa.array([b"odd", *values], pa.binary())[1:]
    rows = rows.view(pa.string()) if type_ == STRING else rows
    for name in ("md5", "sha1", "sha224", "sha256", "sha384", "sha512"):
        call = Call("digest", (Ref(Column(("s",), ("s",), type_)),), STRING, (name,))
        expected = [None if v is None else hashlib.new(name, v).hexdigest() for v in values]
        assert digests.digest(call, [rows]).values.to_pylist() == expected
    crc = Call("digest", (TEXT,), LONG, ("crc32",))
    assert digests.digest(crc, [rows]).values.to_pylist() == [
        v if v is None else zlib.crc32(v) for v in values
    ]
    hexed = digests.digest(Call("digest", (TEXT,), STRING, ("hex",)), [rows]).values
    assert hexed.to_pylist() == [v if v is None else v.hex().upper() for v in values]


@given(st.lists(st.none() | st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-300, 300)))
def test_hex_of_whole_numbers_is_that_of_their_64_bits(numbers: list[int | None]) -> None:
    call = Call("hex", (Ref(Column(("l",), ("l",), LONG)),), STRING)
    expected = [None if n is None else f"{n % (1 << 64):X}" for n in numbers]
    assert digests.hex_of_whole(call, [pa.array(numbers, pa.int64())]).values.to_pylist() == expected


@given(st.lists(st.none() | st.binary(max_size=9)), st.integers(0, 3))
def test_texts_taken_apart_and_put_together_are_the_same(values: list[bytes | None], first: int) -> None:
    rows = pa.array(values, pa.binary())[first:]
    null = np.array([v is None for v in values[first:]], np.bool_)
    assert texts_of(*bytes_of(rows), null, pa.binary()).equals(rows)


LAST = datetime.fromisoformat("9999-12-31T23:59:59.999999")
NAMED = {"E": "%a", "EE": "%a", "EEE": "%a", "EEEE": "%A", "MMM": "%b", "MMMM": "%B", "a": "%p"}


def written_one(at: datetime, part: str) -> str:
    if part[0] == dates.QUOTE:
        return part[1:]
    if part in NAMED:
        return at.strftime(NAMED[part])
    if part[0] == "S":
        return f"{at.microsecond:06d}"[: len(part)]
    number = {
        "y": at.year % 100 if part == "yy" else at.year,
        "M": at.month,
        "d": at.day,
        "D": at.timetuple().tm_yday,
        "Q": (at.month + 2) // 3,
        "H": at.hour,
        "h": (at.hour - 1) % 12 + 1,
        "m": at.minute,
        "s": at.second,
    }[part[0]]
    return str(number).zfill(len(part))


@given(
    st.lists(st.sampled_from([*dates.WRITTEN, "'-", "'é ", "':"]), max_size=8),
    st.datetimes(),
    st.lists(st.none() | st.integers(0, 10**8), max_size=30),
    st.sampled_from([1, 10**4, 10**6, 10**11]),
)
def test_times_are_written_as_python_writes_them(
    parts: list[str], first: datetime, steps: list[int | None], unit: int
) -> None:
    last = (LAST - first) // timedelta(microseconds=1)
    times = [None if n is None else first + timedelta(microseconds=min(n * unit, last)) for n in steps]
    rows = pa.array(times, pa.timestamp("us"))
    found = dates.written(np.asarray(rows.cast(pa.int64()).fill_null(1 << 62)), parts, rows, None)
    assert found.raised is None
    assert found.values.to_pylist() == [
        None if at is None else "".join(written_one(at, part) for part in parts) for at in times
    ]


def test_years_of_other_than_four_digits_are_not_read() -> None:
    days = np.array([-719_529, -719_528, 2_932_896, 2_932_897], np.int64)
    rows = pa.array(days)
    found = dates.written(days * 86_400_000_000, ["yyyy", "MM", "dd"], rows, None)
    assert found.raised is not None
    assert [ERRORS[code] for code in found.raised] == ["NOT_READ_EXACTLY", "", "", "NOT_READ_EXACTLY"]
    assert found.values.to_pylist()[1:3] == ["00000101", "99991231"]


FIELDS = {
    "yyyy": ["2024", "0000", "9999", "1900", "+2024", "-0001"],
    "yy": ["24", "00"],
    **{key: ["01", "02", "12", "13", "00", "30", "31", "29"] for key in ("MM", "dd")},
    **{key: ["1", "2", "12", "13", "0", "31", "29", "0000000007", "1234567890"] for key in ("M", "d")},
    **{key: ["00", "23", "59", "60"] for key in ("HH", "mm", "ss")},
    **{key: ["0", "23", "059", "60", "0000000000000000001"] for key in ("H", "m", "s")},
    "SSS": ["1", "12", "123", "000"],
    "SSSSSS": ["5", "123456"],
}
SIGNS = ["'-", "'/", "' ", "'T", "'é", "'7"]


@st.composite
def formats_and_texts(draw: st.DrawFn) -> tuple[tuple[str, ...], list[str | None]]:
    """A format without a field twice, and texts that have it or nearly so."""
    fields = draw(st.lists(st.sampled_from(list(FIELDS)), max_size=6, unique_by=lambda field: field[0]))
    parts = [part for field in fields for part in (field, draw(st.sampled_from(["", *SIGNS])))]
    parts = [part for part in parts if part]
    one = st.tuples(
        *(st.just(part[1:]) if part[0] == dates.QUOTE else st.sampled_from(FIELDS[part]) for part in parts)
    ).map("".join)
    odd = one.flatmap(lambda text: st.sampled_from([text + "\n", text[:-1], text.lower(), "1" + text]))
    return tuple(parts), draw(st.lists(st.none() | one | odd, max_size=10))


@given(formats_and_texts(), st.booleans())
@example((("yyyy", "'-", "M", "'-", "d"), ["2023-2-29", "2024-2-29", None, "2024-2-000000000000029"]), False)
def test_times_are_read_of_all_texts_as_one_by_one(
    given: tuple[tuple[str, ...], list[str | None]], tried: bool
) -> None:
    parts, texts = given
    rows = pa.array(["odd", *texts], pa.string())[1:]
    type_ = DataType("timestamp_ntz")
    call = Call("parsed time", (TEXT,), type_, ("try" if tried else "", "UTC", *parts))
    pattern = dates._pattern(parts)
    one_by_one = per_distinct(
        [rows], [STRING], type_, lambda text: dates._micros(pattern, text.decode(), tried)
    )
    mine = dates.parsed(call, [rows])
    codes = [np.zeros(len(rows)) if found.raised is None else found.raised for found in (mine, one_by_one)]
    assert np.array_equal(*codes)
    assert mine.values.cast(pa.int64()).equals(one_by_one.values.cast(pa.int64()))
