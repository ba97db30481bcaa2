"""A session's own SQL on plain Delta tables, with the index and without, by one setting.

One table of 200 files, and TPC-H lineitem. Both contestants run the same statement in the same session,
warm, each time planned anew; `{n}` in a statement is another number each time, so that nothing remembers its
answer. `rules ms` is what the rules cost in Spark's optimizer where nothing is gained: the least of the runs.
It is held to 0.5 ms where the helper is not asked, and to 5 ms where it is asked in vain.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from index_of import Upkeep
from lineitem import folder, lineitem, scale
from many_files import ROWS, table
from timing import medians, same, tell

from tailbit.spark import accelerate, jar
from tailbit.spark.acceleration import Acceleration
from tailbit.streaming.java.session import build_session, delta_settings

REVENUE = "sum(l_extendedprice * l_discount)"

PLAIN, SOME, ANY = ("plain",), ("rows", "files"), ("rows", "files", "plain")


@dataclass(frozen=True)
class Case:
    """A statement of the table `t`, and what it selects.

    `served`: the modes of which one serves it, `plain` where nothing is gained. `most`: the most that it may
    take of the plain time. `rules`: the most milliseconds of the optimizer.
    """

    statement: str
    selects: str
    served: tuple[str, ...]
    most: float
    rules: float | None = None


FILES = (
    Case("SELECT * FROM t WHERE id >= 0 AND key = 77777 AND name = 'rare'", "a row or none", ("rows",), 0.1),
    Case("SELECT * FROM t WHERE name = 'rare' AND day = 28", "20 rows of a file", ("rows",), 0.7),
    Case("SELECT count(*), sum(id), max(x1) FROM t WHERE name = 'rare'", "15 of 200 files", SOME, 0.7),
    Case("SELECT count(*), sum(id), max(x1) FROM t WHERE key = 77777", "some 50 of 200 files", SOME, 0.9),
    Case("SELECT count(*) FROM t WHERE name = 'rare'", "299 rows", ("counts",), 0.1),
    Case(
        "SELECT min(key), max(key), count(DISTINCT day) FROM t WHERE name = 'rare'", "299", ("counts",), 0.1
    ),
    Case("SELECT count(*) FROM t WHERE key BETWEEN 1000 AND 20000", "a fifth of the rows", ("counts",), 0.6),
    Case("SELECT day, count(*) FROM t WHERE name = 'rare' GROUP BY day", "15 groups", ("groups",), 0.6),
    Case("SELECT max(x1), sum(id) FROM t", "all rows: no filter", PLAIN, 1.1, 0.5),
    Case("SELECT count(*), sum(id) FROM t WHERE x2 < 0.5 AND id % 3 = 1", "not in words", PLAIN, 1.1, 0.5),
    Case("SELECT count(*), sum(id) FROM t WHERE id > {n} AND id % 3 = 1", "not indexed", PLAIN, 1.1, 0.5),
    Case("SELECT count(*), sum(id) FROM t WHERE name <> 'a{n}'", "all rows: asked in vain", PLAIN, 1.1, 5),
    Case("SELECT count(*), sum(id) FROM t WHERE key > {n}", "nearly all: asked in vain", PLAIN, 1.1, 5),
)
"""Statements of the table of 200 files; `not …`: the helper is not asked."""

LINEITEM = (
    Case("SELECT * FROM t WHERE l_partkey = 155190", "49 rows of 6 M", ("rows",), 0.33),
    Case("SELECT l_orderkey, l_tax FROM t WHERE l_partkey = 155190", "49 rows, two columns", ("rows",), 1.1),
    Case(f"SELECT {REVENUE} FROM t WHERE l_partkey < 20 AND l_tax >= 0", "600 rows", ANY, 1.1),
    Case(f"SELECT {REVENUE} FROM t WHERE l_partkey < 200 + {{n}}", "6,000 rows: in vain", ANY, 1.1),
    Case(f"SELECT {REVENUE} FROM t WHERE l_partkey < 2000 + {{n}}", "60,000 rows: in vain", ANY, 1.1),
    Case("SELECT count(*) FROM t WHERE l_shipmode = 'AIR' AND month(l_shipdate) = 3", "", ("counts",), 1.1),
    Case(
        "SELECT l_shipmode, count(*) FROM t WHERE l_partkey < 2000 GROUP BY 1", "7 groups", ("groups",), 1.1
    ),
    Case(f"SELECT {REVENUE} FROM t WHERE l_orderkey = {{n}} * 32", "one file by statistics", ANY, 1.1),
)
"""Statements of lineitem: 6 M rows in eight files."""


def lineitem_with_index() -> Path:
    """Return a table of the files of lineitem with an index of its own."""
    path = folder() / f"spark_sql-lineitem-{scale()}"
    if not path.exists():
        ignored = shutil.ignore_patterns("_tailbit")
        shutil.copytree(lineitem(), path, copy_function=os.link, ignore=ignored)
    Upkeep(path, ["l_partkey", "l_shipmode", "l_shipdate"]).catch_up()
    return path


class Session:
    """A session in which statements run with the index and without."""

    def __init__(self, acceleration: Acceleration, repeats: int) -> None:
        self._acceleration, self._spark, self._repeats = acceleration, acceleration._spark, repeats
        self._numbers = itertools.count(1)

    def measure(self, name: str, path: Path, case: Case) -> None:
        """Print what a statement takes with the index and without."""
        text = case.statement.replace("FROM t", f"FROM delta.`{path}`")
        calls = {
            "plain": lambda: self._rows(text, False),
            "accelerated": lambda: self._rows(text, True),
        }
        if "{n}" not in text:
            same({called: call() for called, call in calls.items()})
        took = medians(calls, repeats=self._repeats)
        calls["accelerated"]()
        (scan,) = self._acceleration.last()
        is_as_told = (scan.served or "plain") in case.served
        rules = None if case.rules is None else round(min(self._rules_ms(text) for _ in range(9)), 2)
        row = {"statement": case.statement.replace("FROM t", f"FROM {name}"), "selects": case.selects}
        row |= {"served": scan.served or scan.reason}
        row |= {f"{called} ms": round(seconds * 1e3) for called, seconds in took.items()}
        row |= {"accelerated / plain": round(took["accelerated"] / took["plain"], 2), "at most": case.most}
        tell(row | {"rules ms": rules, "rules at most": case.rules, "as told": int(is_as_told)})

    def _planned(self, text: str, enabled: bool) -> Any:
        self._spark.conf.set("spark.tailbit.enabled", str(enabled).lower())
        return self._spark.sql(text.replace("{n}", str(next(self._numbers))))

    def _rows(self, text: str, enabled: bool) -> list[Any]:
        return sorted(map(tuple, self._planned(text, enabled).collect()))

    def _rules_ms(self, text: str) -> float:
        """Return the milliseconds of the optimizer that the rules take for a statement."""
        execution = self._planned(text, True)._jdf.queryExecution()
        execution.optimizedPlan()
        rules = execution.tracker().rules()
        told = [rules.get(f"io.tailbit.spark.{rule}") for rule in ("EarlyRule", "LateRule")]
        return sum(rule.get().totalTimeNs() for rule in told if rule.isDefined()) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of each of the 200 files")
    parser.add_argument("--repeats", type=int, default=5, help="runs, of which the median counts")
    options = parser.parse_args()
    jar.build()
    extra = delta_settings() | {"spark.driver.memory": "2g"}
    grids = (("t", table(options.rows), FILES), ("lineitem", lineitem_with_index(), LINEITEM))
    with build_session("spark_sql", ui=False, extra=extra) as spark:
        session = Session(accelerate(spark), options.repeats)
        for name, path, cases in grids:
            for case in cases:
                session.measure(name, path, case)


if __name__ == "__main__":
    main()
