"""Functions of texts: which of them are read exactly."""

from __future__ import annotations

import pyarrow as pa
import pytest

from support.function_cells import schema
from support.truth import matches
from tailbit.errors import EvaluationError
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
