"""Words between arguments are commas, and only where Spark's grammar has them."""

from __future__ import annotations

import pytest

from tailbit.errors import PredicateError
from tailbit.index.sql.text import parse_predicate


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("substring(s FROM 1 FOR 2) = 'a'", "substring(s  ,   1 ,   2) = 'a'"),
        ("substr(s, 1 FOR 2) = 'a'", "substr(s, 1,   2) = 'a'"),
        ("position('a' IN s) = 1", "position('a' ,  s) = 1"),
        ("position('a' IN substring(s FROM 2)) = 1", "position('a' ,  substring(s ,   2)) = 1"),
    ],
)
def test_words_between_arguments_are_commas(text: str, same: str) -> None:
    assert parse_predicate(text).tree == parse_predicate(same).tree


@pytest.mark.parametrize(
    "text", ["substring(s FOR 2) = 'a'", "substring(s, 1 FROM 2) = 'a'", "left(s FROM 2) = 'a'"]
)
def test_words_elsewhere_are_no_commas(text: str) -> None:
    with pytest.raises(PredicateError):
        parse_predicate(text)
