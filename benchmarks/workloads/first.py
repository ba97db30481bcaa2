"""What does a person's first question cost in a fresh process, beside DuckDB and Polars in fresh processes?

Usage: python first.py [--repeats N]. Needs an index of lineitem; builds it (without Spark) on first use.
Each question is put by a Python process and by the command line; DuckDB and Polars are Python processes that
read the same files. Contestants take turns, each goes once uncounted, so that compiled modules and the file
cache are warm. CPU seconds are of all threads, user and system, as the system tells them of an ended process.
TAILBIT_BENCH_SCALE=10 asks 60 M rows.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from index_of import index_without_spark
from lineitem import COLUMNS, lineitem, scale
from timing import same, tell

COUNTS = {
    "equality": "l_shipmode = 'AIR'",
    "in": "l_shipmode IN ('AIR', 'RAIL', 'SHIP')",
    "range of 30 keys": "l_shipdate BETWEEN DATE'1995-03-01' AND DATE'1995-03-30'",
    "range of 900 keys": "l_shipdate BETWEEN DATE'1995-01-01' AND DATE'1997-06-18'",
    "range of 5,000 keys": "l_suppkey BETWEEN 1000 AND 5999",
    "and of 3": "l_shipmode = 'AIR' AND l_returnflag = 'R' AND l_suppkey IN (7, 77, 777)",
    "and of 5": (
        "l_shipmode IN ('AIR', 'RAIL') AND l_returnflag <> 'N' AND l_shipdate >= DATE'1994-03-01' "
        "AND l_shipdate < DATE'1994-04-10' AND NOT (l_suppkey = 7)"
    ),
    "or": "l_shipmode = 'AIR' OR l_returnflag = 'R' OR l_suppkey = 7",
    "not": "NOT (l_shipmode = 'AIR')",
    "like": "l_shipmode LIKE 'RE%'",
    "unindexed column": "l_quantity < 10",
    "near-unique text": "l_comment = 'egular courts above the'",
}
FACETS = {"facets of 7 values": "l_shipmode", "facets of 2,526 values": "l_shipdate"}
RETURNED = "l_returnflag = 'R'"
READ = {"587 rows of 3 columns": "l_suppkey = 77"}
THREE = "l_orderkey, l_extendedprice, l_comment"

SMALL, LARGE = 1.5, 1.1
"""A first answer takes at most this multiple of the quicker peer, from 6 M and from 60 M rows."""
QUICK, QUICKLY = 0.8, ("equality", "in", "and of 3", "and of 5")
"""On 60 M rows, these questions take at most this multiple."""


def processes(table: Path, question: str) -> dict[str, list[str]]:
    """Return the command of each contestant; each prints a number, or one line a row behind a header."""
    path, files, command = (
        str(table),
        str(table / "*.parquet"),
        str(Path(sys.executable).with_name("tailbit")),
    )
    if question in COUNTS:
        where, answer = COUNTS[question], "count()"
        sql = f"SELECT count(*) FROM {{}} WHERE {where}"
        line = [command, "count", path, where]
    elif question in FACETS:
        where, column = RETURNED, FACETS[question]
        answer = f"facets({column!r})"
        sql = f"SELECT {column}, count(*) FROM {{}} WHERE {where} GROUP BY {column}"
        line = [command, "facets", path, column, "--where", where]
    else:
        where, answer = READ[question], f"read({THREE.split(', ')!r})"
        sql = f"SELECT {THREE} FROM {{}} WHERE {where}"
        line = [command, "read", path, where, "--columns", THREE.replace(" ", ""), "--format", "csv"]
    one = question in COUNTS
    python = f"answer = tailbit.open({path!r}).where({where!r}).{answer}; "
    duckdb = f"answer = duckdb.sql({sql.format(repr(files))!r}).fetchall(); "
    polars = (
        f"answer = pl.SQLContext(t=pl.scan_parquet({files!r})).execute({sql.format('t')!r}, eager=True); "
    )
    return {
        "python": _python("import tailbit", python + ("print(answer)" if one else "print(len(answer))")),
        "command line": line,
        "duckdb": _python("import duckdb", duckdb + ("print(answer[0][0])" if one else "print(len(answer))")),
        "polars": _python(
            "import polars as pl", polars + ("print(answer.item())" if one else "print(len(answer))")
        ),
    }


def _python(imports: str, program: str) -> list[str]:
    return [sys.executable, "-c", f"{imports}; {program}"]


def run(command: list[str]) -> tuple[str, float, float]:
    """Run a command; return what it printed, its CPU seconds and its wall seconds."""
    # Where Python may keep no compiled modules, those of a checkout would be compiled at each start.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"status {process.returncode} of {command}")
    return printed, usage.ru_utime + usage.ru_stime, wall


def number(printed: str) -> int:
    """Return the number that a contestant printed, or how many lines it printed behind a header."""
    lines = printed.splitlines()
    return int(lines[0]) if len(lines) == 1 and lines[0].isdigit() else len(lines) - 1


def measure(commands: Mapping[str, list[str]], repeats: int) -> dict[str, Any]:
    """Return the answer, and per contestant the medians of CPU and wall seconds, with our ratios."""
    answer = same({contestant: number(run(command)[0]) for contestant, command in commands.items()})
    times: dict[str, list[tuple[float, float]]] = {contestant: [] for contestant in commands}
    for _ in range(repeats):
        for contestant, command in commands.items():
            times[contestant].append(run(command)[1:])
    row: dict[str, Any] = {"answer": answer}
    for place, clock in enumerate(("cpu", "wall")):
        took = {name: statistics.median(both[place] for both in all_) for name, all_ in times.items()}
        row |= {f"{name} {clock} s": round(seconds, 3) for name, seconds in took.items()}
        quicker = min(took["duckdb"], took["polars"])
        row |= {
            f"{ours} / quicker, {clock}": round(took[ours] / quicker, 2)
            for ours in ("python", "command line")
        }
    return row


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--repeats", type=int, default=7)
    repeats, table = options.parse_args().repeats, lineitem()
    index_without_spark(table, COLUMNS)
    large = float(scale()) >= 10
    for question in (*COUNTS, *FACETS, *READ):
        row = measure(processes(table, question), repeats)
        most = QUICK if large and question in QUICKLY else LARGE if large else SMALL
        tell({"question": question, "scale": scale(), **row, "at most": most})


if __name__ == "__main__":
    main()
