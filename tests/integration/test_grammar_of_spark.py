"""Spark's own parser judges ours: a text that we read is to Spark the expression that we read."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.errors import PySparkException

from support.spark_texts import in_parentheses, random_text
from tailbit.errors import PredicateError
from tailbit.index.sql.syntax.parser import parse_predicate

TEXTS = 3000
REFUSED_LATER = (
    "UNSUPPORTED_DATATYPE",
    "INVALID_INTERVAL_FORMAT",
    "UNSUPPORTED_TYPED_LITERAL",
    "INVALID_TYPED_LITERAL",
)
"""Errors of Spark's parser about types and constants: ours come when the tree is bound."""

TWO_READINGS = re.compile(r"trim\((LEADING )?\S+ FROM -", re.IGNORECASE)
"""To Spark the FROM before a sign may be a column, from which the sign subtracts."""


def spark_reads(parser: Any, text: str) -> str:
    """What an expression is to Spark, or the class of its error."""
    try:
        return str(parser.parseExpression(text).toString())
    except PySparkException as refused:
        return str(refused.getCondition())


def test_what_is_read_is_bound_as_spark_binds_it(verdicts: Any, request: pytest.FixtureRequest) -> None:
    def readings(texts: Sequence[tuple[str, str]]) -> list[str]:
        """Return Spark's refusal of the first text, and else "same" or "other" by what both are to Spark."""
        spark = request.getfixturevalue("spark")
        spark.conf.set("spark.sql.debug.maxToStringFields", 1000)
        parser = spark._jsparkSession.sessionState().sqlParser()
        found = [(spark_reads(parser, text), spark_reads(parser, written)) for text, written in texts]
        refusals = ("PARSE_SYNTAX_ERROR", *REFUSED_LATER)
        return [a if a.startswith(refusals) else "same" if a == b else "other" for a, b in found]

    rng, read = random.Random(20261125), dict[str, str]()
    for text in (random_text(rng) for _ in range(TEXTS)):
        try:
            read[text] = in_parentheses(parse_predicate(text))
        except PredicateError:
            continue
    answers = verdicts.answers("readings", [*read.items()], readings)
    unlike = [
        pair
        for pair, reading in zip(read.items(), answers, strict=True)
        if reading != "same" and not reading.startswith(REFUSED_LATER) and not TWO_READINGS.search(pair[0])
    ]
    assert unlike == []
    assert len(read) > TEXTS // 3
