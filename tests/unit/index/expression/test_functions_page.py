"""The page of functions says what is read, and every function is judged."""

from __future__ import annotations

from pathlib import Path

from support.function_cells import CELLS
from support.functions_page import page, read
from tailbit.index.expression.calls import names

PAGE = Path(__file__).parents[4] / "docs" / "functions.md"


def test_the_page_of_functions_is_made_from_what_is_judged() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: make functions-page"


def test_every_function_is_judged_by_spark() -> None:
    assert set(names()) <= set(CELLS)
    assert [name for name, texts in CELLS.items() if not any(map(read, texts))] == []
