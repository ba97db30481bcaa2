"""Settings that do not fit: queries run as without tailbit, `last()` and one line of the log say why."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from deltalake import write_deltalake

from support import release_questions
from support.acceleration import patient_settings, printed_and_logged
from support.spark_environments import python_with
from support.tables import index_of
from tailbit.spark import jar

pytestmark = pytest.mark.spark

DELTA = f"io.delta:delta-spark_{pyspark.__version__.rpartition('.')[0]}_2.13:4.4.0"


@pytest.fixture
def path(tmp_path: Path) -> str:
    jar.build()
    path = str(tmp_path / "table")
    for number in range(2):
        write_deltalake(path, pa.table({"k": ["a", "b", "a"], "v": [1, 2, 3 + number]}), mode="append")
    index_of(path, ["k"])
    return path


def told(python: str, settings: dict[str, str], path: str) -> tuple[dict[str, Any], list[str]]:
    """Return what two queries were told, whose rows are those of Spark, and the warnings of tailbit."""
    table = f"delta.`{path}`"
    statements = [f"SELECT v FROM {table} WHERE k = 'a'", f"SELECT count(*) FROM {table} WHERE k = 'a'"]
    given = map(json.dumps, (patient_settings() | {"spark.master": "local[1]"} | settings, statements))
    printed, logged = printed_and_logged(
        [python, release_questions.__file__, *given], Path(path).parent, False
    )
    answer = json.loads(printed.splitlines()[-1])
    assert (answer["rows"], answer["wrong"], sum(answer["served"].values())) == ([4, 1], [], 0)
    return answer, [line for line in logged.splitlines() if "tailbit" in line and " WARN " in line]


def test_a_release_of_spark_before_4_runs_its_queries_as_without_tailbit(path: str) -> None:
    packages = {"spark.jars.packages": "io.delta:delta-spark_2.12:3.3.2"}
    answer, lines = told(python_with("spark-3.5.9", "pyspark==3.5.9"), packages, path)
    assert answer["release"] == "3.5.9"
    assert [[scan["reason"] for scan in scans] for scans in answer["last"]] == [["other-release"]] * 2
    assert len(lines) == 1, lines
    assert "tailbit does not fit this release of Spark" in lines[0]


def test_a_jar_of_another_release_of_tailbit_is_answered_nothing(path: str, tmp_path: Path) -> None:
    another = tmp_path / "another.jar"
    with zipfile.ZipFile(jar.jar_path()) as ours, zipfile.ZipFile(another, "w") as theirs:
        for entry in ours.namelist():
            theirs.writestr(entry, b"another" if entry == "META-INF/tailbit-sources" else ours.read(entry))
    settings = {"spark.jars": str(another), "spark.jars.packages": DELTA}
    answer, lines = told(sys.executable, settings, path)
    assert [scan["reason"] for scans in answer["last"] for scan in scans] == ["other-release"] * 2
    assert len(lines) == 1, lines
    assert "the jar is of another release of tailbit" in lines[0]


def test_a_session_whose_jar_is_missing_runs_its_queries_as_spark_does(path: str, tmp_path: Path) -> None:
    settings = patient_settings() | {"spark.jars": str(tmp_path / "none.jar"), "spark.jars.packages": DELTA}
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-sql"), "--master", "local[1]"]
    command += [part for pair in settings.items() for part in ("--conf", "=".join(pair))]
    query = f"SELECT 'rows', count(*) FROM delta.`{path}` WHERE k = 'a'"
    printed, logged = printed_and_logged([*command, "-e", query], tmp_path)
    assert printed.split() == ["rows", "4"]
    assert logged.count("Cannot use io.tailbit.spark.Acceleration to configure session extensions") == 1
