"""The examples of docs/indexes.md are run."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

import tailbit
from support.tables import eight_flights

PAGE = Path(__file__).parents[2] / "docs" / "indexes.md"


def test_the_examples_of_the_page_of_indexes_print_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    eight_flights(str(tmp_path / "flights"))
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8").replace("```", "")
    test = doctest.DocTestParser().get_doctest(text, {"flights": tailbit.open("flights")}, "page", None, 0)
    printed: list[str] = []
    assert len(test.examples) >= 10
    assert not doctest.DocTestRunner().run(test, out=printed.append).failed, "".join(printed)
