"""Write the packed Iceberg tables of the tests with Iceberg's runtime on Spark, and what Spark reads in them.

A pack holds the table, and in `truth` the rows of the head, of each branch and tag and of each snapshot that
is not expired, as Parquet. Run by `make iceberg-tables`, in an environment of its own.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[1]))
from hudi_tables.packing import pack
from iceberg_tables.shapes import SHAPES

RUNTIME = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"
PACKED = Path(__file__).parent / "packed"
MERGED = ("delete", "update", "merge")

ALL_TYPES = """
    k BIGINT, b BOOLEAN, i INT, f FLOAT, d DOUBLE, p DECIMAL(9, 2), w DECIMAL(38, 10), s STRING, x BINARY,
    day DATE, ts TIMESTAMP, tn TIMESTAMP_NTZ, l ARRAY<INT>, m MAP<STRING, INT>,
    st STRUCT<a: INT, n: STRUCT<c: STRING>>, ls ARRAY<STRUCT<e: INT, g: STRING>>
"""
ROWS = """
    SELECT id AS k, id % 3 = 0 AS b, CAST(id * 7 AS INT) AS i,
      CASE id % 5 WHEN 0 THEN float('NaN') WHEN 1 THEN NULL ELSE CAST(id AS FLOAT) / 2 END AS f,
      CASE id % 7 WHEN 0 THEN double('-Infinity') WHEN 1 THEN -0.0D ELSE CAST(id AS DOUBLE) END AS d,
      CAST(id AS DECIMAL(9, 2)) / 4 AS p, CAST(id AS DECIMAL(38, 10)) * -1 AS w,
      CASE WHEN id % 4 = 0 THEN NULL ELSE concat(repeat('x', CAST(id % 20 AS INT)), 'ä', id) END AS s,
      CAST(concat('b', id) AS BINARY) AS x, date_add(DATE'1969-12-28', CAST(id AS INT)) AS day,
      timestamp_micros(id * 3600000000 * 7 - 90000000000) AS ts,
      TIMESTAMP_NTZ'2020-02-28 23:30:00' + make_interval(0, 0, 0, 0, CAST(id * 5 AS INT)) AS tn,
      CASE WHEN id % 3 = 0 THEN NULL ELSE array(CAST(id AS INT), NULL) END AS l,
      map(concat('k', id), CAST(id AS INT)) AS m,
      CASE WHEN id % 6 = 0 THEN NULL
        ELSE named_struct('a', CAST(id AS INT), 'n', named_struct('c', string(id))) END AS st,
      array(named_struct('e', CAST(id AS INT), 'g', string(id))) AS ls
    FROM range({first}, {end}, 1, 1)
"""


class Maker:
    """One table while it is made; `t` is its name in SQL."""

    def __init__(self, spark: SparkSession, folder: Path, name: str) -> None:
        self.spark, self.name = spark, name
        self.t = f"h.d.{name}"
        self.path = folder / "d" / name

    def sql(self, text: str) -> None:
        """Run a statement; `{t}` is the table."""
        self.spark.sql(text.replace("{t}", self.t))

    def call(self, text: str) -> None:
        """Call one of Iceberg's procedures."""
        self.spark.sql(f"CALL h.system.{text}".replace("{t}", f"d.{self.name}"))

    def create(self, columns: str, version: int = 2, partitioned: str = "", **properties: str) -> None:
        parts = f"PARTITIONED BY ({partitioned})" if partitioned else ""
        given = {"format-version": str(version), **properties}
        listed = ", ".join(f"'{key}'='{value}'" for key, value in given.items())
        self.sql(f"CREATE TABLE {{t}} ({columns}) USING iceberg {parts} TBLPROPERTIES ({listed})")

    def insert(self, first: int, end: int, select: str = "*") -> None:
        """Insert rows of all types."""
        self.sql(f"INSERT INTO {{t}} SELECT {select} FROM ({ROWS.format(first=first, end=end)})")

    def snapshots(self) -> list[int]:
        """The ids of the snapshots, oldest first."""
        rows = self.spark.sql(f"SELECT snapshot_id FROM {self.t}.snapshots ORDER BY committed_at").collect()
        return [row[0] for row in rows]


