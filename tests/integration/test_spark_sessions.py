"""Answers in Spark where its session, the moment or a VACUUM could make them others; Spark is the judge."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import tailbit
import tailbit.spark
from support.rows import canonical


def spelled(rows: Any) -> list[str]:
    """Rows of Spark in one order."""
    return sorted(str(canonical(list(row))) for row in rows)


@pytest.fixture(scope="module")
def registered(spark: Any) -> Any:
    tailbit.spark.register(spark)
    return spark


def test_names_in_backticks_are_names_where_a_session_takes_them_as_patterns(
    spark: Any, tmp_path: Path
) -> None:
    path, name = str(tmp_path / "t"), "spark.sql.parser.quotedRegexColumnNames"
    deltalake.write_deltalake(path, pa.table({"i.d": range(40)}))
    spark.conf.set(name, "true")
    try:
        frame = tailbit.open(path).where("`i.d` > 37").dataframe(spark)
        assert spelled(frame.collect()) == ["[38]", "[39]"]
    finally:
        spark.conf.unset(name)


def test_texts_of_fixed_length_compare_as_in_the_answer_where_a_session_takes_them_as_strings(
    spark: Any, tmp_path: Path
) -> None:
    path, name = str(tmp_path / "t"), "spark.sql.legacy.charVarcharAsString"
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT, c CHAR(3)) USING delta")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'a'), (2, 'b')")
    spark.conf.set(name, "true")
    try:
        answers = [tailbit.open(path).where(f"c = '{text}'") for text in ("a", "a  ")]
        assert [answer.dataframe(spark).count() for answer in answers] == [1, 1]
        assert [answer.count() for answer in answers] == [1, 1]
    finally:
        spark.conf.unset(name)


@pytest.mark.parametrize("moment", ["now() < TIMESTAMP'2000-01-01'", "year(current_date()) = 1999"])
def test_a_dataframe_holds_to_the_moment_at_which_the_answer_was_asked(
    spark: Any, tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "t")
    deltalake.write_deltalake(path, pa.table({"id": range(40)}))
    opened = tailbit.open(path)
    monkeypatch.setattr(opened, "_clock", lambda: 946_684_799_000_000)
    answer = opened.where(f"id > 35 AND {moment}")
    assert spelled(answer.dataframe(spark).collect()) == ["[36]", "[37]", "[38]", "[39]"]
    assert answer.count() == 4


@pytest.mark.parametrize("lost", [None, "k = 12"])
def test_format_tailbit_of_a_vacuumed_version_names_the_one_that_would_work(
    registered: Any, tmp_path: Path, lost: str | None
) -> None:
    path = str(tmp_path / "t")
    for first in (0, 10):
        rows = pa.table({"k": range(first, first + 10), "v": [f"v{first}"] * 10})
        deltalake.write_deltalake(path, rows, mode="append")
    table = deltalake.DeltaTable(path)
    table.delete("v = 'v10'")
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    given = {"version": 1} | ({} if lost is None else {"where": lost})
    with pytest.raises(Exception, match="of version 1 is gone: from version 2 on") as gone:
        registered.read.format("tailbit").options(**given).load(path).collect()
    head = deltalake.DeltaTable(path).version()
    assert sys.version_info < (3, 11) or f"Ask for version {head}, the newest" in str(gone.value)


def test_a_new_session_registers_beside_one_that_has(registered: Any, feature_table: str) -> None:
    new = registered.newSession()
    tailbit.spark.register(new)
    tailbit.spark.register(new)
    counts = [s.read.format("tailbit").load(feature_table).count() for s in (new, registered)]
    assert counts[0] == counts[1] > 0
    java = registered._jvm.org.apache.spark.sql.classic.SparkSession
    assert java.getActiveSession().get().equals(registered._jsparkSession)


def test_several_paths_are_refused_by_name(registered: Any, feature_table: str) -> None:
    with pytest.raises(Exception, match="format tailbit was given several paths"):
        registered.read.format("tailbit").load([feature_table, feature_table])
