"""Is an index of an expression as quick as one of a stored column?

Usage: python workloads/definitions.py [--rows N] [--repeats N]. A table of N rows in eight files holds a
text, the same in lower case, a time and its hour. One index is of `lower(name)` and `date_trunc('HOUR', at)`,
the other of the stored columns; the same questions are asked of both, warm and in turns.
"""

from __future__ import annotations

import argparse
import pathlib
import shutil
import tempfile
import time

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lineitem import FILES
from timing import medians, same, tell

import tailbit

NAMES, SECONDS_OF_A_MONTH = 2000, 30 * 86_400
QUESTIONS = {
    "equality": ("lower(name) = 'n77'", "lowered = 'n77'"),
    "IN of five": (
        "lower(name) IN ('n1', 'n2', 'n3', 'n4', 'n5')",
        "lowered IN ('n1', 'n2', 'n3', 'n4', 'n5')",
    ),
    "beginning": ("lower(name) LIKE 'n1%'", "lowered LIKE 'n1%'"),
    "range of hours": (
        "date_trunc('HOUR', at) >= TIMESTAMP'2024-01-03 05:00:00' AND date_trunc('HOUR', at) < '2024-01-09'",
        "hour >= TIMESTAMP'2024-01-03 05:00:00' AND hour < '2024-01-09'",
    ),
    "range of the time": (
        "at >= TIMESTAMP'2024-01-03 05:00:00' AND at < '2024-01-09'",
        "hour >= TIMESTAMP'2024-01-03 05:00:00' AND hour < '2024-01-09'",
    ),
    "AND": (
        "lower(name) = 'n77' AND date_trunc('HOUR', at) = '2024-01-03 05:00:00'",
        "lowered = 'n77' AND hour = '2024-01-03 05:00:00'",
    ),
}
FACETS = {
    "facets of all rows": ((None, None), "lower(name)", "lowered"),
    "facets of a fifth": (QUESTIONS["range of hours"], "lower(name)", "lowered"),
    "facets of hours": (QUESTIONS["beginning"], "date_trunc('HOUR', at)", "hour"),
}
TERMS = ["lower(name)", "date_trunc('HOUR', at)"]


def rows_of(rng: np.random.Generator, count: int) -> pa.Table:
    """Return random rows of the table."""
    numbers, cases = rng.integers(0, NAMES, count), rng.integers(0, 2, count)
    spelled = [f"{letter}{number}" for number in range(NAMES) for letter in "nN"]
    names = pa.array(spelled).take(pa.array(2 * numbers + cases))
    seconds = rng.integers(0, SECONDS_OF_A_MONTH, count) + 1_704_067_200
    at = pa.array(seconds * 1_000_000).cast(pa.timestamp("us", "UTC"))
    hour = pc.floor_temporal(at, unit="hour")
    return pa.table({"name": names, "lowered": pc.utf8_lower(names), "at": at, "hour": hour, "k": numbers})


def _written(table: pathlib.Path, rows: int) -> None:
    rng = np.random.default_rng(1)
    for _ in range(FILES):
        part = rows_of(rng, rows // FILES)
        deltalake.write_deltalake(str(table), part, mode="append", target_file_size=1 << 40)


def _asked(folder: pathlib.Path, repeats: int) -> None:
    """Tell a line of each question, and of the build of both indexes."""
    table = folder / "table"
    built: dict[str, float] = {}
    of_stored = {"terms": TERMS, "stored": ["lowered", "hour"]}
    for name, terms in of_stored.items():
        shutil.copytree(table, folder / name)
        opened, begun = tailbit.open(str(folder / name)), time.process_time()
        for number, term in enumerate(terms):
            opened.create_index(f"i{number}", term)
        built[name] = time.process_time() - begun
    _tell("build", built["terms"], built["stored"])
    terms, stored = tailbit.open(str(folder / "terms")), tailbit.open(str(folder / "stored"))
    for question, (asked, plain) in QUESTIONS.items():
        calls = {
            "terms": lambda asked=asked: terms.where(asked).count(),
            "stored": lambda plain=plain: stored.where(plain).count(),
        }
        same({name: call() for name, call in calls.items()})
        took = medians(calls, repeats)
        _tell(question, took["terms"], took["stored"])
    for question, (wheres, asked, plain) in FACETS.items():
        calls = {
            "terms": lambda where=wheres[0], asked=asked: terms.where(where).facets(asked),
            "stored": lambda where=wheres[1], plain=plain: stored.where(where).facets(plain),
        }
        same({name: call() for name, call in calls.items()})
        took = medians(calls, repeats)
        _tell(question, took["terms"], took["stored"])
    sizes = [sum(f.stat().st_size for f in (folder / name / "_tailbit").rglob("*.parquet")) for name in built]
    _tell("bytes", *sizes, unit="MB", scale=1e-6)


def _tell(question: str, terms: float, stored: float, unit: str = "ms", scale: float = 1e3) -> None:
    figures = {f"expression {unit}": round(terms * scale, 3), f"stored {unit}": round(stored * scale, 3)}
    tell({"question": question, **figures, "expression / stored": round(terms / stored, 2)})


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=4_000_000)
    options.add_argument("--repeats", type=int, default=9)
    given = options.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tailbit-definitions-"))
    try:
        _written(folder / "table", given.rows)
        _asked(folder, given.repeats)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
