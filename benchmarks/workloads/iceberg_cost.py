"""What does an Iceberg table cost by its size and its history? Opening, a commit after it, a question.

Usage: python workloads/iceberg_cost.py [MANIFESTS]. Manifests of 100 files are written by hand, with sizes,
counts and bounds of ten columns as Spark writes them; the data files but one do not exist. Opening is that of
a fresh process from its imports on. CPU is told besides wall time: other work disturbs it least.
"""

from __future__ import annotations

import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import fastavro
import pyarrow as pa
from timing import tell

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests"))
from support.iceberg_builder import IcebergBuilder, Written, entry_schema, single
from tailbit.tables.open import open_table

MANIFESTS, FEW, FILES, RUNS, COMMITS, LONG = 1_000, 10, 100, 5, 15, 1_000
TYPES = ("long", "string", "int", "double", "date", "long", "string", "double", "timestamp", "boolean")
FIELDS = [{"id": n, "name": f"c{n}", "required": False, "type": type_} for n, type_ in enumerate(TYPES, 1)]
OPENED = """
import json, sys, time
from tailbit.tables.open import open_table
from tailbit.tables.iceberg import table, avro
import pyarrow, fastavro, polars
pyarrow.array([1])
began, cpu = time.perf_counter(), time.process_time()
files = open_table(sys.argv[1]).snapshot().files
assert len(files) == int(sys.argv[2])
print(json.dumps([time.perf_counter() - began, time.process_time() - cpu]))
"""
ASKED = """
import json, sys, time
import tailbit
opened = tailbit.open(sys.argv[1])
opened.where("c1 = 7").count()
cold, times = time.process_time(), []
for _ in range(200):
    began = time.process_time()
    opened.where("c1 = 7").count()
    times.append(time.process_time() - began)
print(json.dumps([cold, sorted(times)[100]]))
"""


def main(manifests: int = MANIFESTS) -> None:
    with tempfile.TemporaryDirectory(prefix="tailbit-iceberg-") as name:
        folder = pathlib.Path(name)
        tables = {count: _Table(folder / f"m{count}", count) for count in (FEW, manifests)}
        for count, table in tables.items():
            runs = [_run(OPENED, table.path, str(count * FILES)) for _ in range(RUNS)]
            wall, cpu = (round(statistics.median(times), 3) for times in zip(*runs, strict=True))
            question = f"opening, {count * FILES:,} files in {count:,} manifests"
            tell({"question": question, "wall s": wall, "CPU s": cpu})
        for question, hides in (("a commit", False), ("a commit with a deletion vector", True)):
            small, large = (_commits(table, hides) for table in tables.values())
            tell({"question": question, "small, CPU ms": small, "large, CPU ms": large})
        aged = [_aged(folder / f"h{count}", count) for count in (1, LONG)]
        runs = [[_run(ASKED, path) for path in aged] for _ in range(RUNS)]
        for place, kind in enumerate(("cold", "warm")):
            young, old = (1000 * min(run[age][place] for run in runs) for age in (0, 1))
            figures = {"young, CPU ms": round(young, 2), "old, CPU ms": round(old, 2)}
            tell({"question": f"a {kind} count, by history"} | figures | {"ratio": round(old / young, 2)})


