"""Lesson 6: upserts of a stream, each made once, and a join of tables in buckets, without a shuffle.

Run: python examples/06_changes_by_key.py [FOLDER]    (default: ./lessons)
"""

import os
import sys
from functools import reduce

from delta import configure_spark_with_delta_pip
from pyspark.sql import DataFrame, SparkSession

import tailbit
import tailbit.spark

folder = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "lessons")
customers, orders = f"{folder}/customers", f"{folder}/orders of customers"
bucket = "CAST(pmod(id, 8) AS INT)"

builder = SparkSession.builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
builder = builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
builder = builder.config("spark.databricks.delta.snapshotPartitions", "2")  # the tables are small
spark = configure_spark_with_delta_pip(builder).getOrCreate()

# The bucket of a key is a generated column: a question for keys reads the files of their buckets alone.
for table, column in ((customers, "name STRING"), (orders, "amount BIGINT")):
    spark.sql(
        f"CREATE TABLE delta.`{table}` (id BIGINT, {column}, bucket INT GENERATED ALWAYS AS ({bucket}))"
        " USING delta PARTITIONED BY (bucket) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
spark.sql(f"INSERT INTO delta.`{customers}` (id, name) SELECT id, 'old' FROM range(0, 2000, 1, 1)")
spark.sql(f"INSERT INTO delta.`{orders}` (id, amount) SELECT id % 2000, id FROM range(0, 6000, 1, 1)")
answer = tailbit.open(customers).where("id = 7")
print("files read for a key, without an index:", answer.files_scanned, "of", answer.files_in_table)
tailbit.sql(f"CREATE INDEX by_id ON '{customers}' USING record_key (id)")


def change(rows, batch_id):
    """Upsert a batch, once: its number is committed with it."""
    source = rows.selectExpr("id", "name", f"{bucket} AS bucket")
    done = tailbit.spark.upsert(customers, source, "id", application=("changes", batch_id))
    print(f"batch {batch_id}: {done.updated} updated, {done.inserted} inserted; {done.reason or 'committed'}")


new = spark.sql("SELECT id + 1990 AS id, 'new' AS name FROM range(0, 20, 1, 1)")
new.write.format("delta").save(f"{folder}/changes")
for attempt in ("first", "replayed"):
    stream = spark.readStream.format("delta").load(f"{folder}/changes").writeStream.foreachBatch(change)
    stream = stream.option("checkpointLocation", f"{folder}/{attempt}").trigger(availableNow=True)
    stream.start().awaitTermination()

# Delta tells Spark of no buckets. One that is read as one partition has all rows of its keys: no shuffle.
spark.conf.set("spark.sql.autoBroadcastJoinThreshold", -1)
left, right = (spark.read.format("delta").load(table) for table in (customers, orders))
sides = [[side.where(f"bucket = {number}").coalesce(1) for side in (left, right)] for number in range(8)]
parts = [customer.join(order, ["bucket", "id"]) for customer, order in sides]
for name, joined in (("whole", left.join(right, "id")), ("by bucket", reduce(DataFrame.union, parts))):
    plan = joined._jdf.queryExecution().executedPlan().toString()
    print(f"{name}: {joined.count()} rows, {plan.count('Exchange')} shuffles")
spark.stop()
