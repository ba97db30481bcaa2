"""Random conditions over all types and functions are TRUE, FALSE and NULL where Spark says so.

A row for which a part of a condition raises is left out: Spark's order of evaluation is not ours. What raises
is judged function by function.
"""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.function_cells import rows, schema
from support.profiles import SEED
from support.random_conditions import Conditions, RandomCondition
from support.spark_cells import spark_values
from tailbit.errors import PredicateError
from tailbit.index.predicate.tree import is_null, negate
from tailbit.index.predicate.truth import judged
from tailbit.index.sql.bind import bind

COUNT = int(os.environ.get("TAILBIT_CONDITIONS", "250"))
"""How many conditions are judged: `make fuzz-predicates` asks for more."""

TABLE, SCHEMA = rows(), schema()


def raising(text: str) -> np.ndarray[Any, Any]:
    """Rows for which a condition raises."""
    _, open_ = judged(bind(text, SCHEMA), TABLE, {})
    return np.zeros(TABLE.num_rows, dtype=bool) if open_ is None else open_


def ours(condition: RandomCondition) -> tuple[list[bool | None], list[int]] | None:
    """Our truth of each row, and the rows that are left out; None where the condition is refused."""
    try:
        out = np.logical_or.reduce([raising(atom) for atom in condition.atoms])
        node = bind(condition.text, SCHEMA)
    except PredicateError:
        return None
    parts = [judged(part, TABLE, {}) for part in (node, negate(node), is_null(node))]
    for _, open_ in parts:
        assert open_ is None or not (open_ & ~out).any(), condition.text
    true, false, null = (part[0] & ~out for part in parts)
    assert ((true.astype(int) + false + null) == ~out).all(), condition.text
    truth = [True if t else False if f else None for t, f in zip(true, false, strict=True)]
    return truth, np.flatnonzero(out).tolist()


def test_random_conditions_are_what_spark_says(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("conditions") / "rows.parquet"
    pq.write_table(TABLE, path)
    frame = spark.read.parquet(str(path)).coalesce(1)
    made = Conditions(random.Random(SEED))
    asked = [made.tree(made.rng.randint(0, 3)) for _ in range(COUNT)]
    mine = {condition.text: truth for condition in asked if (truth := ours(condition)) is not None}
    assert len(mine) > COUNT // 2
    theirs = spark_values(frame, {text: out for text, (_, out) in mine.items()})
    wrong = {}
    for text, (truth, _) in mine.items():
        said = theirs[text]
        if isinstance(said, str) or said.cast(pa.bool_()).to_pylist() != truth:
            wrong[text] = (truth, said if isinstance(said, str) else said.to_pylist())
    assert wrong == {}


_PIECES = (
    "a",
    "b",
    ".",
    "[ab]",
    "[^a]",
    r"\\d",
    r"\\s",
    r"\\w",
    r"\\W",
    "(a|b)",
    "(?:ab|c)",
    r"\\.",
    "[a-c0-9]",
    "é",
    r"\\n",
    r"\\S",
)
_TEXTS = (
    "",
    "a",
    "ab",
    "abc",
    "a\n",
    "a\r\n",
    "\n",
    "a\nb",
    "a\r",
    "a\u0085",
    "a\u2028b",
    "1.5",
    "é a",
    "𝄞b",
    "aaa",
    "b\r\n\n",
    " ",
)


def test_random_patterns_of_rlike_are_found_where_spark_finds_them(
    spark: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("patterns") / "rows.parquet"
    table = pa.table({"row": pa.array(range(len(_TEXTS)), pa.int64()), "s": pa.array(_TEXTS)})
    pq.write_table(table, path)
    rng, asked = random.Random(SEED), {}
    while len(asked) < 150:
        pieces = [
            rng.choice(_PIECES) + rng.choice(("", "", "*", "+", "?", "{2}", "*?"))
            for _ in range(rng.randint(0, 4))
        ]
        text = f"s RLIKE '{rng.choice(('', '^'))}{''.join(pieces)}{rng.choice(('', '$'))}'"
        node = bind(text, SCHEMA)
        asked[text] = judged(node, table, {})[0].tolist()
    theirs = spark_values(spark.read.parquet(str(path)).coalesce(1), dict.fromkeys(asked, ()))
    assert {t: (a, theirs[t]) for t, a in asked.items() if pa.array(a) != theirs[t]} == {}
