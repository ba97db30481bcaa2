"""Functions of texts: which of them are read exactly."""

from __future__ import annotations

import pyarrow as pa
import pytest

from support.function_cells import schema
from support.truth import matches
from tailbit.errors import EvaluationError, PredicateError
from tailbit.index.sql.bind import bind

NEVER = [*range(0xFDD0, 0xFDF0), *(plane << 16 | last for plane in range(17) for last in (0xFFFE, 0xFFFF))]


@pytest.mark.parametrize("text", ["s ILIKE 'AÄ_'", "lower(s) LIKE 'aä_'", "upper(s) LIKE 'AÄ_'"])
def test_a_noncharacter_has_no_case_and_never_will(text: str) -> None:
    rows = pa.table({"s": [f"aÄ{chr(code)}" for code in NEVER]})
    assert matches(bind(text, schema()), rows, {}).all()


def test_a_character_that_is_not_assigned_yet_may_have_another_case_to_java() -> None:
    with pytest.raises(EvaluationError, match="NOT_READ_EXACTLY"):
        matches(bind("lower(s) = 'x'", schema()), pa.table({"s": ["\U000e0fff"]}), {})


@pytest.mark.parametrize("text", ["s LIKE '%c'", "s LIKE 'a%c'", "s LIKE '%c%'", "endswith(s, 'c')"])
def test_the_bytes_of_a_text_that_is_not_utf_8_are_compared_as_spark_does(text: str) -> None:
    bytes_ = pa.array([b"a\xe4c", b"a\xe4", None])
    texts = pa.Array.from_buffers(pa.string(), 3, bytes_.buffers())
    assert matches(bind(text, schema()), pa.table({"s": texts}), {}).tolist() == [True, False, False]


def test_a_beginning_and_an_end_of_a_pattern_do_not_overlap() -> None:
    rows = pa.table({"s": ["aba", "ababa", "äb", "äbäb", "", None]})
    assert matches(bind("s LIKE 'ab%ba'", schema()), rows, {}).tolist() == [False, True, *[False] * 4]
    assert matches(bind("s LIKE 'äb%'", schema()), rows, {}).tolist() == 2 * [False] + [
        True,
        True,
        False,
        False,
    ]
    assert matches(bind("s LIKE '%'", schema()), rows, {}).tolist() == [True] * 5 + [False]


NOT_UTF_8 = pa.array([b"ab\xff", b"ab", b"\xc3", None], pa.binary()).view(pa.string())


@pytest.mark.parametrize(
    "text",
    [
        *(
            "length(s) = 3",
            "substring(s, 2, 1) = 'b'",
            "right(s, 1) = 'b'",
            "trim(s) = 'ab'",
            "upper(s) = 'AB'",
        ),
        *("instr(s, 'b') = 2", "locate('b', s, 2) = 2", "lpad(s, 3, 'x') = 'xab'", "btrim(s, 'a') = 'b'"),
        *(
            "translate(s, 'a', 'b') = 'bb'",
            "reverse(s) = 'ba'",
            "ascii(s) = 97",
            "s LIKE 'ab_'",
            "s RLIKE 'a.'",
        ),
        *("CAST(s AS DATE) IS NULL", "TRY_CAST(s AS INT) IS NULL", "length(concat_ws('-', s, 'x')) = 4"),
    ],
)
def test_the_characters_of_bytes_that_are_no_utf_8_are_not_read(text: str) -> None:
    with pytest.raises(EvaluationError, match="NOT_READ_EXACTLY where s = ab"):
        matches(bind(text, schema()), pa.table({"s": NOT_UTF_8}), {})


@pytest.mark.parametrize(
    "text", ["left(s, 2) = 'ab'", "greatest(s, 'ab') = s", "replace(s, '!', 'x') || '' >= 'ab'"]
)
def test_functions_that_take_bytes_take_those_that_are_no_utf_8(text: str) -> None:
    assert matches(bind(text, schema()), pa.table({"s": NOT_UTF_8[:2]}), {}).tolist() == [True, True]


def test_a_character_is_taken_away_where_translate_puts_the_character_nul() -> None:
    rows = pa.table({"s": ["abc", "a", "b"]})
    assert matches(bind("translate(s, 'a', '\\0') = substring(s, 2)", schema()), rows, {}).tolist() == [
        True,
        True,
        False,
    ]


def test_characters_are_taken_away_alike_whether_they_are_a_constant_or_a_column() -> None:
    sides = [("aéab", "aé"), ("𝄞x𝄞", "𝄞"), (" a ", ""), ("aa", "a"), ("", "a"), ("\0a\0", "\0"), ("ba", "ab")]
    for text, chars in sides:
        rows = pa.table({"s": [text, None], "n": [chars, chars]})
        for side in ("BOTH", "LEADING", "TRAILING"):
            constant = chars.replace("\0", "\\0")
            node = bind(f"trim({side} '{constant}' FROM s) <=> trim({side} n FROM s)", schema())
            assert matches(node, rows, {}).all()


@pytest.mark.parametrize(
    "asked",
    [
        r"s RLIKE '[\\t-\\d]'",
        r"s RLIKE '[a-\\w]'",
        "s RLIKE '[b-a]'",
        "regexp_extract(s, '(|[Z-*])', 1) = ''",
        "split_part(s, 'a', 2147483648) = ''",
        "split_part(s, 'a', -2147483648) = ''",
    ],
)
def test_a_range_and_a_number_of_a_part_that_java_refuses_are_refused(asked: str) -> None:
    with pytest.raises(PredicateError, match="is not read"):
        bind(asked, schema())
