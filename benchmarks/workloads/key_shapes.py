"""Keys of fourteen shapes, located and listed in conditions, beside DuckDB's semi-join.

Usage: python workloads/key_shapes.py [--rows N] [--repeats N] [--shapes A;B] [--counts A,B]. N rows (6 M) in
twelve files, in no order unless the shape says so; deletion vectors hide one row of fifty; each shape has an
index. A line for each shape and number of keys: the first call in the process, and medians of later ones,
each beside one of DuckDB's right after it, which reads hidden rows too. Times are milliseconds of CPU, and in
`wall` of wall time. Each answer is compared with DuckDB's rows, by file and position.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import deltalake
import duckdb
import numpy as np
import pyarrow as pa
from lineitem import folder
from timing import tell

import tailbit

FILES, COUNTS = 12, (1, 100, 10_000)
ABSENT = 10
"""One key of ten is in no row."""

HIDDEN = 50
"""One row of fifty is hidden by a deletion vector."""

MOST = {1: 1.0, 100: 1.0, 10_000: 0.3}
"""What a warm look-up may take of the semi-join, by its number of keys."""

SHAPES = {
    "unique integers": ("id", "record_key"),
    "4 rows a key": ("four", "record_key"),
    "100 rows a key": ("hundred", "record_key"),
    "skewed: half of the rows have one of 100 keys": ("skewed", "record_key"),
    "4 rows a key, side by side": ("clustered", "record_key"),
    "two integers": ("id, line", "record_key"),
    "an integer and a text with NULL": ("four, note", "record_key"),
    "texts with a long prefix": ("link", "record_key"),
    "short texts, 4 rows a key": ("customer", "record_key"),
    "texts of very different lengths": ("varied", "record_key"),
    "decimals": ("amount", "record_key"),
    "doubles with -0.0 and NaN": ("ratio", "record_key"),
    "times": ("second", "record_key"),
    "4 rows a key, bitmap": ("half", "bitmap"),
}
"""By name the columns of the keys and the kind of their index."""


def part_of(numbers: np.ndarray[Any, Any], first: int) -> pa.Table:
    """Rows with given numbers, which are a part of a permutation; `first`: how many rows come before."""
    four = numbers // 4
    hundred_keys = numbers % 100
    ratio = np.where(four % 1000 == 0, np.nan, np.where(four % 1000 == 1, -0.0 * (numbers % 2), four / 7))
    return pa.table(
        {
            "id": numbers,
            "line": (numbers % 7).astype(np.int32),
            "four": four,
            "half": four,
            "hundred": numbers // 100,
            "skewed": np.where(numbers % 2 == 0, hundred_keys, numbers),
            "clustered": (np.arange(len(numbers)) + first) // 4,
            "note": pa.array([f"n{number % 9}" for number in four.tolist()], mask=four % 50 == 3),
            "link": [f"https://shop.example/o/{n * 2654435761 % 2**40:012x}" for n in numbers.tolist()],
            "customer": [f"cust-{number:09d}-eu" for number in four.tolist()],
            "varied": [f"{n}" * (25 if n % 100 == 0 else 1) for n in numbers.tolist()],
            "amount": pa.array(numbers).cast(pa.decimal128(20, 0)),
            "ratio": ratio,
            "second": pa.array(numbers * 1_000_000, pa.timestamp("us", "UTC")),
        }
    )


def table(rows: int) -> pathlib.Path:
    """The path of the table with its indexes; made on first use."""
    path = folder() / f"key_shapes-{rows}"
    if not (path / "_done").exists():
        shutil.rmtree(path, ignore_errors=True)
        first = 0
        for numbers in np.array_split(np.random.default_rng(1).permutation(rows), FILES):
            deltalake.write_deltalake(str(path), part_of(numbers, first), mode="append")
            first += len(numbers)
        hide(path)
        for number, (columns, kind) in enumerate(SHAPES.values()):
            tailbit.sql(f"CREATE INDEX key_{number} ON '{path}' USING {kind} ({columns})")
        (path / "_done").touch()
    return path


def hide(path: pathlib.Path) -> None:
    """Hide rows by deletion vectors, in one commit: those that a view of the other rows has."""
    view = path.with_name(f"{path.name}-shown")
    shutil.rmtree(view, ignore_errors=True)
    tailbit.open(str(path)).where(f"id % {HIDDEN} <> 0").to_delta(view)
    log = (view / "_delta_log" / f"{0:020}.json").read_text().splitlines()
    actions = [json.loads(line) for line in log if line]
    adds = [
        action["add"] | {"path": pathlib.Path(action["add"]["path"]).name}
        for action in actions
        if "add" in action
    ]
    removes = [{"path": add["path"], "deletionTimestamp": 0, "dataChange": True} for add in adds]
    commit = [action for action in actions if "protocol" in action]
    commit += [{"remove": remove} for remove in removes] + [{"add": add} for add in adds]
    for vectors in view.glob("*.bin"):
        shutil.move(vectors, path)
    version = len(list((path / "_delta_log").glob("*.json")))
    log_file = path / "_delta_log" / f"{version:020}.json"
    log_file.write_text("\n".join(map(json.dumps, commit)) + "\n")
    shutil.rmtree(view)


class Contest:
    """An open table, and DuckDB on its files."""

    def __init__(self, path: pathlib.Path) -> None:
        self.opened, self.path = tailbit.open(str(path)), path
        self.engine = duckdb.connect()
        self.files = sorted(map(str, path.glob("*.parquet")))

    def keys(self, columns: str, count: int) -> pa.Table:
        """Distinct keys, none with NULL; some of them are in no row."""
        valued = " AND ".join(f"{name} IS NOT NULL" for name in columns.split(", "))
        every = f"SELECT DISTINCT {columns} FROM read_parquet({self.files}) WHERE {valued}"
        there = self.engine.sql(f"SELECT * FROM ({every}) USING SAMPLE {count} (reservoir, 5)")
        there = there.to_arrow_table()
        absent = part_of(np.arange(count // ABSENT) + (1 << 33), 1 << 33).select(there.column_names)
        valid = absent.cast(there.schema).drop_null()
        return pa.concat_tables([there.slice(len(valid)), valid])

    def located(self, keys: pa.Table) -> pa.Table:
        """What `locate` finds."""
        return self.opened.locate(keys, on=keys.column_names)

    def joined(self, keys: pa.Table) -> list[tuple[str, int]]:
        """Files and rows that DuckDB's semi-join finds."""
        self.engine.register("k", keys)
        rows = f"read_parquet({self.files}, filename = true, file_row_number = true)"
        using = ", ".join(keys.column_names)
        return self.engine.sql(
            f"SELECT filename, file_row_number FROM {rows} SEMI JOIN k USING ({using})"
        ).fetchall()

    def visible(self, rows: list[tuple[str, int]]) -> set[tuple[str, int]]:
        """Those of some rows that no deletion vector hides."""
        if not hasattr(self, "hidden"):
            every = f"read_parquet({self.files}, filename = true, file_row_number = true)"
            query = f"SELECT filename, file_row_number FROM {every} WHERE id % {HIDDEN} = 0"
            self.hidden = set(self.engine.sql(query).fetchall())
        return set(rows) - self.hidden

    def listed(self, keys: pa.Table) -> int | None:
        """How many rows have one of the keys by a condition; None for keys of several columns."""
        if keys.num_columns > 1:
            return None
        return self.opened.where(tailbit.col(keys.column_names[0]).isin(*keys[0].to_pylist())).count()