def merged(mode: str = "merge-on-read") -> dict[str, str]:
    """Properties of a table whose deletes are written in a mode."""
    return {f"write.{kind}.mode": mode for kind in MERGED}


def types(maker: Maker, version: int) -> None:
    """All types, copy-on-write."""
    maker.create(ALL_TYPES, version)
    maker.insert(0, 20)
    maker.insert(20, 30)
    maker.sql("DELETE FROM {t} WHERE k = 3")
    maker.sql("UPDATE {t} SET s = 'new' WHERE k IN (4, 25)")


def partitions(maker: Maker, version: int) -> None:
    """Every transform, and the spec changed twice."""
    maker.create(ALL_TYPES, version, "bucket(4, k), truncate(2, s), months(ts)", **merged())
    maker.insert(0, 12)
    maker.sql("ALTER TABLE {t} DROP PARTITION FIELD truncate(2, s)")
    maker.sql("ALTER TABLE {t} ADD PARTITION FIELD days(day)")
    maker.insert(12, 18)
    maker.sql("DELETE FROM {t} WHERE k IN (1, 13)")
    maker.sql("ALTER TABLE {t} REPLACE PARTITION FIELD bucket(4, k) WITH b")
    maker.sql("ALTER TABLE {t} ADD PARTITION FIELD hours(ts)")
    maker.sql("ALTER TABLE {t} ADD PARTITION FIELD years(tn)")
    maker.sql("ALTER TABLE {t} ADD PARTITION FIELD truncate(10, i)")
    maker.insert(18, 24)
    maker.sql("DELETE FROM {t} WHERE b")


def deletes(maker: Maker, version: int) -> None:
    """Deletes by position or vector, merges, compactions, rewritten manifests and deletes."""
    maker.create("k BIGINT, s STRING, v INT", version, "truncate(100, k)", **merged())
    for first in (0, 150):
        numbers = f"range({first}, {first + 150}, 1, 1)"
        maker.sql(f"INSERT INTO {{t}} SELECT id, string(id % 7), id FROM {numbers}")
    maker.sql("DELETE FROM {t} WHERE k % 10 = 3")
    maker.sql("UPDATE {t} SET v = -v WHERE s = '2'")
    maker.sql(
        "MERGE INTO {t} USING (SELECT id AS k, 'm' AS s, 0 AS v FROM range(290, 310)) n ON {t}.k = n.k"
        " WHEN MATCHED THEN UPDATE SET s = n.s WHEN NOT MATCHED THEN INSERT *"
    )
    maker.call("rewrite_manifests('{t}')")
    maker.sql("DELETE FROM {t} WHERE k < 40")
    maker.call(
        "rewrite_data_files(table => '{t}', where => 'k < 100', options => map('rewrite-all', 'true'))"
    )
    if version == 2:
        maker.call("rewrite_position_delete_files(table => '{t}', options => map('rewrite-all', 'true'))")
    maker.sql("DELETE FROM {t} WHERE v > 250")


