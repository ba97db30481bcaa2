"""Random conditions, and where they are TRUE, FALSE and NULL by our evaluation and by Spark's.

A row for which a part of a condition raises is left out: Spark's order of evaluation is not ours. What raises
is judged function by function.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from support.function_cells import rows, schema
from support.random_conditions import Conditions, RandomCondition
from tailbit.errors import PredicateError
from tailbit.index.predicate.tree import Node, is_null, negate
from tailbit.index.predicate.truth import judged
from tailbit.index.sql.bind import bind

TABLE, SCHEMA = rows(), schema()

Truth = tuple[list[bool | None], list[int]]
"""The truth of each row, and the rows that are left out."""


def portions(seed: int, count: int, size: int, folder: Path | None = None) -> Iterator[list[RandomCondition]]:
    """Conditions by one source of chance, `size` at a time; they need no folder."""
    made = Conditions(random.Random(seed))
    every = (made.tree(made.rng.randint(0, 3)) for _ in range(count))
    while portion := list(islice(every, size)):
        yield portion


def ours(asked: Sequence[RandomCondition]) -> dict[str, Truth]:
    """Our truth by condition, without those that are refused. AssertionError: its parts do not add up."""
    found = {condition.text: _ours(condition) for condition in asked}
    return {text: truth for text, truth in found.items() if truth is not None}


def _ours(condition: RandomCondition) -> Truth | None:
    try:
        node = bind(condition.text, SCHEMA)
        out = rows_that_raise(condition.atoms, TABLE)
    except PredicateError:
        return None
    parts = [judged(part, TABLE, {}) for part in (node, negate(node), is_null(node))]
    for _, open_ in parts:
        assert open_ is None or not (open_ & ~out).any(), condition.text
    true, false, null = (part[0] & ~out for part in parts)
    assert ((true.astype(int) + false + null) == ~out).all(), condition.text
    truth = [True if t else False if f else None for t, f in zip(true, false, strict=True)]
    return truth, np.flatnonzero(out).tolist()


def rows_that_raise(atoms: Sequence[str], table: pa.Table) -> np.ndarray[Any, Any]:
    """Where some of these conditions raises. PredicateError: one is refused."""
    every = [_raising(bind(atom, SCHEMA), table) for atom in atoms]
    return np.asarray(np.logical_or.reduce(every), dtype=bool)


def _raising(node: Node, table: pa.Table) -> np.ndarray[Any, Any]:
    """Rows for which the condition, its NOT or its IS NULL raises: one may be decided, and another not."""
    found = [judged(part, table, {})[1] for part in (node, negate(node), is_null(node))]
    out = np.zeros(table.num_rows, dtype=bool)
    for open_ in found:
        out |= False if open_ is None else open_
    return out


def frame_of(spark: Any, folder: Path) -> Any:
    """The rows in Spark, in one partition."""
    path = folder / "rows.parquet"
    pq.write_table(TABLE, path)
    return spark.read.parquet(str(path)).coalesce(1)


def mismatches(
    values: Callable[[Mapping[str, Sequence[int]]], Mapping[str, pa.Array | str]], mine: Mapping[str, Truth]
) -> dict[str, tuple[Any, Any]]:
    """By condition our truth and Spark's, where they differ; `values` as `spark_values` of a frame."""
    theirs = values({text: out for text, (_, out) in mine.items()})
    wrong = {}
    for text, (truth, _) in mine.items():
        said = theirs[text]
        if isinstance(said, str) or said.cast(pa.bool_()).to_pylist() != truth:
            wrong[text] = (truth, said if isinstance(said, str) else said.to_pylist())
    return wrong
