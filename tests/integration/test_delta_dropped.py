"""Features that are dropped again: every version, with them and without, is as Spark reads it."""

from __future__ import annotations

from typing import Any

import pytest

from support.judged import JudgedTable
from support.profiles import variants


@pytest.fixture
def spark(replayed_spark: Any) -> Any:
    """A session for what is not recorded."""
    return replayed_spark


@pytest.mark.parametrize("dropped", variants(["deletionVectors", "columnMapping", "typeWidening"], 1))
@pytest.mark.supports("Histories", "DROP FEATURE of deletionVectors, columnMapping, typeWidening", "exact")
@pytest.mark.supports("Table features", "checkpointProtection", "exact")
def test_features_that_are_dropped_leave_every_version_readable(
    spark: Any, table_path: str, dropped: str
) -> None:
    table = JudgedTable(spark, table_path, ["a", "b"])
    table.sql(
        "create table {t} (a byte, b string) using delta tblproperties ('delta.columnMapping.mode'='name',"
        " 'delta.enableDeletionVectors'='true', 'delta.enableTypeWidening'='true')",
        "insert into {t} values (1, 'x'), (2, null), (3, 'y')",
        "delete from {t} where a = 2",
        "alter table {t} rename column b to c",
        "alter table {t} alter column a type int",
        "insert into {t} values (1000, 'x')",
        f"alter table {{t}} drop feature {dropped}",
        "insert into {t} values (1, 'y')",
    )
    table.judge("a = 1", "a > 2", "b = 'x'", "c IS NULL OR c = 'y'")
    table.judge_facets("a", "c")
