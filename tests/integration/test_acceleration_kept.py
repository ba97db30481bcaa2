"""Kept DataFrames after whatever happens to their table: with the rule as without it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from support.tables import index_of
from tailbit.spark.acceleration import Acceleration

INDEX = "INDEX"
CHANGES = {
    "rows": (
        "DELETE FROM {t} WHERE id = 17",
        "UPDATE {t} SET k = 'k17' WHERE id = 18",
        "MERGE INTO {t} x USING (SELECT * FROM {t} WHERE k = 'k19') y ON x.id = y.id"
        " WHEN MATCHED THEN UPDATE SET k = 'k17'",
        "OPTIMIZE {t}",
        INDEX,
        "RESTORE TABLE {t} TO VERSION AS OF 1",
        INDEX,
    ),
    "columns": (
        "ALTER TABLE {t} RENAME COLUMN k TO old",
        "ALTER TABLE {t} ADD COLUMN z STRING",
        "ALTER TABLE {t} RENAME COLUMN k2 TO k",
        "ALTER TABLE {t} RENAME COLUMN old TO k2",
        INDEX,
        "ALTER TABLE {t} DROP COLUMN k",
        "ALTER TABLE {t} ADD COLUMN k STRING",
        "UPDATE {t} SET k = 'k17' WHERE id < 5",
        INDEX,
        "ALTER TABLE {t} ALTER COLUMN j TYPE BIGINT",
        "INSERT INTO {t} SELECT id + 1000, i, j + 5000000000, k2, z, k FROM {t} WHERE id < 20",
        INDEX,
    ),
}
"""What happens to a table, and when its index is brought up to date."""

ASKED: dict[str, Callable[[Any], Any]] = {
    "rows": lambda frame: frame.where("k = 'k17'"),
    "join": lambda frame: frame.where("i = 7").alias("x").join(frame.where("j = 7").alias("y"), "id"),
}


@pytest.fixture
def path(spark: Any, tmp_path: Path) -> str:
    path = str(tmp_path / "table")
    frame = spark.range(600).selectExpr(
        "id",
        "cast(id AS int) i",
        "cast(id % 300 AS int) j",
        "concat('k', id % 200) k",
        "concat('k', id % 150) k2",
    )
    writer = frame.repartition(6).write.format("delta").option("delta.columnMapping.mode", "name")
    writer = writer.option("delta.enableTypeWidening", "true").option("delta.enableDeletionVectors", "true")
    writer.save(path)
    index_of(path, ["i", "j", "k", "k2"])
    return path


def outcome(spark: Any, frame: Any, enabled: bool) -> Any:
    """The rows of a kept DataFrame as they are now, or why Spark reads it no more."""
    spark.conf.set("spark.tailbit.enabled", str(enabled).lower())
    try:
        return sorted(map(str, frame.select("*").collect()))
    except PySparkException as refused:
        return str(refused).splitlines()[0]
    finally:
        spark.conf.set("spark.tailbit.enabled", "true")


def judged(accelerated: Acceleration, kept: dict[str, Any], after: str) -> int:
    """Check that each kept DataFrame has the same outcome with the rule; the number of scans served."""
    served = 0
    for name, frame in kept.items():
        plain = outcome(accelerated._spark, frame, False)
        assert outcome(accelerated._spark, frame, True) == plain, (after, name, accelerated.last())
        served += isinstance(plain, list) and any(scan.served for scan in accelerated.last())
    return served


@pytest.mark.parametrize("what", CHANGES)
def test_a_dataframe_kept_over_changes_has_the_outcome_that_it_has_without_the_rule(
    accelerated: Acceleration, path: str, what: str
) -> None:
    spark, served = accelerated._spark, 0
    load = spark.read.format("delta").load
    kept = {name: ask(load(path)) for name, ask in ASKED.items()}
    for number, change in enumerate(CHANGES[what]):
        if change == INDEX:
            index_of(path)
            accelerated._entry.forget()
        else:
            spark.sql(change.format(t=f"delta.`{path}`"))
        if number % 2:
            kept[change] = load(path).where("j = 17")
            served += judged(accelerated, kept, change)
    assert served >= 2


def test_a_dataframe_kept_while_its_table_is_made_anew_is_not_answered_from_either_index(
    accelerated: Acceleration, path: str
) -> None:
    spark = accelerated._spark
    kept = {name: ask(spark.read.format("delta").load(path)) for name, ask in ASKED.items()}
    assert judged(accelerated, kept, "nothing")
    for part in Path(path).iterdir():
        if part.name != "_tailbit":
            shutil.rmtree(part)
    frame = spark.range(600).selectExpr(
        "id", "cast(id AS int) i", "cast(id % 30 AS int) j", "concat('k', id % 20) k"
    )
    frame.selectExpr("*", "k k2").repartition(6).write.format("delta").save(path)
    judged(accelerated, kept, "made anew")
    shutil.rmtree(f"{path}/_tailbit")
    index_of(path, ["i", "j", "k", "k2"])
    accelerated._entry.forget()
    judged(accelerated, kept, "made anew with an index")
