"""How quick is an index of two columns together, beside a bitmap on a stored column of the same values?

Usage: python workloads/tuples.py [--rows N] [--repeats N]. 6 M rows of an integer and a text, and a column
that holds both as one text, in eight files: 1,000 integers and 40 texts, so 40,000 tuples. The questions of
the two are the same; so are their answers. CPU seconds, least of some runs, warm. The builds are one process
without Spark, one core.
"""

from __future__ import annotations

import argparse
import pathlib
import shutil
import time
from collections.abc import Callable
from typing import Any

import deltalake
import numpy as np
import pyarrow as pa
from index_of import index_without_spark
from lineitem import FILES, folder
from timing import least, same, tell

import tailbit
from tailbit.index.maintenance.create import open_or_create
from tailbit.index.model import BITMAP, Definition, new_id
from tailbit.index.sql.terms import term_of
from tailbit.tables import open_table

NUMBERS, TEXTS = 1000, 40
QUESTIONS = {
    "both equal": ("a = 77 AND b = 't07'", "ab = '0077t07'"),
    "prefix equal": ("a = 77", "ab >= '0077' AND ab < '0078'"),
    "prefix and range": ("a = 77 AND b >= 't10' AND b < 't20'", "ab >= '0077t10' AND ab < '0077t20'"),
    "range": ("a BETWEEN 100 AND 599", "ab >= '0100' AND ab < '0600'"),
    "a list": (
        "a IN (1, 2, 3, 4, 5, 6, 7, 8) AND b IN ('t01', 't02')",
        f"ab IN ({', '.join(repr(f'{a:04}t{b:02}') for a in range(1, 9) for b in (1, 2))})",
    ),
}


def made(rows: int) -> pathlib.Path:
    """The table's path; made on first use."""
    table = folder() / f"tuples-{rows}"
    if (table / "_delta_log").exists():
        return table
    rng = np.random.default_rng(1)
    for _ in range(FILES):
        numbers = rng.integers(0, NUMBERS, rows // FILES)
        texts = rng.integers(0, TEXTS, rows // FILES)
        both = [f"{a:04}t{b:02}" for a in range(NUMBERS) for b in range(TEXTS)]
        data = pa.table(
            {
                "a": numbers,
                "b": pa.array([f"t{b:02}" for b in range(TEXTS)]).take(pa.array(texts)),
                "ab": pa.array(both).take(pa.array(numbers * TEXTS + texts)),
            }
        )
        deltalake.write_deltalake(str(table), data, mode="append", target_file_size=1 << 40)
    return table


def built(
    table: pathlib.Path, name: str, build: Callable[[pathlib.Path], Any]
) -> tuple[pathlib.Path, float, int]:
    """An index, the CPU seconds of its build, and the bytes of its postings and counts."""
    index = folder() / f"{table.name}-{name}"
    shutil.rmtree(index, ignore_errors=True)
    used = time.process_time()
    build(index)
    used = time.process_time() - used
    return index, used, sum(file.stat().st_size for file in index.glob("kind=*/*.parquet"))


def together(table: pathlib.Path, index: pathlib.Path) -> None:
    """Build an index of both columns together."""
    opened = open_table(str(table))
    terms = tuple(term_of(name, opened.snapshot().schema) for name in ("a", "b"))
    definition = Definition(new_id(), "both", BITMAP, terms)
    open_or_create(str(index), lambda: [definition], opened.storage.options)
    index_without_spark(table, None, index)


def compared(question: str, calls: dict[str, Callable[[], Any]], repeats: int) -> None:
    """Tell a line of a question that both indexes are asked."""
    rows = same({name: call() for name, call in calls.items()})
    took = {name: cpu for name, (_, cpu) in least(calls, repeats).items()}
    tell(
        {
            "question": question,
            "rows": rows,
            **{f"{name} cpu ms": round(seconds * 1e3, 3) for name, seconds in took.items()},
            "tuples / stored, cpu": round(took["tuples"] / took["stored"], 2),
        }
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=6_000_000)
    options.add_argument("--repeats", type=int, default=9)
    given = options.parse_args()
    table = made(given.rows)
    stored, stored_cpu, stored_bytes = built(
        table, "stored", lambda index: index_without_spark(table, ("ab",), index)
    )
    tuples, tuples_cpu, tuples_bytes = built(table, "tuples", lambda index: together(table, index))
    tell(
        {
            "question": "build",
            "tuples cpu s": round(tuples_cpu, 2),
            "stored cpu s": round(stored_cpu, 2),
            "tuples / stored, cpu": round(tuples_cpu / stored_cpu, 2),
            "tuples / stored, bytes": round(tuples_bytes / stored_bytes, 2),
        }
    )
    by_column, by_tuple = tailbit.open(str(table), str(stored)), tailbit.open(str(table), str(tuples))
    for question, (of_parts, of_column) in QUESTIONS.items():
        calls: dict[str, Callable[[], Any]] = {
            "tuples": lambda where=of_parts: by_tuple.where(where).count(),
            "stored": lambda where=of_column: by_column.where(where).count(),
        }
        compared(question, calls, given.repeats)
    groups: dict[str, Callable[[], Any]] = {
        "tuples": lambda: len(by_tuple.where().facets("a", "b")),
        "stored": lambda: len(by_column.where().facets("ab")),
    }
    compared("facets", groups, given.repeats)


if __name__ == "__main__":
    main()
