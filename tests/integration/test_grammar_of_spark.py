"""Spark's own parser judges ours: a text that we read is to Spark the expression that we read."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from pyspark.errors import PySparkException

from support.spark_texts import in_parentheses, random_text
from tailbit.errors import PredicateError
from tailbit.index.sql.syntax.parser import parse_predicate

pytestmark = pytest.mark.spark

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


def test_what_is_read_is_bound_as_spark_binds_it(spark: Any) -> None:
    spark.conf.set("spark.sql.debug.maxToStringFields", 1000)
    parser = spark._jsparkSession.sessionState().sqlParser()
    rng, unlike, read = random.Random(20261125), [], 0
    for text in (random_text(rng) for _ in range(TEXTS)):
        try:
            written = in_parentheses(parse_predicate(text))
        except PredicateError:
            continue
        read += 1
        theirs = spark_reads(parser, text)
        if theirs.startswith(REFUSED_LATER) or TWO_READINGS.search(text):
            continue
        if theirs == "PARSE_SYNTAX_ERROR" or theirs != spark_reads(parser, written):
            unlike.append((text, written))
    assert unlike == []
    assert read > TEXTS // 3
