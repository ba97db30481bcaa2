"""Lesson 4: ask older versions, see what a change did, and hand the rows to DuckDB and Polars.

Run: python examples/04_time_travel_and_transitions.py [FOLDER]    (after lesson 1, in the same folder)
"""

import sys

import duckdb
import polars
from deltalake import DeltaTable

import tailbit

folder = sys.argv[1] if len(sys.argv) > 1 else "lessons"
orders = tailbit.open(f"{folder}/orders")

# Somebody marks all open orders of Sweden as paid. No indexer runs: the index is behind, answers are not.
before = orders.where().version
DeltaTable(orders.path).update(updates={"status": "'paid'"}, predicate="country = 'SE' AND status = 'open'")
open_orders = "country = 'SE' AND status = 'open'"
print("open orders of Sweden now:", orders.where(open_orders).count())
print("before the change:", orders.where(open_orders, version=before).count())

# An answer says what it stands on.
now = orders.where("country = 'SE'")
print("versions behind:", now.version - now.covered_version)
print("files whose data was read:", now.files_scanned, "of", now.files_in_table)

# What moved between two versions, by the values of a column. A rewritten file counts as left and come.
moved = orders.transitions("status", before, now.version)
for status, change in sorted(moved.items()):
    print(f"  {status}: {change.came - change.left:+,}")

# Rows go on as Arrow, batch by batch, into whatever reads Arrow.
returned = orders.where("country = 'SE' AND status = 'returned'", version=before)
by_device = "SELECT device, count(*), max(amount) FROM returned GROUP BY device ORDER BY device"
print(duckdb.sql(by_device).fetchall())
print(polars.DataFrame(returned).group_by("day").len().sort("day").to_dicts()[0])
