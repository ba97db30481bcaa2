"""Keys located by a record key, beside a bitmap of the same column, DuckDB's semi-join and Lance's BTREE.

Usage: python workloads/record_keys.py [--rows N] [--no-lance]. The table has integers that are a permutation
and random UUIDs as text, N rows (60 M) in 200 files; of the texts, `keys=hash` keeps a hash. Every call asks
for other keys, at random; wall and CPU are the least of three calls in a process that has asked for 100,000
keys before. Lance and DuckDB answer the rows of the keys.
"""

from __future__ import annotations

import argparse
import pathlib
import shutil
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import deltalake
import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from index_of import keyed_index
from lineitem import folder
from peers import LanceTable
from timing import tell

import tailbit

FILES, COUNTS = 200, (1, 100, 10_000, 100_000)
ASKED = {"id": (2, 15, 150, 800), "uuid": (20, 20, 350, 2_000)}
"""Milliseconds that each number of keys may take."""

KINDS: dict[str, tuple[str, dict[str, str]]] = {
    "record_key": ("record_key", {}),
    "keys=hash": ("record_key", {"keys": "hash"}),
    "bitmap": ("bitmap", {}),
}
"""By name the kind of an index and its options; integers have no use for hashes."""


def texts(rng: np.random.Generator, rows: int) -> pa.StringArray:
    """Random UUIDs as text."""
    digits = np.frombuffer(rng.bytes(16 * rows).hex().encode(), dtype="S1").reshape(rows, 32)
    out = np.full((rows, 36), b"-", dtype="S1")
    for begin, end, at in ((0, 8, 0), (8, 12, 9), (12, 16, 14), (16, 20, 19), (20, 32, 24)):
        out[:, at : at + end - begin] = digits[:, begin:end]
    ends = np.arange(0, 36 * rows + 1, 36, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(ends), pa.py_buffer(out.tobytes())])


def table(rows: int) -> pathlib.Path:
    """The table's path; made on first use."""
    path = folder() / f"record_keys-{rows}"
    if not (path / "_delta_log").exists():
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        rng = np.random.default_rng(1)
        for number, ids in enumerate(np.array_split(rng.permutation(rows), FILES)):
            part = pa.table({"id": ids, "uuid": texts(rng, len(ids))})
            pq.write_table(part, path / f"part-{number:03}.parquet", use_dictionary=False)
        deltalake.convert_to_deltalake(str(path))
    return path


def indexed(path: pathlib.Path, name: str, column: str) -> tuple[tailbit.IndexedTable, float, int]:
    """An open table with a merged index of a column, the CPU seconds that it took to build, and its bytes."""
    index = folder() / f"{path.name}-{name}-{column}"
    kind, options = KINDS[name]
    began = time.process_time()
    upkeep = keyed_index(path, column, kind, options, index)
    seconds = time.process_time() - began
    for _ in range(3):
        upkeep.merge()
    size = sum(file.size for file in upkeep.index.state.files.values())
    return tailbit.open(str(path), str(index)), seconds, size


def least(call: Callable[[pa.Table], int], keys: Callable[[], pa.Table]) -> tuple[float, float]:
    """Return the least wall and CPU milliseconds of three calls after a first one."""
    times = []
    # To draw keys reads the table, and would leave little of the index in the caches of the CPU.
    for asked in [keys() for _ in range(4)]:
        wall, cpu = time.perf_counter(), time.process_time()
        assert call(asked) == len(asked)
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
    return min(w for w, _ in times[1:]) * 1e3, min(c for _, c in times[1:]) * 1e3


def drawn(path: pathlib.Path, column: str, rng: np.random.Generator, count: int) -> pa.Table:
    """Keys of rows of four of the files."""
    files = rng.choice(sorted(map(str, path.glob("*.parquet"))), 4, replace=False)
    rows = pa.concat_tables([pq.read_table(file, columns=[column]) for file in files])
    return rows.take(pa.array(rng.choice(len(rows), min(count, len(rows)), replace=False)))


def joined(files: str, column: str, keys: pa.Table) -> int:
    """How many rows DuckDB's semi-join finds, with their places."""
    with duckdb.connect() as engine:
        engine.register("k", keys)
        rows = f"read_parquet('{files}', filename = true, file_row_number = true)"
        wanted = f"SELECT filename, file_row_number FROM {rows} WHERE {column} IN (SELECT {column} FROM k)"
        return int(engine.sql(f"SELECT count(*) FROM ({wanted})").fetchall()[0][0])


def by_lance(lance: LanceTable, column: str, keys: pa.Table) -> int:
    """How many rows Lance finds by its BTREE."""
    listed = ", ".join(map(repr, keys[column].to_pylist()))
    return len(lance.read([column], f"{column} IN ({listed})"))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=60_000_000)
    options.add_argument("--no-lance", action="store_true")
    given = options.parse_args()
    path = table(given.rows)
    for column, most in ASKED.items():
        calls: dict[str, Callable[[pa.Table], int]] = {}
        sizes: dict[str, Any] = {"keys of": column, "keys": "bytes a row"}
        for name in KINDS if column == "uuid" else ("record_key", "bitmap"):
            opened, seconds, size = indexed(path, name, column)
            calls[name] = lambda keys, opened=opened: opened.locate(keys)["path"].drop_null().length()
            sizes |= {name: round(size / given.rows, 2), f"{name} build cpu s": round(seconds, 1)}
        if not given.no_lance:
            lance = LanceTable(path, [column], sorted_=(column,))
            sizes["lance"] = round(lance.size_of(column) / given.rows, 2)
            calls["lance"] = partial(by_lance, lance, column)
        tell(sizes)
        many = drawn(path, column, np.random.default_rng(), COUNTS[-1])
        for call in calls.values():
            call(many)
        calls["duckdb"] = partial(joined, str(path / "*.parquet"), column)
        for count, asked in zip(COUNTS, most, strict=True):
            keys = partial(drawn, path, column, np.random.default_rng(count), count)
            row: dict[str, Any] = {"keys of": column, "keys": count}
            for name, call in calls.items():
                wall, cpu = least(call, keys)
                row |= {f"{name} ms": round(wall, 1), f"{name} cpu ms": round(cpu, 1)}
            ratio = round(row["record_key ms"] / row["duckdb ms"], 3)
            tell(row | {"record_key / duckdb": ratio, "at most": asked})


if __name__ == "__main__":
    main()
