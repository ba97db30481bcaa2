"""One jar accelerates each release of Spark that it is meant for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from support import release_questions
from support.acceleration import patient_settings, run_patiently
from support.release_table import asked_of_every_mode, check_told
from support.spark_environments import python_with
from support.tables import index_of
from tailbit.spark import jar

pytestmark = pytest.mark.spark


def told(release: str, statements: list[str], folder: Path) -> Any:
    """Return what a release tells of some statements, with the rules and without."""
    jar.build()
    packages = {"spark.jars.packages": f"io.delta:delta-spark_{release.rpartition('.')[0]}_2.13:4.4.0"}
    settings = patient_settings() | packages | {"spark.master": "local[2]"}
    python = python_with(f"spark-{release}", f"pyspark=={release}")
    command = [python, release_questions.__file__, *map(json.dumps, (settings, statements))]
    known = json.loads(run_patiently(command, folder).splitlines()[-1])
    assert known["release"] == release
    return known


@pytest.mark.parametrize("release", ["4.0.1", "4.1.1"])
def test_the_jar_serves_every_mode_on_an_older_release(release: str, tmp_path: Path) -> None:
    statements = asked_of_every_mode(str(tmp_path / "table"))
    check_told(told(release, statements, tmp_path))


@pytest.mark.parametrize("release", ["4.0.1", "4.1.1"])
def test_patterns_and_letters_are_those_of_the_older_release(release: str, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    names = ["a😀b", "😀", "😀😀", "ab", "a_b", "𝄞x", "title", "TİTLE", "Ⱟ", "ΑΣ"]
    for number in range(3):
        rows = {"name": names * 20, "n": [number * 1000 + n for n in range(len(names) * 20)]}
        write_deltalake(path, pa.table(rows), mode="append")
    index_of(path, ["name"])
    patterns = ["a😀_", "_😀%b", "a_b", "😀_", "_%😀_%", "𝄞_", "_%_", "%😀%", "😀%"]
    conditions = [f"name LIKE '{pattern}'" for pattern in patterns]
    conditions += ["lower(name) = 'ασ'", "lower(name) = 'ⱟ'", "upper(name) = 'TİTLE'", "length(name) = 2"]
    statements = [f"SELECT count(*) FROM delta.`{path}` WHERE {condition}" for condition in conditions]
    assert told(release, statements, tmp_path)["wrong"] == []
