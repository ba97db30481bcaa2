"""How much memory does a task take at its peak, for the files that need most?

One file of `rows` rows a line, built by a task in a process of its own; the peak is that of the whole
process (VmHWM), of which imports take some 100 MB. Linux alone.

Usage: python workloads/memory.py [rows] [file ...]. A line a file.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake
from index_of import index_without_spark
from timing import tell

ROWS = 16_000_000


def _distinct_texts(rows: int) -> pa.Array:
    return _texts(7 * rows)


def _texts(rows: int) -> pa.Array:
    numbers = np.random.default_rng(1).permutation(rows // 7)
    return pa.array([f"{number:016x}{number:030d}" for number in numbers.tolist()])


FILES: dict[str, tuple[Callable[[int], pa.Array], int]] = {
    "distinct integers": (lambda rows: pa.array(np.random.default_rng(1).permutation(rows)), 1 << 20),
    "random 64-bit integers": (lambda rows: pa.array(_wide(rows)), 1 << 20),
    "random 64-bit integers, one row group": (lambda rows: pa.array(_wide(rows)), 1 << 30),
    "distinct strings of 46 bytes, a seventh of the rows": (_texts, 1 << 20),
    "distinct strings of 46 bytes": (_distinct_texts, 1 << 20),
    "distinct strings of 46 bytes, one row group": (_distinct_texts, 1 << 30),
}
"""What is in a file: its only column, and how many rows a row group has."""


def _wide(rows: int) -> np.ndarray:
    return np.random.default_rng(1).integers(-(1 << 62), 1 << 62, rows)


def main() -> None:
    if sys.argv[1:2] == ["--task"]:
        return _task(pathlib.Path(sys.argv[2]))
    rows = int(sys.argv[1]) if sys.argv[1:] else ROWS
    for name in sys.argv[2:] or FILES:
        with tempfile.TemporaryDirectory() as folder:
            table = pathlib.Path(folder) / "t"
            subprocess.run([sys.executable, __file__, "--table", str(table), str(rows), name], check=True)
            size = sum(file.stat().st_size for file in table.glob("*.parquet"))
            ran = subprocess.run(
                [sys.executable, __file__, "--task", str(table)], check=True, capture_output=True, text=True
            )
        found = {"file": name, "rows": rows, "file MB": size >> 20} | json.loads(ran.stdout)
        tell(found)
    return None


def _table(folder: pathlib.Path, rows: int, name: str) -> None:
    """One file with one column, and a Delta log that names it."""
    make, row_group = FILES[name]
    values = make(rows)
    write_deltalake(str(folder), pa.table({"v": values[:0]}))
    write_deltalake(
        str(folder),
        pa.table({"v": values}),
        mode="append",
        target_file_size=1 << 40,
        writer_properties=_properties(row_group),
    )


def _properties(row_group: int) -> object:
    from deltalake import WriterProperties

    return WriterProperties(max_row_group_size=row_group, compression="ZSTD")


def _task(table: pathlib.Path) -> None:
    before, begun = _peak(), time.process_time()
    index_without_spark(table, ["v"])
    took = time.process_time() - begun
    found = {"MB before": before, "peak MB": _peak(), "CPU s": round(took, 1)}
    tell(found)


def _peak() -> int:
    """Peak resident MB of this process alone: `getrusage` would tell that of its parent too."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) >> 10


if __name__ == "__main__":
    if sys.argv[1:2] == ["--table"]:
        _table(pathlib.Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    else:
        main()
