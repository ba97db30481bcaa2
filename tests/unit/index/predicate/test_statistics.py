"""Bounds of columns judged against every value between them."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from tailbit.index.predicate.pruning import ColumnBounds
from tailbit.index.predicate.tree import Leaf
from tailbit.index.sql.bind import bind
from tailbit.tables.delta.schema import parse_schema
from tailbit.tables.model import FileBounds

FIELDS = [{"name": "x", "type": "integer", "nullable": True, "metadata": {}}]
SCHEMA = parse_schema(json.dumps({"type": "struct", "fields": FIELDS}), (), {}, "test")
COLUMN = SCHEMA.resolve("x")
CONDITIONS = [
    "x = 5",
    "x <> 5",
    "x < 5",
    "x >= 5",
    "x BETWEEN 3 AND 6",
    "x IN (1, 4, 5, 8)",
    "x NOT IN (1, 4, 5, 8)",
    "x IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 15, 17, 19)",
    "x IS NULL",
    "x IS NOT NULL",
    "x < 3 OR x IS NULL",
    "NOT (x BETWEEN 3 AND 6) OR x IS NULL",
]


def stated(rng: random.Random) -> tuple[FileBounds | None, list[int | None]]:
    """Return what is stated of a file, and values that the file may hold."""
    low, high = sorted(rng.choices(range(10), k=2))
    nulls = rng.choice([0, 0, 2, 9, None])
    if nulls == 9:
        return FileBounds(None, None, 9, 9), [None]
    values: list[int | None] = [*range(low, high + 1), *([] if nulls == 0 else [None])]
    return rng.choice([FileBounds(low, high, nulls, 9)] * 5 + [None]), values


def leaf_of(text: str) -> Leaf:
    node = bind(text, SCHEMA)
    assert isinstance(node, Leaf)
    return node


@pytest.mark.parametrize("text", CONDITIONS)
def test_a_file_may_or_surely_matches_as_the_values_between_its_bounds_do(text: str) -> None:
    rng, leaf = random.Random(text), leaf_of(text)
    files = [stated(rng) for _ in range(200)]
    bounds = ColumnBounds.of(COLUMN, [of_file for of_file, _ in files])
    for (of_file, values), may, surely in zip(
        files, bounds.can_match(leaf), bounds.all_match(leaf), strict=True
    ):
        true = [leaf.true.contains(value) for value in values]
        assert may or not any(true), of_file
        assert all(true) or not surely, of_file
        # Bounds are those of a line: between two whole numbers of a list lie others.
        if of_file is not None and of_file.null_count is not None and "IN (" not in text:
            assert (bool(may), bool(surely)) == (any(true), all(true)), of_file


@pytest.mark.parametrize("text", CONDITIONS)
def test_bounds_as_numbers_and_as_ranks_judge_alike(text: str) -> None:
    rng, leaf = random.Random(text), leaf_of(text)
    known = [of_file for of_file, _ in (stated(rng) for _ in range(50))]
    ends = [(None, None) if b is None else (b.min, b.max) for b in known]
    bounded = np.array([low is not None for low, _ in ends])
    nulls = np.array([b is None or b.null_count != 0 for b in known])
    only = np.array([b is not None and b.null_count == 9 for b in known])
    low, high = (np.array([end[n] or 0 for end in ends], dtype=np.int64) for n in (0, 1))
    numbers, ranks = ColumnBounds.of_numbers(low, high, bounded, nulls, only), ColumnBounds.of(COLUMN, known)
    assert (numbers.can_match(leaf) == ranks.can_match(leaf)).all()
    assert (numbers.all_match(leaf) == ranks.all_match(leaf)).all()


def test_nothing_matches_where_there_are_no_files_or_no_values_are_wanted() -> None:
    leaf = leaf_of("x = 5")
    assert not len(ColumnBounds.of(COLUMN, []).can_match(leaf))
    assert not len(ColumnBounds.of(COLUMN, []).all_match(leaf))
