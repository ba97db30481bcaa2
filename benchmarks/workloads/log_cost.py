"""What does reading a log cost: a snapshot of 100,000 files, and one new commit whatever the table's size?

Usage: python workloads/log_cost.py [files]. The data files do not exist: the log is all that is read.
Snapshots are taken in fresh processes that take turns, so every figure includes what a first call costs, but
not imports (pyarrow imports pandas, where it is installed, at its first Python list; `tailbit count` keeps it
out). Peak memory is the whole process, imports included.
"""

from __future__ import annotations

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from timing import tell

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests"))

from support.delta_builder import Action, DeltaBuilder

FILES, FEW = 100_000, 100
PER_COMMIT = 1_000
RUNS = 7
COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("day", pa.date32()),
        ("price", pa.float64()),
        ("name", pa.string()),
        ("p", pa.string()),
    ]
)
FORMS = {
    "classic, JSON statistics": ("classic", False),
    "classic, parsed statistics": ("classic", True),
    "V2 with sidecars": ("v2-parquet", False),
}


def main(files: int = FILES) -> None:
    with tempfile.TemporaryDirectory(prefix="tailbit-log-") as folder:
        for question, (form, parsed) in FORMS.items():
            path = pathlib.Path(folder, form + str(parsed))
            _table(path, files, form, parsed)
            for row in _snapshots(path, parsed):
                tell({"question": f"snapshot of {files:,} files, {question}"} | row)
        for row in _commits(pathlib.Path(folder), files):
            tell({"question": "one new commit"} | row)


def _add(number: int, names: np.random.Generator) -> Action:
    """An add as Spark writes it: a name of its own, five columns of statistics."""
    stats = {
        "numRecords": 1_000_000 + number,
        "minValues": {"id": number, "day": "2024-01-01", "price": 0.5, "name": f"name-{number}"},
        "maxValues": {"id": number + 9, "day": "2024-12-31", "price": 99.5, "name": f"name-{number}-z"},
        "nullCount": {"id": 0, "day": 0, "price": 1, "name": 2},
    }
    own = uuid.UUID(bytes=names.bytes(16))
    return {
        "add": {
            "path": f"p={number % 100}/part-{number % 1000:05d}-{own}.c000.snappy.parquet",
            "partitionValues": {"p": str(number % 100)},
            "size": 30_000_000 + number,
            "modificationTime": 1_700_000_000_000 + number,
            "dataChange": True,
            "stats": json.dumps(stats),
        }
    }


def _table(path: pathlib.Path, files: int, form: str, parsed: bool) -> DeltaBuilder:
    """A log of one checkpoint and the commit behind it."""
    names = np.random.default_rng(files)
    features = ["v2Checkpoint"] if form.startswith("v2") else []
    builder = DeltaBuilder(str(path)).create(COLUMNS, ["p"], features=features)
    for start in range(0, files, PER_COMMIT):
        builder.commit([_add(number, names) for number in range(start, min(start + PER_COMMIT, files))])
    builder.checkpoint(form, 2, parsed)
    hint = {"version": builder.version, "size": files + 2}
    (builder.log / "_last_checkpoint").write_text(json.dumps(hint))
    builder.commit([_add(files, names)])
    return builder


def _snapshots(path: pathlib.Path, parsed: bool) -> Iterator[dict[str, object]]:
    """Seconds and greatest peak memory of each contestant, in processes of their own, in turn.

    The least wall time, and CPU time, are what a busy machine disturbs least.
    """
    contestants = ["tailbit", "tailbit, statistics read"] + ([] if parsed else ["deltalake"])
    found: dict[str, list[tuple[float, float, float, int]]] = {name: [] for name in contestants}
    for _ in range(RUNS):
        for name in contestants:
            command = [sys.executable, __file__, name, str(path)]
            found[name].append(tuple(json.loads(subprocess.check_output(command))))
    counts = {files for runs in found.values() for *_, files in runs}
    if len(counts) != 1:
        raise SystemExit(f"the answers differ: {counts}")
    middle = {
        name: [statistics.median(kind) for kind in zip(*runs, strict=True)] for name, runs in found.items()
    }
    for name, (seconds, cpu, _, _) in middle.items():
        row: dict[str, object] = {
            "contestant": name,
            "median s": round(seconds, 3),
            "least s": round(min(run[0] for run in found[name]), 3),
            "CPU s": round(cpu, 3),
            "peak MB": round(max(run[2] for run in found[name])),
        }
        if name != "deltalake" and not parsed:
            theirs = middle["deltalake"]
            row |= {"wall / deltalake": round(seconds / theirs[0], 2)}
            row |= {"CPU / deltalake": round(cpu / theirs[1], 2)}
        yield row


def one_snapshot(name: str, path: str) -> None:
    """Seconds, CPU seconds, peak MB and files of one snapshot; libraries are imported before."""
    call = {"tailbit": _ours, "tailbit, statistics read": _ours_whole, "deltalake": _theirs}[name](path)
    began, cpu = time.perf_counter(), time.process_time()
    files = call()
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    sys.stdout.write(json.dumps([seconds, cpu, _peak(), files]))


def _peak() -> float:
    """Peak memory of this process in MB; that of `getrusage` would count the process that started it."""
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def _ours(path: str) -> Callable[[], int]:
    pa.array([0])
    from tailbit.tables import open_table

    return lambda: len(open_table(path).snapshot().files)


def _ours_whole(path: str) -> Callable[[], int]:
    pa.array([0])
    from tailbit.tables import open_table

    return lambda: open_table(path).snapshot().files.table.num_rows


def _theirs(path: str) -> Callable[[], int]:
    import deltalake

    return lambda: deltalake.DeltaTable(path).get_add_actions().num_rows


def _commits(folder: pathlib.Path, large: int) -> Iterator[dict[str, object]]:
    """Median ms of reading a commit that has just appeared, in the big table beside the small one."""
    from tailbit.tables import open_table

    tables = {}
    for files in (FEW, large):
        path = folder / f"commits{files}"
        builder = _table(path, files, "classic", False)
        table = open_table(str(path))
        table.snapshot()
        tables[files] = (builder, table, np.random.default_rng(1))
    times: dict[tuple[str, int], list[float]] = {}
    for _ in range(40):
        for files, (builder, table, names) in tables.items():
            before = table.head()
            builder.write_commit(before + 1, _commit(before, names))
            began = time.perf_counter()
            head = table.head()
            changes = table.changes(before + 1, head)
            read = time.perf_counter()
            table.fingerprint(head)
            table.snapshot()
            done = time.perf_counter()
            if len(changes.slices) != 1:
                raise SystemExit(f"{len(changes.slices)} changes")
            times.setdefault(("changes", files), []).append(read - began)
            times.setdefault(("snapshot", files), []).append(done - read)
    for what in ("changes", "snapshot"):
        few, many = (statistics.median(times[what, files]) * 1e3 for files in (FEW, large))
        yield {
            "contestant": what,
            f"ms at {FEW:,}": round(few, 3),
            f"ms at {large:,}": round(many, 3),
            "grown": round(many / few, 2),
        }


def _commit(version: int, names: np.random.Generator) -> bytes:
    lines = [{"commitInfo": {"timestamp": 1, "operation": "WRITE"}}, _add(version, names)]
    return "\n".join(json.dumps(line) for line in lines).encode()


if __name__ == "__main__":
    one_snapshot(*sys.argv[1:]) if len(sys.argv) == 3 else main(*map(int, sys.argv[1:]))