def timed(call: Callable[[], Any]) -> tuple[Any, float, float]:
    """What a call returns, and its milliseconds of CPU and of wall time."""
    began, cpu = time.perf_counter(), time.process_time()
    answer = call()
    return answer, (time.process_time() - cpu) * 1e3, (time.perf_counter() - began) * 1e3


def measured(contest: Contest, shape: str, count: int, repeats: int) -> dict[str, Any]:
    """The line of a shape and a number of keys."""
    keys = contest.keys(SHAPES[shape][0], count)
    rounds = []
    for _ in range(repeats + 1):
        found, *ours = timed(lambda: contest.located(keys))
        rows, *theirs = timed(lambda: contest.joined(keys))
        by_list, *lists = timed(lambda: contest.listed(keys))
        rounds.append((*ours, *theirs, *lists))
    there = found.filter(pa.compute.is_valid(found["path"]))
    places = {(str(contest.path / row["path"]), row["position"]) for row in there.to_pylist()}
    right = contest.visible(rows)
    first, (cpu, wall, duck_cpu, duck_wall, list_cpu, list_wall) = rounds[0], zip(*rounds[1:], strict=True)
    none = by_list is None
    return {
        "shape": shape,
        "keys": len(keys),
        "rows": len(right),
        "same": int(places == right and by_list in (None, len(right))),
        "first ms": round(first[0], 1),
        "first list ms": None if none else round(first[4], 1),
        "locate ms": round(statistics.median(cpu), 1),
        "duckdb ms": round(statistics.median(duck_cpu), 1),
        "locate / duckdb": ratio(cpu, duck_cpu),
        "list / duckdb": None if none else ratio(list_cpu, duck_cpu),
        "locate / duckdb, wall": ratio(wall, duck_wall),
        "list / duckdb, wall": None if none else ratio(list_wall, duck_wall),
        "at most": MOST.get(count, 1.1),
    }


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of the ratios of calls that were made one after the other."""
    return round(statistics.median(a / b for a, b in zip(ours, theirs, strict=True)), 3)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=6_000_000)
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--shapes", help="names, with a semicolon between; without it, all")
    options.add_argument("--counts", default=",".join(map(str, COUNTS)), help="numbers of keys")
    given = options.parse_args()
    contest = Contest(table(given.rows))
    for shape in given.shapes.split(";") if given.shapes else SHAPES:
        for count in map(int, given.counts.split(",")):
            tell(measured(contest, shape, count, given.repeats))


if __name__ == "__main__":
    main()
