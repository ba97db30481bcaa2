"""A random condition of any type and function has one answer, whatever of the table the index serves."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
from support.function_cells import rows
from support.profiles import SEED
from support.random_conditions import Conditions
from support.tables import index_of
from tailbit.errors import EvaluationError, PredicateError

INDEXED = ["b", "i", "l", "d", "f", "p", "s", "n", "t", "dt", "ts", "nt", "bo", "x"]


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The same rows, in four files with an index of the first three, and without an index."""
    folder = tmp_path_factory.mktemp("conditions")
    indexed, plain = str(folder / "indexed"), str(folder / "plain")
    rng = np.random.default_rng(SEED)
    table = rows()
    for number in range(4):
        order = {name: rng.permutation(table.num_rows) for name in table.column_names}
        mixed = pa.table({name: table[name].take(pa.array(at)) for name, at in order.items()})
        for path in (indexed, plain):
            write_deltalake(path, mixed, mode="append")
        if number == 2:
            index_of(indexed, INDEXED)
    return indexed, plain


def asked(table: tailbit.IndexedTable, text: str) -> list[str] | str:
    """The matching rows, in any order; the error class where one is raised."""
    try:
        answer = table.where(text)
        found = answer.read(["row", "s", "i", "dt"]).to_pylist()
        assert answer.count() == len(found)
        return sorted(map(str, found))
    except EvaluationError as error:
        return str(error.fields["error"])


def test_a_random_condition_has_the_same_answer_with_and_without_an_index(paths: tuple[str, str]) -> None:
    indexed, plain = (tailbit.open(path) for path in paths)
    made = Conditions(random.Random(SEED + 1))
    raised = 0
    for _ in range(60):
        text = made.tree(made.rng.randint(0, 3)).text
        try:
            mine, theirs = asked(indexed, text), asked(plain, text)
        except PredicateError:
            continue
        raised += isinstance(mine, str)
        if isinstance(mine, str) or isinstance(theirs, str):
            assert isinstance(mine, str), text
            assert isinstance(theirs, str), text
        else:
            assert mine == theirs, text
    assert raised < 30


def test_a_condition_its_negation_and_its_null_add_up_to_the_table(paths: tuple[str, str]) -> None:
    indexed = tailbit.open(paths[0])
    whole = indexed.where().count()
    made = Conditions(random.Random(SEED + 2))
    checked = 0
    for _ in range(60):
        text = made.tree(made.rng.randint(0, 2)).text
        try:
            parts = [indexed.where(shape).count() for shape in (text, f"NOT {text}", f"{text} IS NULL")]
        except (PredicateError, EvaluationError):
            continue
        checked += 1
        assert sum(parts) == whole, text
        assert indexed.where(f"{text} OR i = 1").count() >= parts[0], text
    assert checked > 20
