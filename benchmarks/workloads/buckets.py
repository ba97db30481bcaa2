"""A join of tables in buckets of their key, bucket by bucket, beside the join of Spark, which shuffles.

Usage: python workloads/buckets.py [--rows N]. Two Delta tables of N rows (4 M) and a quarter of that, in 16
buckets of their key: a generated column, by which both are partitioned. Every column is read.
"""

from __future__ import annotations

import argparse
import shutil
from functools import partial, reduce
from typing import Any

from lineitem import folder
from pyspark.sql import DataFrame
from timing import medians, tell

import tailbit
from tailbit.streaming.java.session import build_session, delta_settings

BUCKETS = 16


def made(spark: Any, name: str, rows: int, distinct: int) -> str:
    """Return the path of a new table with a number of rows and of distinct keys."""
    path = str(folder() / f"buckets_{name}")
    shutil.rmtree(path, ignore_errors=True)
    bucket = f"bucket INT GENERATED ALWAYS AS (CAST(pmod(id, {BUCKETS}) AS INT))"
    columns = f"id BIGINT, {name} DOUBLE, note STRING, {bucket}"
    spark.sql(f"CREATE TABLE delta.`{path}` ({columns}) USING delta PARTITIONED BY (bucket)")
    values = f"SELECT id * 7919 % {distinct} AS id, rand(1) AS {name}, hex(id * 7919) AS note"
    spark.sql(f"INSERT INTO delta.`{path}` (id, {name}, note) {values} FROM range(0, {rows}, 1, 2)")
    return path


def whole(left: DataFrame, right: DataFrame) -> DataFrame:
    """Return the join as Spark plans it."""
    return left.join(right, ["bucket", "id"])


def by_bucket(left: DataFrame, right: DataFrame) -> DataFrame:
    """Return the join bucket by bucket: the one partition of a bucket has all rows of its keys."""
    sides = [
        [side.where(f"bucket = {number}").coalesce(1) for side in (left, right)] for number in range(BUCKETS)
    ]
    return reduce(DataFrame.union, (whole(one, other) for one, other in sides))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=4_000_000)
    rows = options.parse_args().rows
    extra = delta_settings() | {"spark.driver.memory": "3g", "spark.sql.autoBroadcastJoinThreshold": "-1"}
    with build_session("buckets", ui=False, extra=extra) as spark:
        paths = [made(spark, "amount", rows, rows // 4), made(spark, "balance", rows // 4, rows // 4)]
        left, right = (spark.read.format("delta").load(path).drop("note") for path in paths)
        joins = {"whole": whole(left, right), "by bucket": by_bucket(left, right)}
        shuffles = {
            name: joined._jdf.queryExecution().executedPlan().toString().count("Exchange")
            for name, joined in joins.items()
        }
        answers = {name: joined.selectExpr("count(*)", "sum(id)").collect() for name, joined in joins.items()}
        assert answers["whole"] == answers["by bucket"]

        def read(join: Any) -> None:
            join(left, right).write.format("noop").mode("overwrite").save()

        seconds = medians({"whole": partial(read, whole), "by bucket": partial(read, by_bucket)}, 3)
        one = tailbit.open(paths[0]).where("id = 7")
        row: dict[str, Any] = {"rows": rows, "files for a key": one.files_scanned, "of": one.files_in_table}
        row |= {f"{name} shuffles": count for name, count in shuffles.items()}
        row |= {f"{name} ms": round(each * 1e3) for name, each in seconds.items()}
        tell(row | {"by bucket / whole": round(seconds["by bucket"] / seconds["whole"], 2)})


if __name__ == "__main__":
    main()
