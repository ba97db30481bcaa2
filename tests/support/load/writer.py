"""One writer of a load, a process of its own: appends by delta-rs, `rate` a second."""

from __future__ import annotations

import sys
import time

import numpy as np
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

ROWS = 100
"""Rows of a commit."""

VALUES = 1000
"""Distinct values of the column v."""

PATIENT = CommitProperties(max_commit_retries=1000)
"""A writer that loses the race for a version takes the next one, however often."""


def rows(rng: np.random.Generator) -> pa.Table:
    """What one commit appends."""
    texts = [f"v{n}" for n in rng.integers(0, VALUES, ROWS).tolist()]
    return pa.table({"k": rng.integers(0, 1 << 40, ROWS), "v": texts})


def main(table: str, seed: str, rate: str, seconds: str) -> None:
    """Append for `seconds`; one that comes late is not made up for by a burst. Prints how many."""
    rng, every, commits = np.random.default_rng(int(seed)), 1 / float(rate), 0
    opened, due = DeltaTable(table), time.monotonic()
    until = due + float(seconds)
    while due < until:
        write_deltalake(opened, rows(rng), mode="append", commit_properties=PATIENT)
        commits += 1
        due = max(due + every, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))
    sys.stdout.write(str(commits))


if __name__ == "__main__":
    main(*sys.argv[1:])
