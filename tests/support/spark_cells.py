"""What Spark gives for expressions row by row: the value, or the class of the error that it raises.

A job ends at the first row that raises. So rows that are said to raise are left out of the job, and each of
them is evaluated by Spark's own interpreter in the driver, as the optimiser left the expression.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from support.verdicts import Verdicts, digest_of

Q = TypeVar("Q")

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


class JudgedRows:
    """Rows of which Spark says what expressions give; its answers are recorded (see `support.verdicts`).

    `spark` gives the session, and is called only where a question has no recorded answer.
    """

    def __init__(self, table: pa.Table, verdicts: Verdicts, spark: Callable[[], Any], folder: Path) -> None:
        self._table, self._verdicts, self._spark, self._folder = table, verdicts, spark, folder
        self._digest = digest_of(table)

    @cached_property
    def frame(self) -> Any:
        """The rows in Spark, in one partition."""
        path = self._folder / "rows.parquet"
        pq.write_table(self._table, path)
        return self._spark().read.parquet(str(path)).coalesce(1)

    def ask(
        self, kind: str, questions: Sequence[Q], reply: Callable[[Sequence[Q]], Sequence[Any]]
    ) -> list[Any]:
        """Return the recorded answers to questions of a kind; `reply` has Spark answer those without one."""
        return self._verdicts.answers(kind, questions, reply, self._digest)

    def values(self, raising: Mapping[str, Sequence[int]]) -> dict[str, pa.Array | str]:
        def reply(asked: Sequence[tuple[str, Sequence[int]]]) -> list[Any]:
            return [*spark_values(self.frame, dict(asked)).values()]

        questions = [(text, list(rows)) for text, rows in raising.items()]
        answers = self.ask("values", questions, reply)
        return dict(zip(raising, answers, strict=True))

    def errors(self, raising: Mapping[str, Sequence[int]]) -> dict[tuple[str, int], str]:
        def reply(asked: Sequence[tuple[str, Sequence[int]]]) -> list[list[str]]:
            raised = spark_errors(self.frame, dict(asked))
            return [[raised[text, row] for row in rows] for text, rows in asked]

        questions = [(text, list(rows)) for text, rows in raising.items() if len(rows)]
        answers = self.ask("errors", questions, reply)
        return {
            (text, row): error
            for (text, rows), errors in zip(questions, answers, strict=True)
            for row, error in zip(rows, errors, strict=True)
        }
