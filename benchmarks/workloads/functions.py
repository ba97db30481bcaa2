"""How long does a condition with a function over a million distinct keys take, and one with another constant?

Usage: python workloads/functions.py [--rows N]. CPU and wall time of the first question, whose function
nothing has asked before in the process, and of the second, which compares the same function with another
constant; and DuckDB's median on the same file where it has the function. Answers must be the same.
"""

from __future__ import annotations

import argparse
import pathlib
import shutil
import time

import deltalake
import duckdb
import numpy as np
import pyarrow as pa
from index_of import index_without_spark
from lineitem import folder
from timing import medians, same, tell

import tailbit

QUESTIONS = {
    "date_format": (
        "date_format(ts, 'yyyy-MM-dd') = '2020-10-0{}'",
        "strftime(ts, '%Y-%m-%d') = '2020-10-0{}'",
    ),
    "from_unixtime": ("from_unixtime(l) LIKE '2018-0{}%'", ""),
    "split": ("split(s, '-')[1] = '{}'", "split_part(s, '-', 2) = '{}'"),
    "split_part": ("split_part(s, '-', 2) = '{}'", "split_part(s, '-', 2) = '{}'"),
    "regexp_extract": ("regexp_extract(s, 'mail([0-9]+)', 1) = '{}'",) * 2,
    "regexp_replace": (
        "regexp_replace(s, '[0-9]+', '#') = 'user-#-{}'",
        "regexp_replace(s, '[0-9]+', '#', 'g') = 'user-#-{}'",
    ),
    "md5": ("md5(s) LIKE '0{}%'", "md5(s) LIKE '0{}%'"),
    "crc32": ("crc32(s) % 100 = {}", ""),
    "hex": ("hex(l) LIKE '%{}'", "hex(l) LIKE '%{}'"),
    "lpad": ("lpad(s, 40, 'x') LIKE '%{}.example.org'", "lpad(s, 40, 'x') LIKE '%{}.example.org'"),
    "translate": ("translate(s, 'abc', 'xyz') LIKE 'user-{}%'", "translate(s, 'abc', 'xyz') LIKE 'user-{}%'"),
    "locate": ("locate('mail5', s, 5) > {}", ""),
}


def made(rows: int) -> pathlib.Path:
    """A table of texts, times and numbers, each of which occurs once, and its index."""
    table = folder() / f"functions-{rows}"
    if not (table / "_tailbit").exists():
        shutil.rmtree(table, ignore_errors=True)
        ids = np.random.default_rng(7).permutation(rows).astype("i8")
        texts = [f"user-{n % 97}-{n:07d}@mail{n % 13}.example.org" for n in ids.tolist()]
        times = pa.array(1_600_000_000_000_000 + ids * 61_000_000).cast(pa.timestamp("us", "UTC"))
        columns = {"s": texts, "ts": times, "l": pa.array(1_500_000_000 + ids * 37)}
        deltalake.write_deltalake(str(table), pa.table(columns))
        index_without_spark(table, ["s", "ts", "l"])
    return table


def asked(opened: tailbit.IndexedTable, condition: str) -> tuple[int, float, float]:
    """A count, its wall and its CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    count = opened.where(condition).count()
    return count, time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    """A line for each function."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    table = made(rows)
    opened, files = tailbit.open(str(table)), str(table / "*.parquet")
    peer = duckdb.connect()
    peer.execute("SET TimeZone = 'UTC'")
    for column in ("s", "ts", "l"):
        opened.where(f"{column} IS NULL").count()
    for name, (ours, theirs) in QUESTIONS.items():
        count, wall, cpu = asked(opened, ours.format(4))
        _, second, second_cpu = asked(opened, ours.format(5))
        line = {
            "question": name,
            "rows": count,
            "first ms": round(wall * 1e3),
            "first cpu ms": round(cpu * 1e3),
            "second ms": round(second * 1e3),
            "second cpu ms": round(second_cpu * 1e3),
            "second / first": round(second_cpu / cpu, 3),
        }
        if theirs:
            query = f"SELECT count(*) FROM read_parquet('{files}') WHERE {theirs.format(4)}"
            same({"tailbit": count, "duckdb": peer.execute(query).fetchall()[0][0]})
            line["duckdb ms"] = round(medians({"": lambda q=query: peer.execute(q).fetchall()}, 3)[""] * 1e3)
        tell(line)


if __name__ == "__main__":
    main()
