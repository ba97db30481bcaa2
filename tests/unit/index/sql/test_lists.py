"""Items of a list that have one form are read together, and mean what each means by itself."""

from __future__ import annotations

import json
import random
from functools import reduce

import pytest

from tailbit.errors import PredicateError
from tailbit.index.predicate.tree import Leaf
from tailbit.index.predicate.value_sets import ValueSet
from tailbit.index.sql.bind import bind
from tailbit.index.sql.syntax.parser import Parser, parse_predicate
from tailbit.index.sql.syntax.tokens import tokens_of
from tailbit.index.sql.syntax.tree import Listed, Tree
from tailbit.tables.delta.schema import parse_schema

TYPES = {
    "n": "long", "i": "integer", "s": "string", "p": "double", "f": "float", "a": "decimal(12,2)",
    "d": "date", "t": "timestamp", "b": "binary", "c": "boolean",
}  # fmt: skip
SCHEMA = parse_schema(
    json.dumps(
        {
            "type": "struct",
            "fields": [
                {"name": name, "type": type_, "nullable": True, "metadata": {}}
                for name, type_ in TYPES.items()
            ],
        }
    ),
    [],
    {},
    "test",
)

WHOLE = ["7", "-7", "- 7", "+7", "(7)", "((-8))", "3000000000", "-3000000000", "007", "9L", "8S", "-3Y"]
CAST = [
    "CAST(7 AS BIGINT)",
    "CAST('-9' AS INT)",
    "'11'::BIGINT",
    "CAST(1.9 AS INT)",
    "TRY_CAST('x' AS INT)",
    "-(6)",
]
LISTS = {
    "n": [*WHOLE, *CAST, "NULL"],
    "i": [*WHOLE, *CAST, "NULL"],
    "a": [
        *WHOLE, "1.50", "-1.5", ".25", "3.", "1.250", "0.00", "00.05", "2BD", "1234567890.99",
        "CAST('4.5' AS DECIMAL(5,1))",
    ],
    "p": ["1", "-2", "1.5D", "-1.5D", "2e3", "-0.0D", "0D", "CAST('NaN' AS DOUBLE)", "1.25F", "NULL"],
    "f": ["1.5F", "-2.25F", "3", "NULL"],
    "s": [
        "'a'", "'it''s'", r"'a\nb'", '"b"', "'a' 'b'", "r'x'", "''", "'Ä'", r"'\u00c4'", "(('q'))", "NULL",
        "CAST(7 AS STRING)",
    ],
    "d": [
        "DATE'2026-01-31'", "DATE '2026-2-1'", "'2026-03-01'", "CAST('2026-04-01' AS DATE)", "NULL",
        "DATE'-0044-03-15'",
    ],
    "t": ["TIMESTAMP'2026-01-31 10:00:00'", "TIMESTAMP'2026-01-31T10:00:00+02:00'", "'2026-05-01'", "NULL"],
    "b": ["X'1F'", "x'0a0b'", "X''", "X'abc'", "CAST('a' AS BINARY)"],
    "c": ["TRUE", "false", "NULL"],
}  # fmt: skip


def truth(text: str) -> tuple[ValueSet, ValueSet]:
    node = bind(text, SCHEMA)
    return (node.true, node.false) if isinstance(node, Leaf) else (ValueSet(), ValueSet())


@pytest.mark.parametrize("column", LISTS)
def test_a_list_has_the_values_of_its_items_whatever_their_forms(column: str) -> None:
    rng = random.Random(column)
    for _ in range(60):
        items = rng.choices(LISTS[column], k=rng.randint(1, 12))
        gap = rng.choice([" ", "", "\n ", " /* a, b) */ ", " -- it's\n"])
        try:
            singles = [truth(f"{column} IN ({item})")[0] for item in items]
            true, false = truth(f"{column} IN ({f'{gap},{gap}'.join(items)})")
        except PredicateError:
            continue
        assert true == reduce(ValueSet.union, singles), items
        assert false == (ValueSet() if any(not one.intervals for one in singles) else true.others()), items


@pytest.mark.parametrize(
    ("items", "forms", "others"),
    [
        ([str(n) for n in range(500)], 1, 0),
        ([str(-n) if n % 2 else str(n) for n in range(500)], 2, 0),
        ([f"'{n}'" for n in range(500)], 1, 0),
        ([f"DATE'2026-01-{1 + n % 28:02d}'" for n in range(500)], 1, 0),
        ([f"CAST({n} AS DECIMAL(12, 2))" for n in range(500)], 1, 0),
        ([f"({n}.25)" if n % 3 else "NULL" for n in range(500)], 2, 0),
        ([f"{n} + 1" for n in range(500)], 0, 500),
        ([f"'a' '{n}'" for n in range(500)], 0, 500),
    ],
)
def test_the_grammar_reads_the_first_item_of_a_form_alone(items: list[str], forms: int, others: int) -> None:
    listed = parse_predicate(f"x IN ({', '.join(items)})").items
    assert isinstance(listed, Listed)
    assert (len(listed), len(listed.alike), len(listed.others)) == (len(items), forms, others)


def test_the_tree_of_an_item_is_that_of_the_grammar_with_its_place() -> None:
    items = ["1", " - 2", "CAST( '3' AS  INT)", "CAST('4' AS INT)", "a + 1", "5", "f(6, 7)", "(8)", "( 9 )"]
    text = f"x IN ({','.join(items)})"
    listed = parse_predicate(text).items
    for item, tree in zip(items, listed, strict=True):
        at = text.index(item) + len(item) - len(item.lstrip())
        assert (tree.start, tree.end) == (at, at + len(item.strip()))
        assert kinds(tree) == kinds(Parser(item, tokens_of(item)).whole())


def kinds(tree: Tree) -> list[object]:
    parts = [part for part in (tree.first, tree.second, *tree.items) if part is not None]
    return [tree.kind, tree.text, tree.constant, *map(kinds, parts)]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("d IN (DATE'2026-01-01', DATE'2026-01-02', DATE'2026-13-01')", "DATE'2026-13-01'"),
        ("i IN (CAST('1' AS INT), CAST('2' AS INT), CAST('x' AS INT))", "CAST('x'"),
        ("i IN (1, 2, 3, 1e999)", "1e999"),
        ("i IN (1Y, 2Y, 300Y)", "300Y"),
        ("b IN (X'00', X'0g')", "X'0g'"),
        ("i IN (1, 2, 3 4)", "4"),
        ("i IN (1, 2, ,)", ",)"),
        ("i IN (1, 2,)", ")"),
        ("i IN (1, 2", "2"),
    ],
)
def test_an_item_that_is_refused_is_told_with_its_place(text: str, wrong: str) -> None:
    with pytest.raises(PredicateError) as refused:
        bind(text, SCHEMA)
    assert refused.value.fields["at"] == text.rindex(wrong)


def test_a_form_with_numbers_in_its_type_is_another_form_for_other_numbers() -> None:
    items = ["CAST(1.27 AS DECIMAL(5, 2))", "CAST(1.27 AS DECIMAL(5, 1))", "CAST(2.27 AS DECIMAL(5, 1))"]
    true, _ = truth(f"a IN ({', '.join(items)})")
    assert [interval.lo for interval in true.intervals] == [127, 130, 230]
