"""Change rows by way of Spark Connect, which is refused, and read some: a script for the Python of the tests.

Usage: connect_changes.py URL PACKAGES TABLE; PACKAGES: a folder that has what a Connect client needs. It
prints as JSON what each change of the table, a folder, is refused with, and the rows with k of 1.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable


def main() -> None:
    url, packages, table = sys.argv[1:]
    sys.path.append(packages)
    from pyspark.sql import SparkSession

    import tailbit.spark
    from tailbit.errors import UsageError

    session = SparkSession.builder.remote(url).getOrCreate()
    frame = session.createDataFrame([(1, "x")], "k LONG, v STRING")
    changes: list[Callable[[], object]] = [
        lambda: tailbit.spark.delete(table, "k = 1"),
        lambda: tailbit.spark.delete(table, "k = 1", spark=session),
        lambda: tailbit.spark.delete(table, frame.select("k"), on="k"),
        lambda: tailbit.spark.upsert(table, frame, "k"),
        lambda: tailbit.spark.upsert(table, frame, "k", spark=session),
        lambda: tailbit.spark.upsert(table, frame.toArrow(), "k", spark=session),
        lambda: tailbit.spark.upsert(table, frame, "k", dry_run=True),
        lambda: tailbit.spark.accelerate(session),
    ]
    told = []
    for change in changes:
        try:
            told.append(f"done: {change()}")
        except UsageError as refusal:
            told.append(f"{refusal} {refusal.hint}")
    told.append(str(tailbit.open(table).where("k = 1").dataframe(session).collect()))
    print(json.dumps(told))


if __name__ == "__main__":
    main()
