"""What does a first build of five columns cost in CPU time and bytes a row?

The columns have 3, 50, 50, 100,000 and all different values, in files of a million rows, and a sixth is not
indexed. The engine of `tailbit run` builds in this process, without Spark; modules it loads are counted too.

Usage: python workloads/five_columns.py [million rows]. One line.
"""

from __future__ import annotations

import pathlib
import sys
import tempfile
import time

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake
from timing import tell

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests"))
from support.drive import Drive

FILE_ROWS = 1_000_000
COLUMNS = ("status", "region", "day", "supplier", "id")


def rows(number: int) -> pa.Table:
    """Return the rows of a file."""
    chance = np.random.default_rng(number)
    status, suppliers = (
        pa.array([f"{name} {n:06d}" for n in range(values)])
        for name, values in (("status", 3), ("supplier", 100_000))
    )
    columns = [
        status.take(pa.array(chance.integers(0, 3, FILE_ROWS))),
        chance.integers(0, 50, FILE_ROWS),
        chance.integers(0, 50, FILE_ROWS).astype("int32"),
        suppliers.take(pa.array(chance.integers(0, 100_000, FILE_ROWS))),
        chance.permutation(FILE_ROWS) + number * FILE_ROWS,
        chance.normal(size=FILE_ROWS),
    ]
    return pa.table(columns, [*COLUMNS, "amount"])


def main() -> None:
    millions = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    with tempfile.TemporaryDirectory() as folder:
        table = f"{folder}/orders"
        for number in range(millions):
            write_deltalake(table, rows(number), mode="append")
        drive = Drive(table, f"{table}/_tailbit", COLUMNS)
        began = time.process_time()
        drive.drain()
        build = time.process_time() - began
        size = sum(file.stat().st_size for file in pathlib.Path(table, "_tailbit").rglob("*.parquet"))
        count = millions * FILE_ROWS
        line: dict[str, object] = {"rows": count, "columns": len(COLUMNS)}
        line["rows a second of one core"] = round(count / build)
        line["bytes a row"] = round(size / count, 2)
        tell(line)


if __name__ == "__main__":
    main()
