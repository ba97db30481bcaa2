"""How many bytes a row does an index of a column take, and what do few and many keys cost, by cardinality?

A column has `distinct` distinct integers, uniform or clustered (sorted). It is set beside the entropy, the
same column in Parquet, and DuckDB on that file. `apart`: the entropy of the positions of each key by
themselves, summed: no index takes less of which the posting of one key is read without those of others. The
index is built by a task in this process; a merge is not part of it.

Usage: python workloads/encodings.py [rows] [distinct ...]; `all` is one a row. A line a column.
"""

from __future__ import annotations

import pathlib
import statistics
import sys
import tempfile
import time

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake
from index_of import index_without_spark
from timing import same, tell

import tailbit
from tailbit.index.evaluation.costs import SPENT
from tailbit.index.evaluation.key_selection import UNIONS
from tailbit.index.postings.codes import CODES
from tailbit.index.postings.segment import POSTINGS

ROWS = 6_000_000
DISTINCT = ("3", "7", "2526", "100000", "1000000", "all")
KEYS = (1, 400, 59_000)
"""Keys that a question is about: one by its value, more of them as a range."""

REPEATS = 7


def main() -> None:
    given = sys.argv[1:]
    rows = int(given[0]) if given else ROWS
    for distinct in given[1:] or DISTINCT:
        many = rows if distinct == "all" else int(distinct)
        for clustered in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                found = _measured(pathlib.Path(folder), rows, many, clustered)
            tell(found)


def _measured(folder: pathlib.Path, rows: int, distinct: int, clustered: bool) -> dict[str, object]:
    table = folder / "t"
    values = _values(rows, distinct, clustered)
    write_deltalake(str(table), pa.table({"v": values}))
    source = sum(f.stat().st_size for f in table.glob("*.parquet"))
    files = [str(f) for f in table.glob("*.parquet")]
    begun = time.process_time()
    for file in files:
        pq.ParquetFile(file).read(use_threads=False)
    decode = time.process_time() - begun
    begun = time.process_time()
    index_without_spark(table, ["v"])
    build = time.process_time() - begun
    kept = {kind: sum(f.stat().st_size for f in table.glob(f"_tailbit/kind={kind}/*")) for kind in _KINDS}
    entropy, apart = _entropy(values), _entropy_apart(values)
    return {
        "distinct": distinct,
        "clustered": clustered,
        "entropy": round(entropy, 2),
        "apart": round(apart, 2),
        "parquet": round(source / rows, 2),
        **{kind: round(size / rows, 2) for kind, size in kept.items()},
        "build / decode": round(build / decode, 1),
        "build ns a row": round(build / rows * 1e9),
        "index / entropy": round(kept["bitmap_index"] / rows / entropy, 2) if not clustered else None,
        "index / apart": round(kept["bitmap_index"] / rows / apart, 2) if not clustered else None,
        "index / parquet": round(kept["bitmap_index"] / source, 2),
        **{
            f"{keys:,} {'key' if keys == 1 else 'keys'}, {name} ms": took
            for keys in KEYS
            if keys <= distinct
            for name, took in _asked(str(table), distinct, keys).items()
        },
    }


_KINDS = ("bitmap_index", "value_counts")


def _values(rows: int, distinct: int, clustered: bool) -> np.ndarray:
    rng = np.random.default_rng(1)
    values = rng.permutation(rows) if distinct == rows else rng.integers(0, distinct, rows)
    return np.sort(values) if clustered else values


def _entropy(values: np.ndarray) -> float:
    """Bytes a row that the order of the values needs, were they drawn independently."""
    counts = np.bincount(values)
    counts = counts[counts > 0]
    return float(-(counts / len(values) * np.log2(counts / len(values))).sum() / 8)


def _entropy_apart(values: np.ndarray) -> float:
    """Bytes a row that the positions of each key need, were they drawn independently and read alone."""
    shares = np.bincount(values) / len(values)
    shares = shares[shares > 0]
    others = 1 - shares
    return float(-(shares * np.log2(shares) + others * np.log2(others)).sum() / 8)


def _asked(table: str, distinct: int, keys: int) -> dict[str, float]:
    """Milliseconds to all positions, with nothing of the index kept and then again, and to DuckDB's count."""
    engine = duckdb.connect()
    engine.execute("SET threads = 1")
    opened = tailbit.open(table)
    times: dict[str, list[float]] = {"cold": [], "warm": [], "duckdb": []}
    for at in range(REPEATS):
        low = (at * 7919) % max(1, distinct - keys)
        where = f"v = {low}" if keys == 1 else f"v >= {low} AND v < {low + keys}"
        for cache in (POSTINGS, CODES, UNIONS, SPENT):
            cache.clear()
        answers = {}
        for name in times:
            begun = time.perf_counter()
            if name == "duckdb":
                row = engine.execute(f"SELECT count(*) FROM '{table}/*.parquet' WHERE {where}").fetchone()
                answers[name] = int(row[0]) if row else 0
            else:
                answers[name] = sum(len(found) for found in opened.where(where).positions().values())
            times[name].append((time.perf_counter() - begun) * 1e3)
        same(answers)
    return {name: round(statistics.median(found), 2) for name, found in times.items()}


if __name__ == "__main__":
    main()