def schemas(maker: Maker, version: int) -> None:
    """Columns added, dropped, renamed, moved and promoted, also within structs."""
    maker.create("k INT, s STRING, f FLOAT, p DECIMAL(5, 2), st STRUCT<a: INT, z: STRING>", version)
    maker.sql(
        "INSERT INTO {t} VALUES (1, 'a', 1.5, 1.25, named_struct('a', 1, 'z', 'x')),"
        " (2, NULL, NULL, NULL, NULL)"
    )
    maker.sql("ALTER TABLE {t} ADD COLUMN n INT AFTER k")
    maker.sql("ALTER TABLE {t} ADD COLUMN st.q DOUBLE")
    maker.sql("ALTER TABLE {t} ALTER COLUMN k TYPE BIGINT")
    maker.sql("ALTER TABLE {t} ALTER COLUMN f TYPE DOUBLE")
    maker.sql("ALTER TABLE {t} ALTER COLUMN p TYPE DECIMAL(9, 2)")
    maker.sql("ALTER TABLE {t} ALTER COLUMN st.a TYPE BIGINT")
    maker.sql(
        "INSERT INTO {t} VALUES (9999999999, 7, 'b', 1.1, 12345.5,"
        " named_struct('a', 9999999999, 'z', 'y', 'q', 2.5))"
    )
    maker.sql("ALTER TABLE {t} RENAME COLUMN s TO `the text`")
    maker.sql("ALTER TABLE {t} DROP COLUMN n")
    maker.sql("ALTER TABLE {t} ADD COLUMN n STRING FIRST")
    maker.sql("INSERT INTO {t} VALUES ('n', 3, 'c', 2.5, 3.25, NULL)")
    maker.sql("ALTER TABLE {t} RENAME COLUMN st.z TO y")
    maker.sql("ALTER TABLE {t} DROP COLUMN f")


def lines(maker: Maker, version: int) -> None:
    """Branches, tags, a staged snapshot that is published, rollbacks, expired snapshots."""
    maker.create("k BIGINT, s STRING", version, **merged(), **{"write.wap.enabled": "true"})
    for n in range(4):
        maker.sql(f"INSERT INTO {{t}} VALUES ({n}, 'a{n}')")
    maker.sql("ALTER TABLE {t} CREATE TAG first AS OF VERSION " + str(maker.snapshots()[1]))
    maker.sql("ALTER TABLE {t} CREATE BRANCH side")
    maker.sql("INSERT INTO h.d." + maker.name + ".branch_side VALUES (50, 'side')")
    maker.sql("DELETE FROM {t} WHERE k = 1")
    maker.spark.conf.set("spark.wap.id", "w1")
    maker.sql("INSERT INTO {t} VALUES (60, 'staged')")
    maker.spark.conf.unset("spark.wap.id")
    maker.sql("INSERT INTO {t} VALUES (61, 'after')")
    maker.call("publish_changes('{t}', 'w1')")
    back = maker.snapshots()[2]
    maker.call(f"rollback_to_snapshot('{{t}}', {back})")
    maker.sql("INSERT INTO {t} VALUES (70, 'after rollback')")
    maker.call("expire_snapshots(table => '{t}', older_than => now(), retain_last => 3)")
    maker.sql("INSERT INTO {t} VALUES (80, 'last')")


def upgraded(maker: Maker, version: int) -> None:
    """A table of version 1 that becomes one of versions 2 and 3, with deletes of each."""
    maker.create("k BIGINT, s STRING", 1, "s")
    maker.sql("INSERT INTO {t} SELECT id, string(id % 2) FROM range(0, 20, 1, 1)")
    maker.sql("DELETE FROM {t} WHERE k = 4")
    maker.sql("ALTER TABLE {t} DROP PARTITION FIELD s")
    listed = ", ".join(f"'{key}'='{value}'" for key, value in {"format-version": "2", **merged()}.items())
    maker.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ({listed})")
    maker.sql("INSERT INTO {t} SELECT id, string(id % 2) FROM range(20, 40, 1, 1)")
    maker.sql("DELETE FROM {t} WHERE k IN (5, 25)")
    maker.sql("ALTER TABLE {t} SET TBLPROPERTIES ('format-version'='3')")
    maker.sql("DELETE FROM {t} WHERE k IN (6, 7, 26)")
    maker.call("rewrite_data_files(table => '{t}', options => map('rewrite-all', 'true'))")


