"""ORDER BY with LIMIT, windows, max_by and values of subqueries read what they need, and answer as Spark."""

from __future__ import annotations

import random
from typing import Any

import pytest

from support.acceleration import rows_of
from support.spark_session import session_settings
from support.tables import index_of
from tailbit.spark.acceleration import Acceleration

ROWS = 2000
COLUMNS = ("k", "s", "d", "x", "t", "p")

SHAPES = (
    "SELECT {c}, id FROM {t} {where} ORDER BY {c} {way}, id LIMIT {n}",
    "SELECT {c} FROM {t} {where} ORDER BY {c} {way} LIMIT {n}",
    "SELECT id FROM {t} {where} ORDER BY {c} {way}, id LIMIT {n} OFFSET {m}",
    "SELECT id % 7, upper(s) FROM (SELECT * FROM {t} {where}) ORDER BY {c} {way}, id DESC LIMIT {n}",
    "SELECT sum(id) FROM (SELECT id FROM {t} {where} ORDER BY {c} {way}, id LIMIT {n})",
    "SELECT max_by(id, {u}), max(id) - max(id) FROM {t} {where}",
    "SELECT max_by(s, {u}), max({u}) FROM {t} {where}",
    "SELECT min_by({c}, {u}) FROM {t} {where}",
    "SELECT max_by(id, {c}) IS NULL, max({c}), min({u}) FROM {t} {where}",
    "SELECT id, {c} FROM {t} WHERE {c} = (SELECT max({c}) FROM {t} {where}) AND {f}",
    "SELECT count(*) FROM {t} WHERE {c} <=> (SELECT min({c}) FROM {t} {where})",
    "SELECT a.id FROM {t} a JOIN (SELECT * FROM {t} {where} ORDER BY {c} {way}, id LIMIT {n}) b ON a.k = b.k"
    " WHERE a.id % 5 = 0",
    "SELECT {c}, count(*) FROM {t} {where} GROUP BY {c} ORDER BY {c} {way} LIMIT {n}",
    "SELECT DISTINCT {c} FROM {t} {where} ORDER BY {c} {way} LIMIT {n}",
    "SELECT id FROM {t} {where} SORT BY {c} {way}, id",
    "SELECT id FROM {t} WHERE {c} NOT IN (SELECT max({c}) FROM {t} {where}) AND {f}",
    "(SELECT id FROM {t} {where} ORDER BY {c} {way}, id LIMIT {n}) UNION ALL (SELECT id FROM {t} WHERE {f})",
    "SELECT * EXCEPT (f) FROM (SELECT *, row_number() OVER (ORDER BY {c} {way}, id) n FROM {t} {where})"
    " WHERE n = {n}",
    "SELECT id, s, n FROM (SELECT *, rank() OVER (ORDER BY {c} {way}) n FROM {t} {where}) WHERE n <= {n}",
    "SELECT id, s, n FROM (SELECT *, rank() OVER (ORDER BY {c} {way}, d) n FROM {t} {where}) WHERE n < {m}",
    "SELECT id, n FROM (SELECT *, dense_rank() OVER (ORDER BY {c} {way}) n FROM {t} {where}) WHERE n <= {n}",
    "SELECT id FROM (SELECT *, dense_rank() OVER (ORDER BY {c} {way}, s) n FROM {t} {where}) WHERE n = {m}",
    "SELECT id FROM (SELECT *, rank() OVER (PARTITION BY p ORDER BY {c} {way}) n FROM {t} {where})"
    " WHERE n <= {m}",
    "SELECT id, n FROM (SELECT *, dense_rank() OVER (ORDER BY {c} {way}) n,"
    " sum(k) OVER (ORDER BY {c} {way}) z FROM {t} {where}) WHERE n <= {m} AND z > 5",
)
FILTERS = (
    "k < 30",
    "s = 'v07'",
    "p = 'b' AND k > 5",
    "d IS NOT NULL",
    "k < 0",
    "id % 3 = 1",
    "f > 0.5",
    "k IS NULL",
)


