"""What does merging eight segments cost beside building them?

A table of one integer column in eight files, a commit and a segment each; CPU seconds of this process for the
eight builds, and for the merge of their segments, by number of distinct values.

Usage: python workloads/merge.py [rows of a file] [distinct ...]; `all` is one a row. A line a column.
"""

from __future__ import annotations

import pathlib
import statistics
import sys
import tempfile
import time

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake
from index_of import Upkeep
from timing import tell

import tailbit

ROWS = 1_000_000
DISTINCT = ("3", "7", "2526", "100000", "all")
SEGMENTS = 8
REPEATS = 3


def main() -> None:
    given = sys.argv[1:]
    rows = int(given[0]) if given else ROWS
    for distinct in given[1:] or DISTINCT:
        times = [_measured(rows, distinct) for _ in range(REPEATS)]
        build, merge = (statistics.median(some) for some in zip(*times, strict=True))
        found = {"distinct": distinct, "build CPU s": round(build, 2), "merge CPU s": round(merge, 2)}
        tell(found | {"merge / build": round(merge / build, 2)})


def _measured(rows: int, distinct: str) -> tuple[float, float]:
    """CPU seconds of the builds, and of the merge; stops where the merged index answers otherwise."""
    values = _values(rows, distinct)
    with tempfile.TemporaryDirectory() as folder:
        table = pathlib.Path(folder) / "t"
        upkeep, build = None, 0.0
        for part in np.split(values, SEGMENTS):
            write_deltalake(str(table), pa.table({"v": part}), mode="append")
            upkeep = upkeep or Upkeep(table, ["v"])
            begun = time.process_time()
            upkeep.catch_up()
            build += time.process_time() - begun
        assert upkeep is not None
        before = len(upkeep.index.state.spaces)
        begun = time.process_time()
        upkeep.merge()
        took = time.process_time() - begun
        after, wanted = len(upkeep.index.state.spaces), int(np.count_nonzero(values == values[0]))
        answer = tailbit.open(str(table)).where(f"v = {values[0]}")
        found = (answer.count(), answer.files_scanned)
        if (before, after, found) != (SEGMENTS, 1, (wanted, 0)):
            raise SystemExit(f"{before} row spaces became {after}; {found} where {wanted} rows were expected")
    return build, took


def _values(rows: int, distinct: str) -> np.ndarray:
    rng = np.random.default_rng(1)
    every = rows * SEGMENTS
    return rng.permutation(every) if distinct == "all" else rng.integers(0, int(distinct), every)


if __name__ == "__main__":
    main()
