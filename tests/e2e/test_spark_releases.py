"""One jar accelerates each release of Spark that it is meant for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support import release_questions
from support.acceleration import patient_settings, run_patiently
from support.release_table import asked_of_every_mode, check_told
from support.spark_environments import python_with
from tailbit.spark import jar

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("release", ["4.0.1", "4.1.1"])
def test_the_jar_serves_every_mode_on_an_older_release(release: str, tmp_path: Path) -> None:
    jar.build()
    statements = asked_of_every_mode(str(tmp_path / "table"))
    packages = {"spark.jars.packages": f"io.delta:delta-spark_{release.rpartition('.')[0]}_2.13:4.4.0"}
    settings = patient_settings() | packages | {"spark.master": "local[2]"}
    python = python_with(f"spark-{release}", f"pyspark=={release}")
    printed = run_patiently(
        [python, release_questions.__file__, *map(json.dumps, (settings, statements))], tmp_path
    )
    told = json.loads(printed.splitlines()[-1])
    assert told["release"] == release
    check_told(told)
