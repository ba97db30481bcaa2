"""The page about Spark says of every expression that the rule puts into words what a session may change."""

from __future__ import annotations

import re
from pathlib import Path

import tailbit.spark
from tailbit.index.functions.table import OPERATIONS
from tailbit.spark.helper import difference

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"
WORDS = Path(tailbit.spark.__file__).parent / "java" / "Words.java"
MOST = 0x20000


def expressions_in_words() -> set[str]:
    """Return the classes of Catalyst's expressions that the rule knows."""
    named = re.findall(r"\b([A-Z]\w+)\.class|instanceof ([A-Z]\w+)", WORDS.read_text(encoding="utf-8"))
    return {name for pair in named for name in pair if name and not name.endswith("Type")}


def test_the_page_lists_every_expression_that_is_put_into_words() -> None:
    section = PAGE.read_text(encoding="utf-8").split("## What the session decides")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == expressions_in_words()


def test_the_functions_in_words_that_depend_on_the_session_are_those_that_are_asked() -> None:
    names = {"Lower": "lower", "Upper": "upper", "Length": "length", "Year": "year", "Month": "month"}
    names |= {"DayOfMonth": "day", "StartsWith": "startswith", "EndsWith": "endswith", "Contains": "contains"}
    known = {names[name] for name in expressions_in_words() if name in names}
    assert {name for name in known if OPERATIONS[name].causes} == {"lower", "upper"}


def letters(function: str) -> dict[str, str]:
    """Return the letters of a session that has Python's."""
    turned = str.lower if function == "lower" else str.upper
    own = (chr(code) for code in range(MOST) if not 0xD800 <= code < 0xE000)
    return {letter: turned(letter) for letter in own if turned(letter) != letter}


def test_the_same_letters_do_not_differ() -> None:
    assert [difference(function, letters(function), MOST) for function in ("lower", "upper")] == ["", ""]


def test_a_letter_that_a_session_has_otherwise_or_lacks_is_told() -> None:
    turkish = letters("lower") | {"I": "ı"}
    assert difference("lower", turkish, MOST) == r"'I' is '\u0131', not 'i'"
    older = {letter: other for letter, other in letters("lower").items() if letter != "Ⱟ"}
    assert difference("lower", older, MOST) == r"'\u2c2f' is '\u2c2f', not '\u2c5f'"


def test_a_letter_in_its_context_is_compared() -> None:
    assert difference("lower", letters("lower") | {"ΑΣ": "ας"}, MOST) == ""
    assert difference("lower", letters("lower") | {"ΑΣ": "ασ"}, MOST) != ""
