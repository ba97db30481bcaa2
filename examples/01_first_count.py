"""Lesson 1: make a Delta table, index three of its columns, and count.

Run: python examples/01_first_count.py [FOLDER]    (default: ./lessons)
"""

import subprocess
import sys

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

import tailbit

folder = sys.argv[1] if len(sys.argv) > 1 else "lessons"
table = f"{folder}/orders"

# Any Delta table will do, whoever writes it. This one gets five commits, one a day, of 40,000 orders each.
random = np.random.default_rng(seed=1)
for day in range(1, 6):
    orders = pa.table(
        {
            "day": pa.array([day] * 40_000),
            "country": random.choice(["DE", "FR", "IT", "PL", "SE"], 40_000, p=[0.4, 0.3, 0.2, 0.08, 0.02]),
            "device": random.choice(["phone", "laptop", "tablet"], 40_000),
            "status": random.choice(["paid", "open", "returned"], 40_000, p=[0.8, 0.15, 0.05]),
            "amount": random.integers(1, 500, 40_000),
        }
    )
    write_deltalake(table, orders, mode="overwrite" if day == 1 else "append")

# `--once`: catch up and stop. Without it, the command starts Spark, and follows the table until it gets
# SIGTERM or Ctrl-C.
index = ["tailbit", "run", table, "--columns", "country,device,status", "--once", "--quiet"]
subprocess.run(index, check=True)

# A question needs no Spark. It is SQL text, with Spark's semantics.
returned = tailbit.open(table).where("country IN ('SE', 'PL') AND status = 'returned'")
print("returned orders from Sweden and Poland:", returned.count())
print("files of the table:", returned.files_in_table)
print("files whose data was read:", returned.files_scanned)

# A condition on a column without an index is right as well: it costs reading that column.
large = tailbit.open(table).where("country = 'SE' AND status = 'returned' AND amount > 450")
print("of these, from Sweden and over 450:", large.count())
print("files whose data was read for it:", large.files_scanned)
