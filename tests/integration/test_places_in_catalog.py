"""A table of a configuration is found where Spark's catalog says that it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.tables import three_commits
from tailbit.errors import NotATableError
from tailbit.streaming.many.application import place_in_catalog


def test_a_table_is_found_by_its_name_in_the_catalog(spark: Any, tmp_path: Path) -> None:
    path = three_commits(str(tmp_path / "by name"))
    spark.sql(f"CREATE TABLE known_by_name USING delta LOCATION '{path}'")
    assert place_in_catalog(spark, "known_by_name") == path
    with pytest.raises(NotATableError):
        place_in_catalog(spark, "known_by_nobody")
