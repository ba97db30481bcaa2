"""What Spark gives for expressions row by row: the value, or the class of the error that it raises.

A job ends at the first row that raises. So rows that are said to raise are left out of the job, and each of
them is evaluated by Spark's own interpreter in the driver, as the optimiser left the expression.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

PART = 150
"""Expressions of one job."""


def spark_values(frame: Any, raising: Mapping[str, Sequence[int]]) -> dict[str, pa.Array | str]:
    """Per expression its values in the order of `row`, NULL at those of `raising`; or Spark's refusal."""
    texts = list(raising)
    found: dict[str, pa.Array | str] = {}
    for start in range(0, len(texts), PART):
        found |= _values(frame, {text: raising[text] for text in texts[start : start + PART]})
    return found


def _values(frame: Any, raising: Mapping[str, Sequence[int]]) -> dict[str, pa.Array | str]:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    shapes = [
        f"IF(row IN ({', '.join(map(str, rows))}), NULL, {text})" if len(rows) else f"({text}\n)"
        for text, rows in raising.items()
    ]
    try:
        table = (
            frame.selectExpr("row", *(f"{s} AS c{n}" for n, s in enumerate(shapes))).orderBy("row").toArrow()
        )
        return {text: table[f"c{n}"].combine_chunks() for n, text in enumerate(raising)}
    except (PySparkException, Py4JJavaError) as wrong:
        if len(raising) == 1:
            return dict.fromkeys(raising, str(wrong).splitlines()[0])
        half, items = len(raising) // 2, list(raising.items())
        return {**_values(frame, dict(items[:half])), **_values(frame, dict(items[half:]))}


def spark_errors(frame: Any, raising: Mapping[str, Sequence[int]]) -> dict[tuple[str, int], str]:
    """Per expression and row the class of the error that Spark raises; "" where it raises none."""
    from pyspark.errors import PySparkException

    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    expressions = frame.sparkSession._jvm.org.apache.spark.sql.catalyst.expressions
    nil = frame.sparkSession._jvm.scala.collection.immutable.Nil
    texts = [text for text, rows in raising.items() if len(rows)]
    plan = frame.selectExpr("*", *texts)._jdf.queryExecution().optimizedPlan()
    inputs = plan.children().apply(0).output()
    held = frame._jdf.queryExecution().executedPlan().executeCollect()
    found = {}
    for n, text in enumerate(texts):
        single = getattr(nil, "$colon$colon")(plan.expressions().apply(inputs.size() + n))
        project = expressions.InterpretedMutableProjection(single, inputs)
        for row in raising[text]:
            try:
                project.apply(held[row])
                found[text, row] = ""
            except PySparkException as error:
                found[text, row] = str(error.getCondition()).split(".")[0]
    return found
