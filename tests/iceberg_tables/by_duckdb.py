"""Write the packed tables of DuckDB, and what DuckDB reads in them.

DuckDB writes Iceberg tables of REST catalogs alone. Run in an environment with `duckdb` and its extensions as
packages, which the tests do not need.
"""

from __future__ import annotations

import argparse
import importlib
import json
import shutil
import sys
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[1]))
from hudi_tables.packing import pack
from iceberg_tables.rest_catalog import RestCatalog, served

PACKED = Path(__file__).parent / "packed"
EXTENSIONS = ("avro", "httpfs", "iceberg")
COLUMNS = """
    k BIGINT, s VARCHAR, u UUID, i INTEGER, f FLOAT, g DOUBLE, p DECIMAL(9, 2), w DECIMAL(38, 4), x BLOB,
    b BOOLEAN, day DATE, tz TIMESTAMPTZ, ts TIMESTAMP, l INTEGER[], m MAP(VARCHAR, INTEGER),
    st STRUCT(a INTEGER, z VARCHAR)
"""
ROWS = """
    SELECT n, CASE WHEN n % 4 = 0 THEN NULL ELSE 's' || n % 5 END,
      ('0000000' || n % 10 || '-0000-4000-8000-' || repeat((n % 10)::VARCHAR, 12))::UUID, n * 7,
      CASE WHEN n % 5 = 0 THEN 'nan'::FLOAT ELSE n / 2 END, CASE WHEN n % 3 = 0 THEN NULL ELSE -n END,
      n + 0.25, -n - 0.5, ('b' || n)::BLOB, n % 2 = 0, DATE '1969-12-28' + n::INTEGER,
      TIMESTAMPTZ '1969-12-31 20:00:00+00' + INTERVAL (n) HOUR,
      TIMESTAMP '2020-02-28 23:30:00' + INTERVAL (n) DAY,
      CASE WHEN n % 3 = 0 THEN NULL ELSE [n, NULL] END, map {{'m': n::INTEGER}},
      CASE WHEN n % 6 = 0 THEN NULL ELSE {{'a': n, 'z': 'z' || n}} END
    FROM range({first}, {end}) rows(n)
"""


def rows(first: int, end: int) -> str:
    """A statement that inserts rows of all types."""
    return f"INSERT INTO {{t}} {ROWS.format(first=first, end=end)}"


CHANGED = [
    rows(0, 20),
    rows(20, 30),
    "DELETE FROM {t} WHERE k % 7 = 3",
    "UPDATE {t} SET s = 'new', i = NULL WHERE k IN (4, 25)",
    "MERGE INTO {t} USING (SELECT 5 AS n) other ON k = other.n WHEN MATCHED THEN UPDATE SET s = 'm'",
    "ALTER TABLE {t} ADD COLUMN more INTEGER",
    "ALTER TABLE {t} RENAME COLUMN s TO text",
    "ALTER TABLE {t} ALTER COLUMN i TYPE BIGINT",
    "ALTER TABLE {t} DROP COLUMN x",
    "INSERT INTO {t} SELECT * REPLACE (k + 100 AS k, 3000000000 AS i, 1 AS more) FROM {t} WHERE k < 3",
    "DELETE FROM {t} WHERE k = 101 OR u IS NULL",
]
TABLES: dict[str, tuple[str, list[str]]] = {
    **{f"duckdb_plain_v{n}": (f"WITH ('format-version' = '{n}')", CHANGED) for n in (2, 3)},
    **{
        f"duckdb_parted_v{n}": (
            f"PARTITIONED BY ({by}) WITH ('format-version' = '{n}')",
            [rows(0, 12), rows(12, 18), "DELETE FROM {t} WHERE k IN (1, 13)", "DELETE FROM {t} WHERE b"],
        )
        for n, by in ((2, "s, year(day)"), (3, "bucket(3, k), truncate(1, s), month(ts)"))
    },
}


def main() -> None:
    """Make all tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--packed", type=Path, default=PACKED)
    given = parser.parse_args()
    shutil.rmtree(given.folder, ignore_errors=True)
    duck = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in EXTENSIONS:
        package = Path(str(importlib.import_module(f"duckdb_extension_{name}").__file__)).parent
        duck.load_extension(str(next(package.glob("**/*.duckdb_extension"))))
    duck.execute("SET TimeZone = 'UTC'")
    catalog = RestCatalog(given.folder)
    with served(catalog) as uri:
        options = f"ENDPOINT '{uri}', AUTHORIZATION_TYPE 'none', ACCESS_DELEGATION_MODE 'none'"
        duck.execute(f"ATTACH 'd' AS c (TYPE ICEBERG, {options})")
        for name, (how, statements) in TABLES.items():
            duck.execute(f"CREATE TABLE c.d.{name} ({COLUMNS}) {how}")
            for statement in statements:
                duck.execute(statement.replace("{t}", f"c.d.{name}"))
            folder = given.folder / name
            truth = folder / "truth"
            truth.mkdir()
            ids = [snapshot["snapshot-id"] for snapshot in catalog.tables[name][-1]["snapshots"]]
            states = {"head": "", **{str(id_): f"AT (VERSION => {id_})" for id_ in ids}}
            for number, version in enumerate(states.values()):
                table = duck.execute(f"SELECT * FROM c.d.{name} {version}").to_arrow_table()
                pq.write_table(table, truth / f"{number}.parquet")
            (truth / "names.json").write_text(json.dumps([*states]))
            pack(folder, given.packed / f"{name}.tar.gz")
            print(name, len(ids), "snapshots")


if __name__ == "__main__":
    main()
