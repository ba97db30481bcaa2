"""Every operator and function over edge values of every type is what Spark 4.2 says, errors included."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.function_cells import CELLS, rows, schema
from support.profiles import PROOF
from support.spark_cells import JudgedRows
from tailbit.errors import PredicateError
from tailbit.index.expression.evaluate import evaluate
from tailbit.index.functions.texts import cased
from tailbit.index.functions.tree import Call
from tailbit.index.functions.vectors import ERRORS, Vector
from tailbit.index.sql.expressions import ExpressionReader, OperandReader
from tailbit.index.sql.syntax.parser import parse_predicate
from tailbit.index.values.literals import STRING, Literal

TABLE, SCHEMA = rows(), schema()
COLUMNS = {name: TABLE[name].combine_chunks() for name in TABLE.column_names}


@pytest.fixture
def judge(verdicts: Any, request: pytest.FixtureRequest, tmp_path: Path) -> JudgedRows:
    return JudgedRows(TABLE, verdicts, lambda: request.getfixturevalue("spark"), tmp_path)


def ours(text: str) -> Vector | None:
    """Our values and errors; None where the expression is refused."""
    tree = parse_predicate(text)
    try:
        expression = ExpressionReader(OperandReader(text, SCHEMA, "UTC"), "UTC", 0).read(tree)
    except PredicateError:
        return None
    return evaluate(expression, COLUMNS, TABLE.num_rows)


def known() -> dict[str, Vector]:
    texts = dict.fromkeys(text for cells in CELLS.values() for text in cells)
    return {text: found for text in texts if (found := ours(text)) is not None}


def unlike(mine: pa.Array, theirs: pa.Array | str) -> bool:
    """Whether two arrays differ in a type or a value; NaN is NaN, and zero has a sign."""
    if isinstance(theirs, str) or theirs.type != mine.type:
        return True
    if pa.types.is_floating(mine.type):
        a, b = (np.asarray(side.fill_null(0.0)) for side in (mine, theirs))
        same = np.array_equal(a, b, equal_nan=True) and np.array_equal(
            np.signbit(a[a == a]), np.signbit(b[b == b])
        )
        return not same or mine.is_null().to_pylist() != theirs.is_null().to_pylist()
    return not mine.equals(theirs)


def test_every_value_of_every_function_is_what_spark_says(judge: JudgedRows) -> None:
    mine = known()
    assert len(mine) > 1200
    theirs = judge.values({text: np.flatnonzero(v.failed).tolist() for text, v in mine.items()})
    wrong = {t: (str(v.values), str(theirs[t])) for t, v in mine.items() if unlike(v.values, theirs[t])}
    assert wrong == {}


def test_every_error_of_every_function_is_what_spark_raises(judge: JudgedRows) -> None:
    """One row of each error of an expression is judged; `make proof` judges all."""
    asked: dict[str, list[int]] = {}
    expected: dict[tuple[str, int], str] = {}
    for text, found in known().items():
        codes = np.zeros(0, np.uint8) if found.raised is None else found.raised
        rows = np.flatnonzero(codes) if PROOF else np.unique(codes, return_index=True)[1]
        wanted = [row for row in rows.tolist() if ERRORS[codes[row]] not in ("", "NOT_READ_EXACTLY")]
        asked[text] = wanted
        expected |= {(text, row): ERRORS[codes[row]] for row in wanted}
    assert len(expected) > 250
    assert judge.errors(asked) == expected


def test_the_case_of_every_character_is_what_spark_says_or_is_not_read(
    spark: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("characters") / "rows.parquet"
    never = [code for code in range(0x20000, 0x110000) if code & 0xFFFE == 0xFFFE]
    chars = pa.array([chr(code) for code in [*range(1, 0x20000), *never] if not 0xD800 <= code < 0xE000])
    pq.write_table(pa.table({"c": chars}), path)
    theirs = (
        spark.read.parquet(str(path))
        .coalesce(1)
        .selectExpr("upper(c) AS upper", "lower(c) AS lower")
        .toArrow()
    )
    for name in ("upper", "lower"):
        mine = cased(Call(name, (Literal(STRING, b""),), STRING), [chars])
        assert mine.raised is not None
        read = pa.array(mine.raised == 0)
        assert mine.values.filter(read).equals(theirs[name].combine_chunks().filter(read))
        assigned = sum(
            unicodedata.category(c) != "Cn" for c in chars.filter(pa.array(mine.raised != 0)).to_pylist()
        )
        assert assigned < 5
