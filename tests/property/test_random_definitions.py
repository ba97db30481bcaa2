"""A random condition has one answer, whatever expressions are indexed, and in whatever files."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
from support.function_cells import rows
from support.implications import TERMS, Cases, term
from support.profiles import FACTOR, SEED
from tailbit.api import IndexedTable
from tailbit.errors import EvaluationError, TailbitError

INDEXES = 12
"""The number of indexed expressions: the more, the likelier is it that several serve a condition."""


def append(rng: np.random.Generator, *paths: str) -> None:
    """Add the rows of every edge value, each column in an order of its own, to some tables."""
    table = rows()
    order = {name: rng.permutation(table.num_rows) for name in table.column_names}
    mixed = pa.table({name: table[name].take(pa.array(at)) for name, at in order.items()})
    for path in paths:
        write_deltalake(path, mixed, mode="append")


def matching(table: IndexedTable, text: str) -> list[str] | str:
    """The rows where a condition is TRUE, in any order; that it raises, where it does."""
    try:
        answer = table.where(text)
        found = answer.read(["row", "s", "i", "dt"]).to_pylist()
        assert answer.count() == len(found), text
    except EvaluationError:
        return "raises"
    return sorted(map(str, found))


@pytest.mark.parametrize("part", range(2))
def test_a_random_condition_has_the_same_answer_with_indexed_expressions_and_without(
    tmp_path: Path, part: int
) -> None:
    rng, order = random.Random(2 * SEED + part), np.random.default_rng(2 * SEED + part)
    indexed, plain = str(tmp_path / "indexed"), str(tmp_path / "plain")
    append(order, indexed, plain)
    texts = rng.sample(TERMS, INDEXES)
    for number, text in enumerate(texts):
        tailbit.open(indexed).create_index(f"e{number}", text)
    append(order, indexed, plain)
    if part:
        tailbit.open(indexed).repair()
    append(order, indexed, plain)
    asked, scanned, cases, answers = tailbit.open(indexed), tailbit.open(plain), Cases(rng), 0
    while answers < 40 * FACTOR:
        text = rng.choice(texts)
        shapes = [cases.text(term(text), text) for _ in range(rng.choice((1, 1, 2)))]
        condition = rng.choice((" AND ", " OR ")).join(f"({shape})" for shape in shapes)
        try:
            wanted = matching(scanned, condition)
        except TailbitError:
            continue
        answers += 1
        assert matching(asked, condition) == wanted, (condition, texts)
