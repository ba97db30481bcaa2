"""Words between arguments are commas, and only where Spark's grammar has them."""

from __future__ import annotations

import pytest

from tailbit.errors import PredicateError
from tailbit.index.sql.syntax.parser import parse_predicate
from tailbit.index.sql.syntax.tree import Tree


def shape(tree: Tree | None) -> object:
    """A tree without the places in its text."""
    return None if tree is None else (tree.kind, tree.text, shape(tree.first), [shape(i) for i in tree.items])


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
    assert shape(parse_predicate(text)) == shape(parse_predicate(same))


@pytest.mark.parametrize(
    "text", ["substring(s FOR 2) = 'a'", "substring(s, 1 FROM 2) = 'a'", "left(s FROM 2) = 'a'"]
)
def test_words_elsewhere_are_no_commas(text: str) -> None:
    with pytest.raises(PredicateError):
        parse_predicate(text)
