"""What do long lists and many alternatives cost over many files that no index covers, beside DuckDB?

Usage: python workloads/long_lists.py. The statistics of all files overlap: none is pruned by a list
that is spread over all values. Small files, so that what is asked of each file counts, and not its rows.
"""

from __future__ import annotations

import json
import pathlib
import random
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from timing import tell

import tailbit

ROWS, WIDE, RUNS, LONG_S = 200, 1_000_000, 3, 20.0
FIELDS = [("a", "long"), ("b", "long"), ("s", "string")]


def table(path: pathlib.Path, files: int, partition: bool = False) -> str:
    """A Delta table of small files with statistics, written as one commit; a partition a file if wanted."""
    rng = np.random.default_rng(7)
    actions: list[dict[str, Any]] = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}]
    fields = [*FIELDS, ("p", "string")] if partition else FIELDS
    listed = [{"name": name, "type": type_, "nullable": True, "metadata": {}} for name, type_ in fields]
    meta = {"id": "lists", "format": {"provider": "parquet", "options": {}}, "configuration": {}}
    meta |= {"schemaString": json.dumps({"type": "struct", "fields": listed})}
    actions.append({"metaData": {**meta, "partitionColumns": ["p"] if partition else []}})
    for number in range(files):
        a, b = rng.integers(0, WIDE, ROWS), rng.integers(0, WIDE, ROWS)
        texts = [f"t{value:07d}" for value in a]
        folder = f"p=v{number:05d}/" if partition else ""
        name = f"{folder}{number:05d}.parquet"
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"a": a, "b": b, "s": texts}), path / name)
        low = {"a": int(a.min()), "b": int(b.min()), "s": min(texts)}
        high = {"a": int(a.max()), "b": int(b.max()), "s": max(texts)}
        nulls = dict.fromkeys(low, 0)
        stats = {"numRecords": ROWS, "minValues": low, "maxValues": high, "nullCount": nulls}
        add = {"path": name, "size": (path / name).stat().st_size, "modificationTime": 0, "dataChange": True}
        add |= {"partitionValues": {"p": f"v{number:05d}"} if partition else {}}
        actions.append({"add": {**add, "stats": json.dumps(stats)}})
    (path / "_delta_log").mkdir()
    (path / "_delta_log" / f"{0:020d}.json").write_text("\n".join(map(json.dumps, actions)))
    return str(path)


def timed(call: Callable[[], int]) -> tuple[int, float]:
    """What a call returns, and the least of a few times, in seconds; what takes long is called once."""
    found, least = 0, float("inf")
    for _ in range(RUNS):
        start = time.perf_counter()
        found = call()
        took = time.perf_counter() - start
        least = min(least, took)
        if took > LONG_S:
            break
    return found, least


def main() -> None:
    """Ask each question of both, and print the times."""
    rng = random.Random(7)
    numbers = rng.sample(range(WIDE), 5000)
    texts = ", ".join(f"'t{n:07d}'" for n in numbers)
    pairs = " OR ".join(f"(a = {rng.randrange(WIDE)} AND b > {rng.randrange(WIDE)})" for _ in range(1000))
    parts = ", ".join(f"'v{n:05d}'" for n in range(0, 10_000, 2))
    questions = [
        ("IN of 5,000 numbers, 500 files", 500, False, f"a IN ({', '.join(map(str, numbers))})"),
        ("IN of 5,000 texts, 500 files", 500, False, f"s IN ({texts})"),
        ("NOT IN of 5,000 texts, 500 files", 500, False, f"s NOT IN ({texts})"),
        (
            "1,000 ORs on one column, 2,000 files",
            2000,
            False,
            " OR ".join(f"a = {n}" for n in numbers[:1000]),
        ),
        ("1,000 ORs of two columns, 2,000 files", 2000, False, pairs),
        ("5,000 texts on 2,000 partitions", 2000, True, f"p IN ({parts})"),
    ]
    con = duckdb.connect()
    with tempfile.TemporaryDirectory() as folder:
        made: dict[tuple[int, bool], str] = {}
        for name, files, partition, where in questions:
            at = pathlib.Path(folder) / f"{files}{partition}"
            path = made.get((files, partition)) or made.setdefault(
                (files, partition), table(at, files, partition)
            )
            glob = f"read_parquet('{path}/**/*.parquet', hive_partitioning={partition})"
            query = f"SELECT count(*) FROM {glob} WHERE {where}"
            peer, theirs = timed(partial(lambda sql: int(con.sql(sql).fetchall()[0][0]), query))
            found, ours = timed(
                partial(lambda table, text: table.where(text).count(), tailbit.open(path), where)
            )
            assert found == peer, (name, found, peer)
            row = {"question": name, "rows": found, "tailbit s": round(ours, 3), "DuckDB s": round(theirs, 3)}
            row |= {"tailbit / DuckDB": round(ours / theirs, 2)}
            tell(row)


if __name__ == "__main__":
    main()
