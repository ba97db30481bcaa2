"""A join with rows that the index has answered says which rows of its other side are wanted."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import write_deltalake

from support.acceleration import rows_of
from support.profiles import PROOF, SEED
from support.spark_session import session_settings
from support.tables import index_of
from tailbit.spark.acceleration import Acceleration

TABLES = {
    "fact": "SELECT range id, if(range % 11 = 0, NULL, (range % 200)::INT) k, range % 150 n,"
    " if(range % 13 = 0, NULL, 'name ' || range % 100) AS name,"
    " DATE '2020-01-01' + (range % 700)::INT AS day,"
    " (range % 50)::DECIMAL(10, 2) AS dec, range * 2 other,"
    " CASE range % 40 WHEN 0 THEN 'NaN'::DOUBLE WHEN 1 THEN -0.0::DOUBLE ELSE (range % 40)::DOUBLE END d"
    " FROM range(2000)",
    "parts": "SELECT if(range = 7, NULL, range::INT) k, range big, 'brand ' || range % 20 brand,"
    " (range % 6)::INT AS size, range % 9 grp FROM range(260)",
    "people": "SELECT if(range % 30 = 5, NULL, 'name ' || range) AS name, range::DECIMAL(10, 2) AS dec,"
    " 'town ' || range % 40 town,"
    " CASE range WHEN 3 THEN 'NaN'::DOUBLE WHEN 4 THEN 0.0::DOUBLE ELSE range::DOUBLE END d FROM range(120)",
    "days": "SELECT DATE '2020-01-01' + range::INT AS day, (2020 + range // 366)::INT AS y,"
    " 'week ' || range // 7 AS week FROM range(700)",
    "groups": "SELECT range grp, 'group ' || range AS title FROM range(9)",
    "parted": "SELECT range id, range * 3 other, if(range % 21 = 0, NULL, (range % 21)::INT) k"
    " FROM range(900)",
}
PARTITIONS = {"parted": ["k"]}
INDEXED = {
    "fact": ["k", "n", "name", "day", "dec", "d"],
    "parts": ["k", "brand", "size", "grp"],
    "people": ["name", "town"],
    "days": ["week", "day", "y"],
    "groups": ["title"],
    "parted": ["id"],
}


@pytest.fixture(scope="module")
def tables(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A fact of ten files whose keys are NULL here and there, and dimensions of two; all indexed."""
    folder = tmp_path_factory.mktemp("joins")
    for name, statement in TABLES.items():
        path, files = str(folder / name), 10 if name == "fact" else 2
        for number in range(files):
            rows = duckdb.sql(statement).to_arrow_table()
            rows = rows.take(list(range(number, len(rows), files)))
            write_deltalake(path, rows, mode="append", partition_by=PARTITIONS.get(name))
        spark.sql(f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT * FROM delta.`{path}`")
        index_of(path, INDEXED[name])
    return {name: str(folder / name) for name in TABLES}


SERVED = {
    "an inner join": "SELECT f.id, p.big FROM fact f JOIN parts p ON f.k = p.k WHERE p.brand = 'brand 3'",
    "a longer integer": "SELECT f.id FROM fact f JOIN parts p ON f.k = p.big WHERE p.brand = 'brand 3'",
    "the fact second": "SELECT f.* FROM parts p JOIN fact f ON p.k = f.k AND p.size = 2"
    " WHERE p.brand = 'brand 2'",
    "texts": "SELECT f.id, p.town FROM fact f JOIN people p USING (name) WHERE p.town = 'town 9'",
    "decimals": "SELECT sum(f.id) FROM fact f JOIN people p ON f.dec = p.dec WHERE p.town = 'town 9'",
    "days": "SELECT count(*), sum(f.other) FROM fact f JOIN days d ON f.day = d.day WHERE d.week = 'week 12'",
    "a day and more": "SELECT f.id FROM fact f JOIN days d ON f.n > d.y - 2000 AND f.day = d.day"
    " WHERE d.week = 'week 3'",
    "a semi-join": "SELECT * FROM fact WHERE k IN (SELECT k FROM parts WHERE brand = 'brand 5')",
    "exists": "SELECT id FROM fact f WHERE EXISTS"
    " (SELECT 1 FROM parts p WHERE p.k = f.k AND p.brand = 'brand 7')",
    "two dimensions": "SELECT f.id FROM fact f JOIN parts p ON f.k = p.k JOIN people q ON f.name = q.name"
    " WHERE p.brand = 'brand 3' AND q.town = 'town 3'",
    "a dimension of a dimension": "SELECT f.id, g.title FROM fact f JOIN parts p ON f.k = p.k"
    " JOIN groups g ON p.grp = g.grp WHERE g.title = 'group 4' AND p.size = 1",
    "the side that may be NULL": "SELECT p.k, f.id FROM parts p LEFT JOIN fact f ON f.k = p.k"
    " WHERE p.brand = 'brand 3'",
    "the right side of an anti join": "SELECT p.k FROM parts p WHERE p.brand = 'brand 3'"
    " AND NOT EXISTS (SELECT 1 FROM fact f WHERE f.k = p.k)",
    "groups below the join": "SELECT g.k, g.m FROM (SELECT k, sum(other) m FROM fact GROUP BY k) g"
    " JOIN parts p ON g.k = p.k WHERE p.brand = 'brand 3'",
    "nothing": "SELECT f.id FROM fact f JOIN parts p ON f.k = p.k WHERE p.brand = 'none'",
    "other names": "SELECT x.a FROM (SELECT k AS a, id AS b FROM fact) x JOIN (SELECT k AS c FROM parts"
    " WHERE brand = 'brand 3') y ON x.a = y.c WHERE x.b > 3",
    "rows of the statement": "SELECT f.id, v.t FROM fact f JOIN (VALUES (3, 'a'), (5, 'b'), (NULL, 'c'))"
    " v(k, t) ON f.k = v.k",
    "a semi-join with rows of the statement": "SELECT f.id FROM fact f WHERE f.name IN"
    " (SELECT x FROM VALUES ('name 3'), (NULL) v(x))",
    "a value that Delta answers": "SELECT f.id FROM fact f WHERE f.k = (SELECT min(grp) FROM groups)",
    "a comparison of columns beside it": "SELECT f.id FROM fact f JOIN parts p ON f.k = p.k"
    " WHERE p.brand = 'brand 3' AND f.k < f.n",
    "a subquery": "SELECT (SELECT sum(f.other) FROM fact f JOIN parts p ON f.k = p.k"
    " WHERE p.brand = 'brand 3')",
}
"""Statements that read few rows of the fact, since rows of a dimension are few."""


def served(accelerated: Acceleration, tables: dict[str, str], statement: str) -> list[str | None]:
    """How the scans of the fact were served in a statement whose rows are those of plain Spark."""
    spark = accelerated._spark
    assert rows_of(spark, statement) == rows_of(spark, statement, enabled=False), statement
    return [scan.served for scan in accelerated.last() if scan.table == tables["fact"]]


@pytest.mark.parametrize("name", SERVED)
def test_few_rows_of_a_dimension_are_few_rows_of_the_fact(
    accelerated: Acceleration, tables: dict[str, str], name: str
) -> None:
    assert served(accelerated, tables, SERVED[name]) == ["rows"]


UNSAFE = {
    "the preserved side": "SELECT f.id, p.k FROM fact f LEFT JOIN parts p"
    " ON f.k = p.k AND p.brand = 'brand 3'",
    "both preserved": "SELECT f.id, p.k FROM fact f FULL JOIN (SELECT * FROM parts WHERE brand = 'brand 3') p"
    " ON f.k = p.k",
    "an anti join": "SELECT id FROM fact f WHERE NOT EXISTS"
    " (SELECT 1 FROM parts p WHERE p.k = f.k AND p.brand = 'brand 3')",
    "not in": "SELECT id FROM fact WHERE k NOT IN (SELECT k FROM parts WHERE brand = 'brand 7')",
    "NULL is NULL": "SELECT f.id FROM fact f JOIN parts p ON f.k <=> p.k WHERE p.brand = 'brand 7'",
    "one or another": "SELECT f.id FROM fact f JOIN parts p ON f.k = p.k OR f.n = p.big"
    " WHERE p.brand = 'brand 3'",
    "NaN and zeros": "SELECT f.id, p.d FROM fact f JOIN people p ON f.d = p.d"
    " WHERE p.town IN ('town 3', 'town 4')",
    "a value in place of NULL": "SELECT f.id, x.c FROM parts p LEFT JOIN"
    " (SELECT k, coalesce(n, 0) c, id FROM fact) f ON p.k = f.k"
    " JOIN (SELECT grp c FROM groups WHERE title = 'group 0') x ON coalesce(f.c, 0) = x.c",
    "a window": "SELECT id, r FROM (SELECT id, k, row_number() OVER (ORDER BY id) r FROM fact) f"
    " JOIN parts p ON f.k = p.k WHERE p.brand = 'brand 3'",
    "a limit": "SELECT f.id FROM (SELECT k, id FROM fact ORDER BY id LIMIT 100) f JOIN parts p ON f.k = p.k"
    " WHERE p.brand = 'brand 3'",
}
"""Statements whose join needs other rows of the fact, or whose keys are compared otherwise."""


@pytest.mark.parametrize("name", UNSAFE)
def test_a_join_that_needs_other_rows_reads_them(
    accelerated: Acceleration, tables: dict[str, str], name: str
) -> None:
    assert "rows" not in served(accelerated, tables, UNSAFE[name])


def test_a_scan_that_two_joins_share_is_not_cut_to_the_keys_of_one(
    accelerated: Acceleration, tables: dict[str, str]
) -> None:
    shared = (
        "WITH f AS (SELECT id, k FROM fact WHERE n < 140)"
        " SELECT f.id FROM f JOIN parts p ON f.k = p.k WHERE p.brand = 'brand 3'"
        " UNION ALL SELECT f.id FROM f JOIN parts p ON f.k = p.k WHERE p.brand = 'brand 4'"
    )
    served(accelerated, tables, shared)


def test_a_dimension_that_changes_is_read_anew(accelerated: Acceleration, tables: dict[str, str]) -> None:
    spark, statement = accelerated._spark, SERVED["an inner join"].replace("brand 3", "brand 13")
    assert served(accelerated, tables, statement) == ["rows"]
    spark.sql(f"UPDATE delta.`{tables['parts']}` SET brand = 'brand 13' WHERE k = 42")
    assert "84" in str(
        rows_of(spark, f"SELECT f.id, f.other FROM ({statement}) x JOIN fact f ON x.id = f.id")
    )
    served(accelerated, tables, statement)
    index_of(tables["parts"], INDEXED["parts"])
    served(accelerated, tables, statement)


GROUPED = "SELECT g.{key}, g.m FROM (SELECT {key}, sum(f.id + f.other) m FROM fact f GROUP BY {key}) g"
FILTERED = {
    "groups": GROUPED.format(key="k") + " JOIN parts p ON g.k = p.k WHERE p.brand = 'brand 3'",
    "groups by texts": GROUPED.format(key="name") + " JOIN people p USING (name) WHERE p.town = 'town 9'",
    "groups by decimals": GROUPED.format(key="dec") + " JOIN people p ON g.dec = p.dec WHERE town = 'town 9'",
    "groups by days": GROUPED.format(key="day") + " JOIN days d ON g.day = d.day WHERE d.week = 'week 12'",
    "a column without an index": GROUPED.format(key="other")
    + " JOIN parts p ON g.other = p.big WHERE p.brand = 'brand 4'",
    "groups of partitions": "SELECT g.k, g.m FROM (SELECT k, sum(id + other) m FROM parted GROUP BY k) g"
    " JOIN parts p ON g.k = p.k WHERE p.size = 3 AND p.brand IN ('brand 3', 'brand 9')",
    "an average for each key": "SELECT f.id FROM fact f JOIN parts p ON f.k = p.k WHERE p.brand = 'brand 3'"
    " AND f.other < (SELECT avg(other) FROM fact x WHERE x.k = p.k)",
    "another join": "SELECT f.id, g.n FROM fact f JOIN fact g ON f.other = g.id JOIN parts p ON f.k = p.k"
    " WHERE p.brand = 'brand 3'",
    "the side that may be NULL": "SELECT p.k, f.id FROM parts p LEFT JOIN fact f ON f.k = p.k"
    " WHERE p.brand = 'brand 3'",
    "the right side of a semi-join": "SELECT p.k FROM parts p LEFT SEMI JOIN fact f ON f.k = p.k"
    " WHERE p.brand = 'brand 3'",
    "the right side of an anti join": "SELECT p.k FROM parts p LEFT ANTI JOIN fact f ON f.k = p.k"
    " WHERE p.brand = 'brand 3'",
    "rows of the statement": GROUPED.format(key="k") + " JOIN (VALUES (3), (5), (NULL)) v(k) ON g.k = v.k",
}
UNFILTERED = {
    "a join that streams them": "SELECT f.* FROM fact f JOIN parts p ON f.k = p.k WHERE p.brand = 'brand 3'",
    "a semi-join that streams them": "SELECT * FROM fact WHERE k IN (SELECT k FROM parts WHERE size = 2)",
    "NaN and zeros": GROUPED.format(key="d")
    + " JOIN people p ON g.d = p.d WHERE p.town IN ('town 3', 'town 4')",
    "a number for each row": "SELECT g.k, g.m FROM (SELECT k, max(number) m FROM"
    " (SELECT k, monotonically_increasing_id() number FROM fact) GROUP BY k) g"
    " JOIN parts p ON g.k = p.k WHERE p.brand = 'brand 3'",
    "the preserved side": "SELECT g.k, p.k FROM (SELECT k, max(other) FROM fact GROUP BY k) g"
    " LEFT JOIN parts p ON g.k = p.k AND p.brand = 'brand 3'",
}


@pytest.mark.parametrize("name", [*FILTERED, *UNFILTERED])
def test_rows_that_a_join_leaves_out_are_filtered_before_they_are_grouped_or_joined_otherwise(
    accelerated: Acceleration, tables: dict[str, str], name: str
) -> None:
    settings = {"spark.tailbit.mostRows": "15", "spark.tailbit.serve": "rows,files"}
    settings |= {"spark.sql.maxPlanStringLength": "100000"}
    with session_settings(accelerated._spark, settings):
        served(accelerated, tables, {**FILTERED, **UNFILTERED}[name])
        told = [scan.summary or "" for scan in accelerated.last()]
        frame = accelerated._spark.sql({**FILTERED, **UNFILTERED}[name])
        assert "INSET" not in frame._jdf.queryExecution().toString()
    assert any("rows are filtered by" in summary for summary in told) == (name in FILTERED), told


def test_rows_do_not_wait_for_keys_by_which_spark_prunes_partitions(
    accelerated: Acceleration, tmp_path: Path
) -> None:
    spark, paths = accelerated._spark, {name: str(tmp_path / name) for name in ("days", "dim")}
    days = duckdb.sql(
        "SELECT range id, range % 200 k, (range % 4)::INT part, range * 2 other FROM range(2000)"
    )
    dim = duckdb.sql("SELECT range k, (range % 20)::VARCHAR brand, (range % 4)::INT part FROM range(300)")
    write_deltalake(paths["days"], days.to_arrow_table(), partition_by=["part"])
    write_deltalake(paths["dim"], dim.to_arrow_table())
    index_of(paths["days"], ["id", "k"])
    index_of(paths["dim"], ["brand", "k"])
    statement = (
        "SELECT f.id, z.other FROM delta.`{days}` f JOIN delta.`{days}` z ON z.part = f.part"
        " JOIN delta.`{dim}` v ON f.part = v.part WHERE f.id < 60 AND z.k = 5 AND v.brand = '3'"
    ).format(**paths)
    plain = {"spark.sql.maxPlanStringLength": "100000", "spark.tailbit.enabled": "false"}
    with session_settings(spark, plain):
        assert "dynamicpruning" in spark.sql(statement)._jdf.queryExecution().toString()
    assert rows_of(spark, statement) == rows_of(spark, statement, enabled=False)
    assert "rows" in [scan.served for scan in accelerated.last() if scan.table == paths["days"]]


FEW = "(SELECT * FROM fact WHERE n < 5 AND other > 3)"
"""Some fifty rows, in all files of the fact, whose joined side is as large as the fact."""

SMALL_SIDES = {
    "an inner join": f"SELECT g.id, f.n FROM fact g JOIN {FEW} f ON f.other = g.id",
    "the first side": f"SELECT g.id, f.n FROM {FEW} f JOIN fact g ON f.other = g.id",
    "an outer join": f"SELECT g.id, f.n FROM fact g LEFT JOIN {FEW} f ON f.other = g.id",
    "a semi-join": f"SELECT g.* FROM fact g LEFT SEMI JOIN {FEW} f ON f.other = g.id",
    "groups": "SELECT g.id, f.c FROM fact g JOIN"
    f" (SELECT other, count(DISTINCT d) c FROM {FEW} GROUP BY other) f ON f.other = g.id",
    "a union": f"SELECT g.id FROM fact g JOIN (SELECT other o FROM {FEW} UNION ALL SELECT grp FROM groups) f"
    " ON f.o = g.id",
}
LARGE_SIDES = {
    "the preserved side": f"SELECT g.id, f.n FROM {FEW} f LEFT JOIN fact g ON f.other = g.id",
    "keys that only the join selects": "SELECT f.id, g.n FROM fact f JOIN parts p ON f.k = p.k"
    " JOIN fact g ON f.other = g.id WHERE p.brand = 'brand 3'",
    "a condition that the index does not tell": "SELECT g.id FROM fact g"
    " JOIN (SELECT * FROM fact WHERE other < 5) f ON f.other = g.id",
}


def is_broadcast(accelerated: Acceleration, statement: str, enabled: bool) -> bool:
    """Whether Spark broadcasts a scan of the fact, where no scan is as small as a file of it."""
    spark = accelerated._spark
    settings = {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.autoBroadcastJoinThreshold": "3000",
        "spark.tailbit.mostRows": "1",
        "spark.tailbit.serve": "rows,files",
    }
    with session_settings(spark, settings):
        if enabled:
            assert rows_of(spark, statement) == rows_of(spark, statement, enabled=False)
        with session_settings(spark, {"spark.tailbit.enabled": str(enabled).lower()}):
            return "BroadcastHashJoin" in spark.sql(statement)._jdf.queryExecution().executedPlan().toString()


@pytest.mark.parametrize("name", SMALL_SIDES)
def test_spark_broadcasts_rows_that_the_index_counts_where_they_are_few(
    accelerated: Acceleration, tables: dict[str, str], name: str
) -> None:
    assert not is_broadcast(accelerated, SMALL_SIDES[name], enabled=False)
    assert is_broadcast(accelerated, SMALL_SIDES[name], enabled=True)
    scans = [scan.detail or "" for scan in accelerated.last() if scan.table == tables["fact"]]
    assert sum("optimizer is told of" in detail for detail in scans) == 1


@pytest.mark.parametrize("name", LARGE_SIDES)
def test_spark_broadcasts_no_side_whose_rows_are_not_known_to_be_few(
    accelerated: Acceleration, tables: dict[str, str], name: str
) -> None:
    plain = is_broadcast(accelerated, LARGE_SIDES[name], enabled=False)
    assert is_broadcast(accelerated, LARGE_SIDES[name], enabled=True) == plain


JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
DIMENSIONS = {
    "parts": (
        ("f.k = p.k", "f.n = p.big", "f.k = p.big", "f.k <=> p.k"),
        ("brand = 'brand {n}'", "size = {m}"),
    ),
    "people": (("f.name = p.name", "f.dec = p.dec", "f.d = p.d"), ("town = 'town {n}'", "name = 'name {n}'")),
    "days": (
        ("f.day = p.day", "year(f.day) = p.y", "f.n = p.y"),
        ("week = 'week {n}'", "day < DATE'2020-01-{d:02}'"),
    ),
}
SHAPES = (
    "SELECT {shown} FROM (SELECT * FROM fact f WHERE {own}) f {join}"
    " (SELECT * FROM {name} WHERE {where}) p ON {on}",
    "SELECT {shown} FROM fact f {join} (SELECT * FROM {name} WHERE {where}) p ON {on} AND {own}",
    "SELECT * FROM (SELECT * FROM {name} WHERE {where}) p {join}"
    " (SELECT * FROM fact f WHERE {own}) f ON {on}",
    "SELECT {shown} FROM (SELECT DISTINCT k, n, name, dec, d, day, other FROM fact f WHERE {own}) f {join}"
    " (SELECT * FROM {name} WHERE {where}) p ON {on}",
    "SELECT {shown} FROM fact f {join} (SELECT * FROM {name} WHERE {where}) p ON {on}"
    " JOIN groups g ON f.n = g.grp WHERE g.title = 'group {m}'",
    "SELECT {shown} FROM (SELECT * FROM groups WHERE title = 'group {m}') g LEFT JOIN fact f ON f.n = g.grp"
    " {join} (SELECT * FROM {name} WHERE {where}) p ON {on}",
)


def random_join(chance: random.Random) -> str:
    """A statement that joins the fact with a dimension in some way."""
    name = chance.choice([*DIMENSIONS])
    conditions, filters = DIMENSIONS[name]
    numbers = {"n": chance.randrange(60), "m": chance.randrange(8), "d": chance.randrange(1, 29)}
    join = chance.choice(JOINS)
    shown = "f.*" if "SEMI" in join or "ANTI" in join else "*"
    own = chance.choice(["TRUE", "f.other > 500", "f.n < {n}", "(f.k IS NULL OR f.k < {n})"])
    text = chance.choice(SHAPES).format(
        shown=shown,
        join=join,
        name=name,
        on=chance.choice(conditions),
        own=own,
        where=chance.choice(filters),
        **numbers,
    )
    return text.format(**numbers)


@pytest.mark.parametrize("seed", range(400 if PROOF else 40))
def test_a_random_join_has_the_rows_of_plain_spark(
    accelerated: Acceleration, tables: dict[str, str], seed: int
) -> None:
    with session_settings(accelerated._spark, {"spark.tailbit.mostRows": str((1000, 15)[seed % 2])}):
        served(accelerated, tables, random_join(random.Random(SEED + seed)))
