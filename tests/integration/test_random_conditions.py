"""Random conditions over all types and functions are TRUE, FALSE and NULL where Spark says so."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.judged_conditions import SCHEMA, TABLE, mismatches, ours, portions
from support.profiles import SEED
from support.spark_cells import JudgedRows
from tailbit.index.predicate.truth import judged
from tailbit.index.sql.bind import bind

COUNT = 250
"""How many conditions are judged: `make fuzz KIND=conditions` judges more."""


def test_random_conditions_are_what_spark_says(
    verdicts: Any, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    mine = ours(next(portions(SEED, COUNT, COUNT)))
    assert len(mine) > COUNT // 2
    judge = JudgedRows(TABLE, verdicts, lambda: request.getfixturevalue("spark"), tmp_path)
    assert mismatches(judge.values, mine) == {}


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
    verdicts: Any, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    table = pa.table({"row": pa.array(range(len(_TEXTS)), pa.int64()), "s": pa.array(_TEXTS)})
    judge = JudgedRows(table, verdicts, lambda: request.getfixturevalue("spark"), tmp_path)
    rng, asked = random.Random(SEED), {}
    while len(asked) < 150:
        pieces = [
            rng.choice(_PIECES) + rng.choice(("", "", "*", "+", "?", "{2}", "*?"))
            for _ in range(rng.randint(0, 4))
        ]
        text = f"s RLIKE '{rng.choice(('', '^'))}{''.join(pieces)}{rng.choice(('', '$'))}'"
        node = bind(text, SCHEMA)
        asked[text] = judged(node, table, {})[0].tolist()
    theirs = judge.values(dict.fromkeys(asked, ()))
    assert {t: (a, theirs[t]) for t, a in asked.items() if pa.array(a) != theirs[t]} == {}
