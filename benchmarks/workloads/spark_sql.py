"""A session's own SQL on a plain Delta table of 200 files, with the index and without, by one setting.

Both contestants run the same statement in the same session, warm, each time planned anew.
"""

from __future__ import annotations

from typing import Any

from spark_frame import table
from timing import medians, same, tell

from tailbit.spark import accelerate, jar
from tailbit.streaming.java.session import build_session, delta_settings

STATEMENTS = {
    "SELECT * FROM t WHERE id >= 0 AND key = 77777 AND name = 'rare'": ("rows", "a row or none", 0.1),
    "SELECT count(*), sum(id), max(x1) FROM t WHERE name = 'rare'": ("rows", "15 of 200 files", 0.7),
    "SELECT count(*), sum(id), max(x1) FROM t WHERE key = 77777": ("rows", "some 50 of 200 files", 0.9),
    "SELECT count(*) FROM t WHERE name = 'rare'": ("counts", "299 rows", 0.1),
    "SELECT min(key), max(key), count(DISTINCT day) FROM t WHERE name = 'rare'": ("counts", "299 rows", 0.1),
    "SELECT count(*) FROM t WHERE key BETWEEN 1000 AND 20000": ("counts", "a fifth of the rows", 0.6),
    "SELECT day, count(*) FROM t WHERE name = 'rare' GROUP BY day": ("groups", "15 groups", 0.6),
    "SELECT count(*), sum(id) FROM t WHERE x2 < 0.5 AND id % 3 = 1": (
        None,
        "by no indexed column",
        1.1,
    ),
    "SELECT count(*), sum(id) FROM t WHERE name <> 'a'": (None, "nearly all rows: nothing gained", 1.1),
}
"""Statement to what serves it, what it selects, and the most that it may take of the plain time."""


def main() -> None:
    jar.build()
    path = str(table())
    extra = delta_settings() | {"spark.driver.memory": "2g"}
    with build_session("spark_sql", ui=False, extra=extra) as spark:
        acceleration = accelerate(spark, budget_ms=60_000)

        def rows(statement: str, enabled: bool) -> list[Any]:
            spark.conf.set("spark.tailbit.enabled", str(enabled).lower())
            return sorted(
                map(tuple, spark.sql(statement.replace("FROM t", f"FROM delta.`{path}`")).collect())
            )

        for statement, (mode, what, most) in STATEMENTS.items():
            calls = {
                "plain": lambda s=statement: rows(s, False),
                "accelerated": lambda s=statement: rows(s, True),
            }
            same({name: call() for name, call in calls.items()})
            (scan,) = acceleration.last()
            if scan.served != mode:
                raise SystemExit(f"{statement}: {scan}")
            took = medians(calls, repeats=7)
            row = {"statement": statement, "selects": what, "served": mode or scan.reason}
            row |= {f"{name} ms": round(seconds * 1e3) for name, seconds in took.items()}
            tell(
                row | {"accelerated / plain": round(took["accelerated"] / took["plain"], 2), "at most": most}
            )


if __name__ == "__main__":
    main()
