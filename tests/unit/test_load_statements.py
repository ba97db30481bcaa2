"""The random statements of `make load KIND=definitions`: the judge passes what is right, and nothing else."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from deltalake import write_deltalake

import tailbit
from support.load.statements import SHAPES, Statements, unfinished, wrong
from support.load.writer import ROWS, rows
from support.tables import index_of


@pytest.fixture
def statements(tmp_path: Path) -> Statements:
    """A table of two commits with every index of the load."""
    table = str(tmp_path / "t")
    for seed in range(2):
        write_deltalake(table, rows(np.random.default_rng(seed)), mode="append")
    index_of(table, ["k"])
    statements = Statements(table, random.Random(1))
    for shape in SHAPES:
        statements._run("CREATE", shape)
    return statements


def test_indexes_of_every_kind_pass_the_judge_and_a_lost_or_changed_one_does_not(
    statements: Statements,
) -> None:
    table, every = statements.table, list(SHAPES)
    assert unfinished(table) == ["later"]
    statements.rebuild_deferred()
    assert unfinished(table) == []
    assert wrong(table, every, 2 * ROWS) == []
    assert wrong(table, every, 3 * ROWS) == [
        f"{2 * ROWS} rows by the index, {2 * ROWS} in the table; {3 * ROWS} were written"
    ]
    write_deltalake(table, rows(np.random.default_rng(2)), mode="append")
    assert any("1 files scanned" in problem for problem in wrong(table, every, 3 * ROWS))
    tailbit.sql(f"DROP INDEX by_v ON '{table}'")
    assert any("indexes [" in problem for problem in wrong(table, every, 3 * ROWS))


def test_statements_are_random_and_each_is_carried_out(statements: Statements) -> None:
    texts = [statements.act() for _ in range(5)]
    assert len(set(texts)) > 1
    assert sum(statements.done.values()) == len(SHAPES) + 5
    there = {index.name for index in tailbit.open(statements.table).indexes()} - {"k"}
    assert there == set(statements.existing)
