"""Lesson 2: follow a table in a Spark session of your own, while somebody else writes to it.

Run: python examples/02_follow_a_table.py [FOLDER]    (default: ./lessons)
"""

import sys

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

import tailbit
import tailbit.streaming

folder = sys.argv[1] if len(sys.argv) > 1 else "lessons"
table = f"{folder}/visits"


def write(page: str, visits: int) -> int:
    """Append visits of one page; return the version of the table that this makes."""
    write_deltalake(table, pa.table({"page": [page] * visits, "ms": list(range(visits))}), mode="append")
    return DeltaTable(table).version()


write("home", 1000)
spark = SparkSession.builder.master("local[2]").appName("visits").getOrCreate()
query = tailbit.streaming.start(spark, table, columns=["page"])  # a StreamingQuery, as any other

# Every question is right at once, whether or not the index has come so far. `wait_for` is for those who want
# to know that it has.
visits = tailbit.open(table)
for page, number in [("home", 500), ("help", 20), ("shop", 3000)]:
    version = write(page, number)
    print(f"version {version}:", visits.where(f"page = '{page}'").count(), "visits of", page)
    visits.wait_for(version, timeout=120)
    print("  all files covered:", visits.where().indexed_share == 1.0)

# Deleted rows leave the index too, whatever way the writer removes them.
DeltaTable(table).delete("page = 'shop' AND ms >= 1000")
print("after a DELETE:", visits.where("page = 'shop'").count(), "visits of shop")
visits.wait_for(timeout=120)

# The index is exact: `verify` compares it with the data files.
query.stop()
print("index sound:", visits.verify().sound)
spark.stop()
