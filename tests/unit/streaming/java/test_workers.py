"""Spark's Python processes import pyspark as it is installed, not from Spark's archive."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tailbit.streaming.java.session import variables_of_workers

pyspark = pytest.importorskip("pyspark")


def test_workers_on_one_machine_import_pyspark_as_it_is_installed_and_keep_the_rest_of_the_path(
    tmp_path: Path,
) -> None:
    variables = variables_of_workers(one_machine=True, environment={})
    home = os.path.dirname(pyspark.__file__)
    (archive,) = Path(home).glob("python/lib/py4j-*-src.zip")
    kept = str(tmp_path / "a folder")
    path = [f"{home}/python/lib/pyspark.zip", str(archive), f"{home}/jars/spark-core_2.13-4.2.0.jar", kept]
    show = "import sys, pyspark; print(pyspark.__file__, sys.executable, sys.path, sep='\\n')"
    done = subprocess.run(
        [variables["PYSPARK_PYTHON"], "-c", show],
        env=os.environ | variables | {"PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
        check=True,
    )
    file, executable, entries = done.stdout.splitlines()
    assert (file, executable) == (pyspark.__file__, sys.executable)
    assert [entry for entry in path if repr(entry) in entries] == [kept]


def test_a_python_that_somebody_chose_is_left() -> None:
    assert variables_of_workers(one_machine=True, environment={"PYSPARK_PYTHON": "/opt/python"}) == {}


def test_workers_on_other_machines_start_the_interpreter_itself() -> None:
    assert variables_of_workers(one_machine=False, environment={}) == {"PYSPARK_PYTHON": sys.executable}
