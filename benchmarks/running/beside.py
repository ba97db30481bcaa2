"""Are plain bitmaps as quick as they were? Two checkouts of this project, one beside the other.

Usage: python running/beside.py OLD NEW [--rounds N] [--only TEXT]. Each checkout is a path that has an
environment in `.venv`; what is asked is imported from there. Each checkout builds its own index of lineitem
(without Spark), and is asked by a process of its own that stays. The two take turns, round after round, in
changing order; each is asked what takes about 30 ms, after one call uncounted. CPU seconds are of all
threads. A figure is the median over the rounds of new / old. TAILBIT_BENCH_SCALE=0.1 asks a tenth.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

WORKLOADS = pathlib.Path(__file__).resolve().parents[1] / "workloads"

SPENT_A_ROUND = 0.03
YEAR = "l_shipdate BETWEEN DATE'1995-01-01' AND DATE'1995-12-31'"
COUNTS = {
    "equality": "l_shipmode = 'AIR'",
    "in 3": "l_shipmode IN ('AIR', 'RAIL', 'SHIP')",
    "in 1,000": f"l_suppkey IN ({', '.join(str(7 * n) for n in range(1000))})",
    "not equal": "l_shipmode <> 'AIR'",
    "and 3": "l_shipmode = 'AIR' AND l_returnflag = 'R' AND l_suppkey IN (7, 77, 777)",
    "or 3": "l_shipmode = 'AIR' OR l_returnflag = 'R' OR l_suppkey = 7",
    "not": "NOT (l_shipmode = 'AIR' OR l_suppkey = 77)",
    "30 days": "l_shipdate BETWEEN DATE'1995-03-01' AND DATE'1995-03-30'",
    "a year": YEAR,
    "400 suppliers": "l_suppkey BETWEEN 1000 AND 1399",
    "year and": "year(l_shipdate) = 1995 AND l_shipmode = 'AIR'",
    "five leaves": (
        "l_shipmode IN ('AIR', 'RAIL') AND l_returnflag <> 'N' AND l_shipdate >= DATE'1994-03-01' "
        "AND l_shipdate < DATE'1994-04-10' AND NOT (l_suppkey = 7)"
    ),
    "like": "l_shipmode LIKE 'RE%'",
    "contains": "l_shipmode LIKE '%AI%'",
    "null": "l_shipmode IS NULL",
    "not null": "l_shipmode IS NOT NULL",
    "function": "upper(l_shipmode) = 'AIR'",
    "all rows": "true",
    "unindexed, one key": "l_orderkey = 77",
    "unindexed, a sixth": "l_quantity < 10",
    "unindexed, text": "l_comment LIKE '%furious%'",
    "unindexed beside an index": "l_quantity < 10 AND l_shipmode = 'AIR'",
    "two columns": "l_commitdate < l_receiptdate",
}
READS = {
    "read 587 rows": ("l_suppkey = 77", "l_orderkey, l_extendedprice, l_comment"),
    "read 9 rows": ("l_shipdate = DATE'1995-03-15' AND l_shipmode = 'AIR' AND l_suppkey < 300", "*"),
    "read a day": ("l_shipdate = DATE'1995-03-15'", "l_orderkey"),
    "read unindexed": ("l_orderkey BETWEEN 1000 AND 9000", "l_orderkey, l_comment"),
}
FACETS = {
    "facets": (None, "l_shipmode"),
    "facets of 2,526": (None, "l_shipdate"),
    "facets with WHERE": ("l_returnflag = 'R'", "l_shipmode"),
    "facets of 2,526 with WHERE": ("l_suppkey = 77", "l_shipdate"),
    "facets of 10,000 with WHERE": ("l_shipmode = 'AIR'", "l_suppkey"),
    "facets of two": (None, "l_returnflag, l_shipmode"),
    "facets of two with WHERE": (YEAR, "l_returnflag, l_shipmode"),
    "facets of an unindexed column": ("l_suppkey = 77", "l_quantity"),
}
FIRST = {
    "first count": "where(\"l_shipmode = 'AIR'\").count()",
    "first facets": "where().facets('l_shipmode')",
}
COLUMNS = ("l_returnflag", "l_shipmode", "l_shipdate", "l_suppkey")


def calls(table: str, index: str) -> dict[str, Callable[[], Any]]:
    """Return what a checkout is asked, by name; each call returns its answer."""
    import tailbit

    opened = tailbit.open(table, index)
    questions: dict[str, Callable[[], Any]] = {
        name: lambda where=where: opened.where(where).count() for name, where in COUNTS.items()
    }
    for name, (where, columns) in READS.items():
        names = None if columns == "*" else columns.split(", ")
        questions[name] = lambda where=where, names=names: opened.where(where).read(names).num_rows
    for name, (where, columns) in FACETS.items():
        names = columns.split(", ")
        questions[name] = lambda where=where, names=names: sorted(
            opened.where(where).facets(*names).items(), key=str
        )
    questions["cross-tab"] = lambda: int(opened.where().crosstab("l_returnflag", "l_shipmode").counts.sum())
    questions["sum"] = lambda: opened.where("l_shipmode = 'AIR'").sum("l_suppkey")
    questions["distinct"] = lambda: opened.where("l_suppkey = 77").count_distinct("l_shipdate")
    questions["open"] = lambda: tailbit.open(table, index).columns
    questions["open and count"] = lambda: tailbit.open(table, index).where("l_shipmode = 'AIR'").count()
    return questions


class Commits:
    """A small table and its index, to which a commit at a time is added."""

    def __init__(self, folder: pathlib.Path) -> None:
        import deltalake
        import index_of
        import pyarrow as pa

        self._table, self._write = folder, deltalake.write_deltalake
        shutil.rmtree(folder, ignore_errors=True)
        self._rows = pa.table({"a": [n % 7 for n in range(1000)], "b": [f"t{n % 50}" for n in range(1000)]})
        self._write(str(folder), self._rows)
        self._upkeep = index_of.Upkeep(folder, ["a", "b"])
        self._upkeep.catch_up()

    def index_some(self, count: int) -> tuple[float, float]:
        """Return wall and CPU seconds of indexing a commit of 1,000 rows."""
        wall = cpu = 0.0
        for _ in range(count):
            self._write(str(self._table), self._rows, mode="append")
            began = time.perf_counter(), time.process_time()
            self._upkeep.catch_up()
            wall, cpu = wall + time.perf_counter() - began[0], cpu + time.process_time() - began[1]
        return wall / count, cpu / count


def work(root: str, table: str, folder: str) -> None:
    """Answer a checkout's side: a line of JSON for each line that is read."""
    sys.path.insert(0, f"{root}/benchmarks/workloads")
    import index_of

    index = pathlib.Path(folder) / "index"
    questions: dict[str, Callable[[], Any]] = {}
    commits: Commits | None = None
    for line in sys.stdin:
        name, many = json.loads(line)
        answer: Any = None
        began = time.perf_counter(), time.process_time()
        if name == "build":
            shutil.rmtree(index, ignore_errors=True)
            index_of.index_without_spark(pathlib.Path(table), COLUMNS, index)
            answer, many = sum(file.stat().st_size for file in index.rglob("*.parquet")), 1
        elif name == "commit":
            commits = commits or Commits(pathlib.Path(folder) / "commits")
            wall, cpu = commits.index_some(many)
            began, many = (time.perf_counter() - wall, time.process_time() - cpu), 1
        else:
            questions = questions or calls(table, str(index))
            answer = questions[name]()
            began = time.perf_counter(), time.process_time()
            for _ in range(many):
                questions[name]()
        took = (time.perf_counter() - began[0]) / many, (time.process_time() - began[1]) / many
        sys.stdout.write(json.dumps([answer, *took], default=str) + "\n")
        sys.stdout.flush()


