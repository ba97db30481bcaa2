"""How long from a commit visible in the source to the same commit covered by the index?

Usage: python workloads/freshness.py [COMMITS] [PER_SECOND] [TRIGGER]. A process of its own runs
`tailbit run TABLE`, or with a TRIGGER, such as 10ms, `tailbit run --config` of that table alone; this one
writes small commits and watches the index log, a probe every 2 ms.
"""

from __future__ import annotations

import contextlib
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import deltalake
import pyarrow as pa
from timing import tell

from tailbit.errors import NoIndexError
from tailbit.index.model import LedgerState
from tailbit.index.store.table import MetadataTable
from tailbit.tables.model import Version

ROWS = 100
START_S = 120


def main(commits: int = 200, per_second: float = 2.0, trigger: str = "") -> None:
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tailbit-fresh-"))
    table = folder / "events"
    deltalake.write_deltalake(str(table), rows_of(0))
    of_one = [str(table), "--columns", "kind,site"]
    tailbit = str(pathlib.Path(sys.executable).with_name("tailbit"))
    command = [tailbit, "run", "--quiet", *(_of_many(folder, table, trigger) if trigger else of_one)]
    indexer = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        waits = _measure(table, commits, per_second)
    finally:
        indexer.send_signal(signal.SIGTERM)
        indexer.wait(60)
        shutil.rmtree(folder)
    waits.sort()
    found = {
        "commits": commits,
        "per second": per_second,
        "by": f"an application, {trigger}" if trigger else "a run of the table",
        "median s": round(statistics.median(waits), 3),
        "p99 s": round(waits[int(len(waits) * 0.99) - 1], 3),
        "max s": round(waits[-1], 3),
    }
    tell(found)


def _of_many(folder: pathlib.Path, table: pathlib.Path, trigger: str) -> list[str]:
    """Return the options that run an application of one table, which looks for commits as often as that."""
    file = folder / "tailbit.toml"
    file.write_text(
        f'[application]\ncheckpoint = "{folder}/checkpoint"\nmetrics = "off"\n'
        f'[[table]]\npath = "{table}"\ncolumns = ["kind", "site"]\ntrigger = "{trigger}"\n'
    )
    return ["--config", str(file)]


def rows_of(commit: int) -> pa.Table:
    numbers = [commit * ROWS + i for i in range(ROWS)]
    return pa.table(
        {"id": numbers, "kind": [f"k{n % 7}" for n in numbers], "site": [f"s{n % 400}" for n in numbers]}
    )


def _measure(table: pathlib.Path, commits: int, per_second: float) -> list[float]:
    index = await_index(table / "_tailbit")
    handle = deltalake.DeltaTable(str(table))
    for warm_up in range(10):
        seconds_to_cover(handle, index, rows_of(warm_up + 1))
    waits, due = [], time.perf_counter()
    for commit in range(commits):
        due += 1 / per_second
        time.sleep(max(0.0, due - time.perf_counter()))
        waits.append(seconds_to_cover(handle, index, rows_of(commit + 11)))
    return waits


def await_index(path: pathlib.Path) -> MetadataTable:
    """Return an index once its first build is complete."""
    began = time.perf_counter()
    while time.perf_counter() - began < START_S:
        with contextlib.suppress(NoIndexError):
            index = MetadataTable.open(str(path))
            if index.state.ledger is not None and index.state.ledger.state is LedgerState.COMPLETE:
                return index
        time.sleep(0.1)
    raise SystemExit(f"no index came up in {START_S} s")


def seconds_to_cover(handle: deltalake.DeltaTable, index: MetadataTable, rows: pa.Table) -> float:
    """Append rows, and return the seconds from their commit to that of the index that covers them."""
    deltalake.write_deltalake(handle, rows, mode="append")
    return seconds_until_covered(index, time.perf_counter(), handle.version())


def seconds_until_covered(index: MetadataTable, written: float, wanted: Version) -> float:
    """Return the seconds from `written`, by `time.perf_counter`, to the commit that covers a version."""
    while index.state.ledger is None or (index.state.ledger.covered or 0) < wanted:
        if time.perf_counter() - written > START_S:
            raise SystemExit(f"version {wanted} is not covered after {START_S} s")
        time.sleep(0.002)
        index.refresh()
    return time.perf_counter() - written


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:2]), *(float(a) for a in sys.argv[2:3]), *sys.argv[3:4])
