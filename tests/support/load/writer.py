"""One writer of a load, a process of its own: appends small commits, `rate` a second.

A general writer takes a tenth of a second of a core for a commit, so that four of them and the indexer reach
five to nine a second on two cores. A blind append needs no more than a data file and a commit under the first
version that is free, put there only if it is absent: https://github.com/delta-io/delta/blob/master/PROTOCOL.md,
"Delta Log Entries". Log checkpoints are delta-rs's.
"""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

ROWS = 100
"""Rows of a commit."""

VALUES = 1000
"""Distinct values of the column v."""

CHECKPOINT_EVERY = 100
"""Versions of the table between two log checkpoints: delta-rs's default.

With 1,000, a compaction reads up to 1,000 commits and takes 2 s of a core in place of 0.2.
"""


def rows(rng: np.random.Generator) -> pa.Table:
    """What one commit appends."""
    texts = [f"v{n}" for n in rng.integers(0, VALUES, ROWS).tolist()]
    return pa.table({"k": rng.integers(0, 1 << 40, ROWS), "v": texts})


class Appender:
    """Appends to a table, beside any number of others."""

    def __init__(self, table: str) -> None:
        self._table, self._log = Path(table), Path(table, "_delta_log")
        self._next = int(DeltaTable(table).version()) + 1

    def append(self, data: pa.Table) -> int:
        """One commit of one file; the version it became."""
        unfinished = self._log / f".{uuid.uuid4()}.tmp"
        info = {"timestamp": time.time_ns() // 1_000_000, "operation": "WRITE", "isBlindAppend": True}
        lines = [{"commitInfo": info}, {"add": self._file(data)}]
        unfinished.write_text("".join(json.dumps(line) + "\n" for line in lines))
        while not self._put(unfinished):
            self._next += 1
        unfinished.unlink()
        if self._next % CHECKPOINT_EVERY == 0:
            DeltaTable(self._table).create_checkpoint()
        return self._next

    def compact(self) -> int:
        """Write the rows of all small files to one file, in one commit; the version it became."""
        written = DeltaTable(self._table)
        written.optimize.compact()
        self._next = int(written.version()) + 1
        return self._next - 1

    def _put(self, commit: Path) -> bool:
        try:
            os.link(commit, self._log / f"{self._next:020d}.json")
        except FileExistsError:
            return False
        return True

    def _file(self, data: pa.Table) -> dict[str, object]:
        name = f"part-{uuid.uuid4()}.parquet"
        pq.write_table(data, self._table / name)
        known = os.stat(self._table / name)
        bounds = {column: pc.min_max(data[column]).as_py() for column in data.column_names}
        stats = {
            "numRecords": len(data),
            "minValues": {column: found["min"] for column, found in bounds.items()},
            "maxValues": {column: found["max"] for column, found in bounds.items()},
            "nullCount": dict.fromkeys(bounds, 0),
        }
        return {
            "path": name,
            "partitionValues": {},
            "size": known.st_size,
            "modificationTime": known.st_mtime_ns // 1_000_000,
            "dataChange": True,
            "stats": json.dumps(stats),
        }


def main(table: str, seed: str, rate: str, seconds: str) -> None:
    """Append for `seconds`; one that comes late is not made up for by a burst. Prints how many."""
    rng, every, commits = np.random.default_rng(int(seed)), 1 / float(rate), 0
    writer, due = Appender(table), time.monotonic()
    until = due + float(seconds)
    while due < until:
        writer.append(rows(rng))
        commits += 1
        due = max(due + every, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))
    sys.stdout.write(str(commits))


if __name__ == "__main__":
    main(*sys.argv[1:])
