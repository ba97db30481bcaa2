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
