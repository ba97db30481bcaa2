"""Ask a Spark Connect server: a script for a Python that has its pure client and nothing of this project.

Usage: connect_questions.py URL FIRST THEN, the last two lists of statements as JSON. It runs the first ones,
says so by an empty line, and waits for a line before it runs the others. It prints the rows of all as JSON.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession


def main() -> None:
    first, then = map(json.loads, sys.argv[2:])
    spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
    rows = [[str(row) for row in spark.sql(statement).collect()] for statement in first]
    print(flush=True)
    sys.stdin.readline()
    rows += [[str(row) for row in spark.sql(statement).collect()] for statement in then]
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
