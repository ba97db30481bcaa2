"""Put questions to one release of Spark with acceleration and without: a script for that release's Python.

Usage: release_questions.py SETTINGS STATEMENTS, both JSON. It prints one line of JSON: the release, how many
scans each mode served and how many statements the early rule, the number of rows, what became of the scans of
each statement, and the statements whose rows differ. It imports nothing of this project, which the other
Python does not have.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

MODES = ("files", "rows", "counts", "groups")


def rows_of(spark: Any, statement: str) -> list[str]:
    return sorted(repr(tuple(row)) for row in spark.sql(statement).collect())


def main() -> None:
    settings, statements = map(json.loads, sys.argv[1:])
    builder: Any = SparkSession.builder
    for name, value in {**settings, "spark.sql.adaptive.enabled": "false"}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    entry = spark._jvm.io.tailbit.spark.Acceleration
    answers, early, last = [], 0, []
    for statement in statements:
        answers.append(rows_of(spark, statement))
        last.append(entry.last(spark._jsparkSession))
        early += '"early":true' in last[-1]
    served = {mode: entry.served(mode) for mode in MODES}
    spark.conf.set("spark.tailbit.enabled", "false")
    plain = [rows_of(spark, statement) for statement in statements]
    wrong = [statement for statement, a, b in zip(statements, answers, plain, strict=True) if a != b]
    served["early"] = early
    told = {"release": spark.version, "served": served, "wrong": wrong}
    told["rows"] = [len(rows) for rows in plain]
    told["last"] = [json.loads(notes) for notes in last]
    print(json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    main()
