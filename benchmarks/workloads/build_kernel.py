"""What does building postings cost beside merely decoding the columns, and their check beside building?

One core, TPC-H lineitem, eight files.

Usage: python workloads/build_kernel.py. Prints a line a column, the total, and the peak memory of a task.
"""

from __future__ import annotations

import resource
import tempfile

import pyarrow as pa
import pyarrow.parquet as pq
from lineitem import COLUMNS, lineitem
from timing import medians, tell

from tailbit.index.keys import key_type_of
from tailbit.index.kinds.value_counts import Tally
from tailbit.index.postings.postings import Postings
from tailbit.index.postings.written import check_bitmaps
from tailbit.index.write.posting import Claim, DataFiles, post
from tailbit.index.write.run import run_task
from tailbit.index.write.work import BuildTask, Enter, TaskColumn, TaskResult
from tailbit.tables import open_table
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.schema import Schema
from tailbit.tables.storage import Storage


def main() -> None:
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    table = open_table(str(lineitem()))
    snapshot = table.snapshot()
    slices = list(snapshot.files)
    claims = _claims(slices, frozenset(snapshot.schema.resolve(name).id for name in COLUMNS))
    total = {"decode": 0.0, "build": 0.0, "check": 0.0}
    for name in COLUMNS:
        column = snapshot.schema.resolve(name)
        postings = _build(table.storage, claims, column)
        took = medians(
            {
                "decode": lambda name=name: [
                    pq.ParquetFile(f"{table.root}/{slice_.path}").read(columns=[name], use_threads=False)
                    for slice_ in slices
                ],
                "build": lambda column=column: _build(table.storage, claims, column),
                "check": lambda postings=postings: _check(claims, postings),
            },
            7,
        )
        total = {k: total[k] + v for k, v in took.items()}
        _tell(name, took)
    _tell("all four", total)
    whole = medians({"task": lambda: _task(table.root, slices, snapshot.schema)}, 3)
    _tell("all four, and the segment written", {"decode": total["decode"], "build": whole["task"]})
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    tell({"peak memory MB": round(peak)})


def _build(storage: Storage, claims: list[Claim], column: Column) -> list[Postings]:
    """What a task does for a column of the files of its row space, but for writing the segment."""
    return list(post(DataFiles(storage, [column]), column, key_type_of(column.type), claims, {}, Tally()))


def _check(claims: list[Claim], postings: list[Postings]) -> None:
    """What writing a segment does before it writes: every bitmap that is checked at all."""
    rows = sum(claim.rows for claim in claims)
    for part in postings:
        check_bitmaps(claims[0].space, part.column, part.cardinality, part.bitmaps, rows)


def _task(root: str, slices: list[FileSlice], schema: Schema) -> TaskResult:
    """A whole task over all files, its index files written and flushed, then removed."""
    columns = tuple(TaskColumn.of(schema.resolve(name)) for name in COLUMNS)
    with tempfile.TemporaryDirectory() as index:
        ids = tuple(c.column.id for c in columns)
        works = tuple(Enter(slice_, ids) for slice_ in slices)
        return run_task(BuildTask(root, index, columns, works, lineage=1, version=0))


def _claims(slices: list[FileSlice], columns: frozenset[str]) -> list[Claim]:
    """The files end to end in one row space."""
    rows = [slice_.rows or 0 for slice_ in slices]
    bases = [sum(rows[:i]) for i in range(len(rows))]
    return [Claim(p, "space", base, n, columns) for p, base, n in zip(slices, bases, rows, strict=True)]


def _tell(name: str, took: dict[str, float]) -> None:
    found: dict[str, object] = {"column": name} | {f"{k} ms": round(v * 1e3) for k, v in took.items()}
    found["ratio"] = round(took["build"] / took["decode"], 2)
    if "check" in took:
        found["check / build"] = round(took["check"] / took["build"], 3)
    tell(found)


if __name__ == "__main__":
    main()