class Checkout:
    """A checkout, asked by a process that stays."""

    def __init__(self, root: pathlib.Path, table: pathlib.Path, folder: pathlib.Path) -> None:
        self.root, self.table, self.folder = root, table, folder
        folder.mkdir(parents=True, exist_ok=True)
        self._python = str(root / ".venv" / "bin" / "python")
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        self._environment = kept
        self._process = subprocess.Popen(
            [self._python, __file__, "--work", str(root), str(table), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
            env=self._environment,
        )

    def ask(self, name: str, many: int) -> tuple[Any, float, float]:
        """Return the answer, and wall and CPU seconds of a call."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([name, many]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.root}: {name} failed")
        answer, wall, cpu = json.loads(line)
        return answer, wall, cpu

    def start_and_ask(self, question: str, _: int) -> tuple[Any, float, float]:
        """Return the printed answer, and wall and CPU seconds of a fresh process."""
        program = f"import tailbit; print(tailbit.open({str(self.table)!r}, {str(self.folder / 'index')!r})."
        began = time.perf_counter()
        process = subprocess.Popen(
            [self._python, "-c", f"{program}{question})"],
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
            env=self._environment,
        )
        assert process.stdout is not None
        printed = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{self.root}: {question} failed")
        return printed, time.perf_counter() - began, usage.ru_utime + usage.ru_stime

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


Ask = Callable[[Checkout, int], tuple[Any, float, float]]


def compare(name: str, old: Checkout, new: Checkout, ask: Ask, rounds: int, many: int | None) -> None:
    """Ask both, in turns, and tell the medians and their ratios."""
    from timing import same, tell

    first = {side: ask(checkout, many or 1) for side, checkout in (("old", old), ("new", new))}
    answer = None if name == "build" else same({side: reply[0] for side, reply in first.items()})
    if many is None:
        seconds = ask(old, 3)[1]
        many = max(3, min(300, round(SPENT_A_ROUND / seconds)))
    times: dict[str, list[tuple[float, float]]] = {"old": [], "new": []}
    for number in range(rounds):
        sides: Iterable[tuple[str, Checkout]] = (("old", old), ("new", new))
        for side, checkout in reversed(list(sides)) if number % 2 else sides:
            times[side].append(ask(checkout, many)[1:])
    pairs = list(zip(times["old"], times["new"], strict=True))
    figures = {
        "old ms": round(statistics.median(cpu for _, cpu in times["old"]) * 1e3, 3),
        "new ms": round(statistics.median(cpu for _, cpu in times["new"]) * 1e3, 3),
        "new / old": round(statistics.median(b[1] / a[1] for a, b in pairs), 3),
        "new / old, least": round(
            min(cpu for _, cpu in times["new"]) / min(cpu for _, cpu in times["old"]), 3
        ),
        "new / old, wall": round(statistics.median(b[0] / a[0] for a, b in pairs), 3),
    }
    tell({"question": name, **figures} | ({"rows": answer} if isinstance(answer, int) else {}))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("old", type=pathlib.Path)
    options.add_argument("new", type=pathlib.Path)
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--only", default="", help="questions with this in their names")
    given = options.parse_args()
    sys.path.insert(0, str(WORKLOADS))
    from lineitem import folder, lineitem
    from timing import tell

    table = lineitem()
    sides = {
        side: Checkout(root.resolve(), table, folder() / f"beside-{side}")
        for side, root in (("old", given.old), ("new", given.new))
    }
    old, new = sides["old"], sides["new"]

    def by_name(name: str) -> Ask:
        return lambda checkout, many: checkout.ask(name, many)

    def by_process(question: str) -> Ask:
        return lambda checkout, many: checkout.start_and_ask(question, many)

    if not all((side.folder / "index").exists() for side in sides.values()) or given.only in "build":
        sizes = [side.ask("build", 1)[0] for side in sides.values()]
        tell({"question": "bytes", "old": sizes[0], "new": sizes[1], "new / old": sizes[1] / sizes[0]})
        compare("build", old, new, by_name("build"), max(3, given.rounds // 5), 1)
    names = [*COUNTS, *READS, *FACETS, "cross-tab", "sum", "distinct", "open", "open and count"]
    for name in (name for name in names if given.only in name):
        compare(name, old, new, by_name(name), given.rounds, None)
    if given.only in "commit":
        compare("commit", old, new, by_name("commit"), given.rounds, 3)
    for name in (name for name in FIRST if given.only in name):
        compare(name, old, new, by_process(FIRST[name]), given.rounds, 1)
    for side in sides.values():
        side.close()


if __name__ == "__main__":
    work(*sys.argv[2:]) if sys.argv[1:2] == ["--work"] else main()
