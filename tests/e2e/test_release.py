"""A release is the same bytes each time; its wheel, without a JDK, and its Maven folder accelerate Spark."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from deltalake import write_deltalake

from support.acceleration import patient_settings, run_patiently
from support.release import ARTIFACT, GROUP, ROOT, make, project
from support.spark_deployments import delta_jars
from support.tables import index_of

pytestmark = pytest.mark.spark

TOOLS = ROOT / ".venv" / "release"
COUNT = "SELECT count(*) FROM delta.`{}` WHERE k = 'k7'"
CELL = """
import sys
from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession
import tailbit.spark

builder = SparkSession.builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
catalog = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
builder = builder.config("spark.sql.catalog.spark_catalog", catalog)
spark = configure_spark_with_delta_pip(builder).getOrCreate()
acceleration = tailbit.spark.accelerate(spark, budget_ms=60_000)
[[count]] = spark.sql(sys.argv[1]).collect()
print(count, acceleration.last()[0].served)
"""


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a release of this checkout."""
    tools = ["make", f"PYTHON={sys.executable}", str(TOOLS / ".installed")]
    made = subprocess.run(tools, cwd=ROOT, capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"the tools cannot be installed: {made.stderr[-300:]}")
    folder = tmp_path_factory.mktemp("released") / "dist"
    make(TOOLS / "bin", folder)
    return folder


@pytest.fixture(scope="module")
def python(released: Path) -> Iterator[str]:
    """The Python of an environment into which pip installs the wheel, and what it needs for Spark."""
    folder = ROOT / "build" / "of-a-wheel"
    venv.create(folder, clear=True, with_pip=True)
    [wheel] = released.glob("*.whl")
    install = [folder / "bin" / "python", "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt"]
    subprocess.run([*install, f"{wheel}[spark]"], check=True)
    yield str(folder / "bin" / "python")
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An indexed table in which 12 rows of 60 are k7."""
    path = str(tmp_path_factory.mktemp("tables") / "table")
    for _ in range(6):
        write_deltalake(path, pa.table({"k": [f"k{row % 5 + 5}" for row in range(10)]}), mode="append")
    index_of(path, ["k"])
    return path


def test_two_releases_of_a_checkout_are_the_same_bytes(released: Path, tmp_path: Path) -> None:
    make(TOOLS / "bin", tmp_path / "again")
    assert (tmp_path / "again" / "SHA256SUMS").read_text() == (released / "SHA256SUMS").read_text()
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=released, check=True)


def test_the_installed_wheel_accelerates_without_a_compiler_of_java(
    python: str, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "javac").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "javac").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    printed = run_patiently([python, "-c", CELL, COUNT.format(table)], tmp_path)
    assert printed.split() == ["12", "counts"]


def test_spark_takes_the_jar_from_the_maven_repository(
    released: Path, python: str, table: str, tmp_path: Path
) -> None:
    settings = patient_settings() | {
        "spark.jars": ",".join(delta_jars()),
        "spark.jars.packages": f"{GROUP}:{ARTIFACT}:{project()['version']}",
        "spark.jars.repositories": (released / "maven").as_uri(),
        "spark.jars.ivy": str(tmp_path / "ivy"),
        "spark.tailbit.python": python,
    }
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-sql"), "--master", "local[1]"]
    command += [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    count = COUNT.format(table)
    printed = run_patiently([*command, "-e", f"EXPLAIN {count}; {count}"], tmp_path)
    assert "IndexedAnswer" in printed
    assert printed.splitlines()[-1] == "12"