@pytest.fixture(scope="module")
def table(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table with NULL, ties and a unique column, deleted rows, and at last a file that is not indexed."""
    path = str(tmp_path_factory.mktemp("first") / "table")
    spark.range(0, ROWS, 1, 1).selectExpr(
        "id",
        "CAST(CASE WHEN id % 11 = 0 THEN NULL ELSE pmod(id * 7919, 97) END AS INT) k",
        "CASE WHEN id % 13 = 0 THEN NULL ELSE concat('v', lpad(id % 40, 2, '0')) END s",
        "CASE WHEN id % 5 = 0 THEN NULL ELSE date_add(DATE'2020-01-01', CAST(id % 300 AS INT)) END d",
        "CAST(id * 31 % 1009 - 500 AS DECIMAL(12, 2)) / 4 x",
        "timestamp_micros(1577836800000000 + id * 977 % 500 * 3600000000) t",
        "CASE id % 4 WHEN 0 THEN 'a' WHEN 1 THEN 'b' WHEN 2 THEN NULL ELSE 'c' END p",
        "CASE WHEN id % 9 = 0 THEN CAST('NaN' AS DOUBLE) ELSE id / 100D END f",
        "pmod(id * 7907, 2003) u",
    ).write.format("delta").partitionBy("p").option("maxRecordsPerFile", 200).option(
        "delta.enableDeletionVectors", "true"
    ).save(path)
    index_of(path, [*COLUMNS[:-1], "u"])
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 17 = 3 OR k IN (1, 95) OR u = 2002")
    index_of(path)
    return path


def statements(path: str, seed: int, number: int) -> list[str]:
    """Some statements of all shapes."""
    chosen, out = random.Random(seed), list[str]()
    for place in range(number):
        column, filters = chosen.choice(COLUMNS), [chosen.choice(FILTERS) for _ in range(chosen.randrange(3))]
        way = chosen.choice(
            ["", "DESC", "NULLS LAST", "DESC NULLS FIRST", "ASC NULLS FIRST", "DESC NULLS LAST"]
        )
        where = f"WHERE {' AND '.join(filters)}" if filters else ""
        named = {"c": column, "u": "u", "where": where, "way": way, "f": chosen.choice(FILTERS)}
        numbers = {"n": chosen.choice([1, 2, 10, 150, 1500]), "m": chosen.choice([1, 20])}
        version = chosen.choice(["", "", " VERSION AS OF 0"])
        shape = SHAPES[place % len(SHAPES)]
        out.append(shape.format(t=f"delta.`{path}`{version}", **named, **numbers))
    return out


def judge(accelerated: Acceleration, asked: list[str]) -> dict[str, int]:
    """Compare statements with plain Spark; return how often each mode was served, and first rows alone."""
    spark, served = accelerated._spark, dict[str, int]()
    for statement in asked:
        plain = rows_of(spark, statement, enabled=False)
        assert rows_of(spark, statement) == plain, statement
        for scan in accelerated.last():
            modes = [scan.served or "none"] + ["first" for text in scan.asked if text.startswith("the first")]
            served |= {mode: served.get(mode, 0) + 1 for mode in modes}
    return served


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_first_rows_and_values_of_subqueries_are_those_of_plain_spark(
    accelerated: Acceleration, table: str, ansi: str
) -> None:
    settings = {"spark.sql.ansi.enabled": ansi, "spark.tailbit.mostShare": "1000"}
    with session_settings(accelerated._spark, settings):
        served = judge(accelerated, statements(table, int(ansi == "true"), 2 * len(SHAPES)))
    assert served["first"] > 2, served
    assert served["rows"] > 2, served


def test_rows_that_are_not_indexed_yet_may_be_the_first(
    accelerated: Acceleration, spark: Any, table: str
) -> None:
    spark.sql(
        f"INSERT INTO delta.`{table}` SELECT id + 100000, -5, 'a', DATE'2019-01-01', -9999, t, 'b', f,"
        f" u + 9000 FROM delta.`{table}` WHERE id < 30"
    )
    with session_settings(spark, {"spark.tailbit.mostShare": "1000"}):
        judge(accelerated, statements(table, 3, len(SHAPES)))


def test_the_first_rows_alone_are_read(accelerated: Acceleration, table: str) -> None:
    spark, version = accelerated._spark, f"delta.`{table}` VERSION AS OF 1"
    window = f"SELECT * FROM (SELECT *, {{}}() OVER (ORDER BY {{}}) n FROM {version}) WHERE n {{}}"
    dates = rows_of(spark, f"SELECT id FROM {version} WHERE d <= DATE'2020-01-03'", enabled=False)
    for statement, rows in {
        f"SELECT * FROM {version} ORDER BY u LIMIT 3": 3,
        f"SELECT * FROM {version} ORDER BY u DESC LIMIT 3 OFFSET 2": 5,
        f"SELECT max_by(s, u) FROM {version} WHERE k > 3": 1,
        window.format("row_number", "u", "= 1"): 1,
        window.format("rank", "u DESC", "<= 4"): 4,
        window.format("dense_rank", "d NULLS LAST", "< 3"): len(dates),
    }.items():
        rows_of(spark, statement)
        (scan,) = accelerated.last()
        assert (scan.served, scan.rows) == ("rows", rows)
        assert scan.asked[-1].startswith("the first")
    rows_of(spark, f"SELECT id FROM {version} WHERE u = (SELECT max(u) FROM {version})")
    assert {scan.served for scan in accelerated.last()} == {"rows", "counts"}
