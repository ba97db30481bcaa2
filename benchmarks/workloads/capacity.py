"""What does an index cost to build and to keep, in CPU time: rows a second of one core, and a small commit?

A table of a few large files is indexed in this process, by the engine of `tailbit run`, without Spark; then
small commits follow one by one. CPU time is that of the process, so other work on the machine counts little.

Usage: python workloads/capacity.py [million rows]. One line.
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

COLUMNS = ("status", "region", "customer")
FILE_ROWS, COMMITS, COMMIT_ROWS = 1_000_000, 50, 100


def rows(seed: int, count: int) -> pa.Table:
    """Return rows of three texts of 5, 50 and 100,000 values, and a number that is not indexed."""
    chance = np.random.default_rng(seed)

    def texts(name: str, values: int) -> pa.Array:
        codes = pa.array(chance.integers(0, values, count), pa.int32())
        return pa.DictionaryArray.from_arrays(codes, [f"{name}{n}" for n in range(values)]).cast(pa.string())

    columns = [texts(name, values) for name, values in zip(COLUMNS, (5, 50, 100_000), strict=True)]
    return pa.table([*columns, chance.random(count)], [*COLUMNS, "amount"])


def main() -> None:
    millions = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    with tempfile.TemporaryDirectory() as folder:
        table = f"{folder}/orders"
        for seed in range(millions):
            write_deltalake(table, rows(seed, FILE_ROWS), mode="append")
        drive = Drive(table, f"{table}/_tailbit", COLUMNS)
        began = time.process_time()
        drive.drain()
        build = time.process_time() - began
        size = sum(
            file.stat().st_size for file in pathlib.Path(table, "_tailbit").rglob("*") if file.is_file()
        )
        kept = 0.0
        for seed in range(COMMITS):
            write_deltalake(table, rows(seed, COMMIT_ROWS), mode="append")
            began = time.process_time()
            drive.drain()
            kept += time.process_time() - began
        line: dict[str, object] = {"rows": millions * FILE_ROWS, "columns": len(COLUMNS)}
        line["rows a second of one core"] = round(millions * FILE_ROWS / build)
        line["bytes a row, of all columns"] = round(size / (millions * FILE_ROWS), 2)
        line["CPU ms a small commit"] = round(1000 * kept / COMMITS, 1)
        tell(line)


if __name__ == "__main__":
    main()