def replaced(maker: Maker, version: int) -> None:
    """A table that is created anew over itself, with old names under new ids, and overwritten in part."""
    maker.create("k BIGINT, s STRING, v INT", version, "s")
    maker.sql("INSERT INTO {t} VALUES (1, 'a', 1), (2, 'b', 2)")
    maker.sql(
        "CREATE OR REPLACE TABLE {t} USING iceberg PARTITIONED BY (v)"
        f" TBLPROPERTIES ('format-version'='{version}')"
        " AS SELECT 'x' AS k, 5 AS v UNION ALL SELECT 'y', 6"
    )
    maker.sql("INSERT OVERWRITE {t} SELECT 'z', 6")
    maker.sql("INSERT INTO {t} VALUES ('w', 7)")


def imported(maker: Maker, version: int) -> None:
    """Files without field ids, imported with partition values from their folders, then renamed columns."""
    maker.create("k BIGINT, s STRING, part BIGINT", version, "part")
    folder = maker.path / "imported"
    rows = maker.spark.sql("SELECT id AS k, string(id) AS s, id % 2 AS part FROM range(0, 10, 1, 1)")
    rows.write.partitionBy("part").parquet(str(folder))
    maker.call(f"add_files(table => '{{t}}', source_table => '`parquet`.`{folder}`')")
    maker.sql("INSERT INTO {t} VALUES (100, 'own', 5)")
    maker.sql("ALTER TABLE {t} RENAME COLUMN s TO text")


TABLES: dict[str, tuple[Callable[[Maker, int], None], int]] = {
    **{f"types_v{n}": (types, n) for n in (1, 2, 3)},
    **{f"partitions_v{n}": (partitions, n) for n in (2, 3)},
    **{f"deletes_v{n}": (deletes, n) for n in (2, 3)},
    **{f"schemas_v{n}": (schemas, n) for n in (1, 3)},
    **{f"lines_v{n}": (lines, n) for n in (2, 3)},
    "upgraded": (upgraded, 1),
    "replaced": (replaced, 2),
    "imported": (imported, 2),
    **SHAPES,
}


def record(maker: Maker) -> None:
    """Write what Spark reads at every state that has a name."""
    truth = maker.path / "truth"
    truth.mkdir()
    names = {"head": maker.t}
    refs = maker.spark.sql(f"SELECT name, type FROM {maker.t}.refs").collect()
    for name, _ in refs:
        names[name] = f"{maker.t} VERSION AS OF '{name}'"
    for id_ in maker.snapshots():
        names[str(id_)] = f"{maker.t} VERSION AS OF {id_}"
    for number, source in enumerate(names.values()):
        maker.spark.sql(f"SELECT * FROM {source}").coalesce(1).write.parquet(str(truth / str(number)))
        (file,) = (truth / str(number)).glob("*.parquet")
        file.rename(truth / f"{number}.parquet")
        shutil.rmtree(truth / str(number))
    (truth / "names.json").write_text(json.dumps([*names]))


def session(warehouse: Path) -> SparkSession:
    """Start Spark with Iceberg's runtime and a Hadoop catalog `h`."""
    settings = {
        "spark.jars.packages": RUNTIME,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.h": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.h.type": "hadoop",
        "spark.sql.catalog.h.warehouse": str(warehouse),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.shuffle.partitions": "1",
        "spark.default.parallelism": "1",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        # It keeps deletes as they were read, of the type that a key had before it was promoted.
        "spark.sql.iceberg.executor-cache.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.variant.writeShredding.enabled": "false",
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def main() -> None:
    """Make the tables named on the command line, or all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--packed", type=Path, default=PACKED)
    parser.add_argument("tables", nargs="*")
    given = parser.parse_args()
    shutil.rmtree(given.folder, ignore_errors=True)
    given.packed.mkdir(exist_ok=True)
    spark = session(given.folder)
    for name in given.tables or TABLES:
        make, version = TABLES[name]
        maker = Maker(spark, given.folder, name)
        make(maker, version)
        record(maker)
        pack(maker.path, given.packed / f"{name}.tar.gz")
        print(name, len(maker.snapshots()), "snapshots")


if __name__ == "__main__":
    main()