class _Table:
    """A table of so many manifests; a commit adds one with one file, or with one deletion vector."""

    def __init__(self, path: pathlib.Path, manifests: int) -> None:
        self.builder, self.path = _builder(path), str(path)
        self._rng = random.Random(manifests)
        self._lists = [self._manifest(FILES) for _ in range(manifests)]
        self.commit()

    def commit(self, hidden_from: str = "") -> None:
        """Commit a manifest with one file, or with a deletion vector of a file."""
        id_ = self.builder.new_snapshot()
        if hidden_from:
            of_file = {hidden_from: Written(hidden_from, {})}
            deletes = self.builder.vectors({hidden_from: [1, 2]}, of_file)
            self._lists.append(self.builder.manifest([(1, delete) for delete in deletes], 0, True, id_))
        elif self.builder.number:
            self._lists.append(self._manifest(1))
        self.builder.add_snapshot(id_, self._lists, "append")
        self.builder.commit()

    def _manifest(self, files: int) -> dict[str, Any]:
        entries = [self._entry() for _ in range(files)]
        name = self.builder.root / "metadata" / f"{self._rng.getrandbits(64):016x}-m0.avro"
        header = {
            "schema": json.dumps(self.builder.schemas[0]),
            "partition-spec": "[]",
            "format-version": "2",
        }
        with name.open("wb") as out:
            fastavro.writer(out, entry_schema([], 2), entries, codec="deflate", metadata=header)
        return {
            "manifest_path": self.builder.named(f"metadata/{name.name}"),
            "manifest_length": name.stat().st_size,
            "partition_spec_id": 0,
            "content": 0,
            "sequence_number": self.builder.sequence or 1,
            "min_sequence_number": 0,
            "added_snapshot_id": 1,
            **{
                f"{kind}_{what}_count": 0
                for kind in ("added", "existing", "deleted")
                for what in ("files", "rows")
            },
        }

    def _entry(self) -> dict[str, Any]:
        numbers = [{"key": f["id"], "value": self._rng.randrange(1 << 20)} for f in FIELDS]
        bounds = [
            {"key": f["id"], "value": single(self._value(f["type"]), _stored(f["type"]))} for f in FIELDS
        ]
        data = {
            "content": 0,
            "file_path": self.builder.named(f"data/00000-{self._rng.getrandbits(128):032x}.parquet"),
            "file_format": "PARQUET",
            "partition": {},
            "record_count": 1000,
            "file_size_in_bytes": 10_000,
            **dict.fromkeys(("column_sizes", "value_counts", "null_value_counts"), numbers),
            "nan_value_counts": numbers[3:4],
            **dict.fromkeys(("lower_bounds", "upper_bounds"), bounds),
        }
        return {"status": 1, "snapshot_id": 1, "data_file": data}

    def _value(self, type_: str) -> Any:
        number = self._rng.randrange(1 << 20)
        values = {"string": f"value {number:010}", "double": number / 7, "boolean": number % 2 == 0}
        return values.get(type_, number)


def _stored(type_: str) -> str:
    """Return the type whose bytes are those of a type."""
    return {"date": "int", "timestamp": "long"}.get(type_, type_)


def _builder(path: pathlib.Path) -> IcebergBuilder:
    builder = IcebergBuilder(str(path), random.Random(7))
    builder.gz, builder.lags = False, False
    builder.schemas.append({"type": "struct", "schema-id": 0, "fields": FIELDS})
    return builder


def _aged(path: pathlib.Path, snapshots: int) -> str:
    """Return the path of a table of one small file and so many snapshots."""
    builder = _builder(path)
    rows = pa.table([pa.array([7, 8], pa.int64())], names=["c1"])
    file: Written = builder.data_file(rows, FIELDS[:1], {})
    listed = None
    for _ in range(snapshots):
        id_ = builder.new_snapshot()
        listed = listed or [builder.manifest([(1, file)], 0, False, id_)]
        builder.add_snapshot(id_, listed, "append")
    builder.commit()
    return str(path)


def _commits(table: _Table, hides: bool) -> float:
    """Return the CPU in ms of seeing a commit of one file, or of one deletion vector."""
    followed, spent = open_table(table.path), []
    paths = followed.snapshot().files.paths.to_pylist()
    for number in range(COMMITS):
        table.commit(paths[number * 50] if hides else "")
        began = time.process_time()
        head = followed.head()
        assert len(followed.changes(head, head).slices) == 1
        followed.snapshot()
        spent.append(1000 * (time.process_time() - began))
    return round(statistics.median(spent), 1)


def _run(script: str, *arguments: str) -> list[float]:
    """Return what a script prints in a process of its own."""
    said = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, check=True)
    numbers: list[float] = json.loads(said.stdout)
    return numbers


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:2]))
