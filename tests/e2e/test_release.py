"""A release is the same bytes each time; its wheel, without a JDK, and its Maven folder accelerate Spark.

How long a newcomer waits is measured, and told among the results of the tests.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from deltalake import write_deltalake

from support.acceleration import patient_settings, run_patiently
from support.release import ARTIFACT, GROUP, ROOT, make, project
from support.spark_deployments import delta_jars
from support.tables import index_of
from tailbit.streaming.java.session import PROVEN

pytestmark = pytest.mark.spark

TOOLS = ROOT / ".venv" / "release"
COUNT = "SELECT count(*) FROM delta.`{}` WHERE k = 'k7'"
WAIT_S = 900
"""Seconds after which a newcomer has gone, however slow the machine and the network are."""

NOT_OF_A_JRE = {f"jdk.{name}" for name in "compiler javadoc jshell jdeps jlink jartool jpackage".split()}
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


def installed(interpreter: str, released: Path, folder: Path) -> str:
    """Return the Python of an empty environment into which pip installed the wheel, and Spark."""
    subprocess.run([interpreter, "-m", "venv", "--clear", folder], check=True)
    [wheel] = released.glob("*.whl")
    install = [folder / "bin" / "python", "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt"]
    subprocess.run([*install, f"{wheel}[spark]"], check=True)
    return str(folder / "bin" / "python")


@pytest.fixture(scope="module")
def waited() -> dict[str, float]:
    """Seconds of what a newcomer waits for."""
    return {}


@pytest.fixture(scope="module")
def python(released: Path, waited: dict[str, float]) -> Iterator[str]:
    """The Python of an environment of the wheel."""
    folder = ROOT / "build" / "of-a-wheel"
    start = time.monotonic()
    made = installed(sys.executable, released, folder)
    waited["pip install"] = time.monotonic() - start
    yield made
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def jre(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Java that has no compiler: a runtime image without the modules of a JDK."""
    if shutil.which("jlink") is None:
        pytest.skip("needs jlink of a JDK")
    listed = subprocess.run(["java", "--list-modules"], capture_output=True, text=True, check=True).stdout
    modules = {line.partition("@")[0] for line in listed.splitlines()} - NOT_OF_A_JRE
    folder = tmp_path_factory.mktemp("java") / "jre"
    subprocess.run(["jlink", "--add-modules", ",".join(sorted(modules)), "--output", folder], check=True)
    assert not (folder / "bin" / "javac").exists()
    return folder


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


def test_the_bill_of_materials_has_the_licence_of_each_package_and_what_it_needs(released: Path) -> None:
    [file] = released.glob("*.cdx.json")
    bill = json.loads(file.read_text())
    names = {part["bom-ref"]: part["name"] for part in bill["components"]}
    licences = {part["name"]: part["licenses"][0]["expression"] for part in bill["components"]}
    assert licences["pyspark"] == "Apache-2.0"
    assert set(licences.values()) != {"unknown"}
    own = bill["metadata"]["component"]["bom-ref"]
    needs = {line["ref"]: line["dependsOn"] for line in bill["dependencies"]}
    assert {names[ref] for ref in needs[own]} >= {"pyarrow", "pyroaring", "pyspark"}
    assert needs.keys() == {own, *names}


def elsewhere(version: str) -> str:
    """Return another Python of this machine; the test is skipped where there is none."""
    of_pyenv = Path.home().glob(f".pyenv/versions/{version}.*/bin/python")
    for found in (shutil.which(f"python{version}"), *map(str, of_pyenv)):
        asked = [found, "-c", "import sys; print(*sys.version_info[:2], sep='.')"]
        if (
            found
            and subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip() == version
        ):
            return found
    pytest.skip(f"there is no Python {version}")


def other_java(version: str) -> Path:
    """Return another Java of this machine; the test is skipped where there is none."""
    for release in Path("/usr/lib/jvm").glob("*/release"):
        if f'JAVA_VERSION="{version}' in release.read_text(encoding="utf-8"):
            return release.parent
    pytest.skip(f"there is no Java {version}")


def test_the_installed_wheel_accelerates_with_a_java_that_has_no_compiler(
    python: str,
    jre: Path,
    table: str,
    waited: dict[str, float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    monkeypatch.setenv("PATH", f"{jre / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("JAVA_HOME", str(jre))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    start = time.monotonic()
    printed = run_patiently([python, "-c", CELL, COUNT.format(table)], tmp_path)
    waited["first accelerated query"] = time.monotonic() - start
    assert printed.split() == ["12", "counts"]
    for what, seconds in waited.items():
        record_property(what, f"{seconds:.0f} s")
        print(f"{what}: {seconds:.0f} s")
    assert sum(waited.values()) < WAIT_S


@pytest.mark.parametrize("version", ["3.10", "3.12", "3.13", "3.14"])
def test_the_wheel_indexes_and_accelerates_on_another_python(
    version: str, released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interpreter = elsewhere(version)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    python = installed(interpreter, released, tmp_path / "environment")
    _index_and_accelerate(python, tmp_path, version in PROVEN["Python"])


@pytest.mark.parametrize("version", ["21", "25"])
def test_the_wheel_indexes_and_accelerates_on_another_java(
    version: str, python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(other_java(version)))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    _index_and_accelerate(python, tmp_path, version in PROVEN["Java"])


def _index_and_accelerate(python: str, folder: Path, proven: bool) -> None:
    """A stream of Spark makes the index of a table, then a query of Spark is answered by it."""
    path = str(folder / "table")
    for _ in range(2):
        write_deltalake(path, pa.table({"k": [f"k{row % 5 + 5}" for row in range(10)]}), mode="append")
    tool = str(Path(python).with_name("tailbit"))
    made = [tool, "run", path, "--columns", "k", "--once", "--master", "local[2]"]
    done = subprocess.run(made, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert ("which are proven" in done.stderr) == proven
    assert run_patiently([python, "-c", CELL, COUNT.format(path)], folder).split() == ["4", "counts"]


def test_spark_shell_takes_the_jar_from_the_maven_repository_and_executors_need_no_tailbit(
    released: Path, python: str, table: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    packages = f"{GROUP}:{ARTIFACT}:{project()['version']}"
    settings = patient_settings() | {
        "spark.jars": ",".join(delta_jars()),
        "spark.jars.repositories": (released / "maven").as_uri(),
        "spark.jars.ivy": str(tmp_path / "ivy"),
        "spark.tailbit.python": python,
        # Executors are processes of their own, whose Python is none.
        "spark.executorEnv.PYSPARK_PYTHON": "/nowhere/python",
        "spark.executorEnv.PYTHONPATH": "/nowhere",
    }
    shell = Path(pyspark.__file__).parent / "bin" / "spark-shell"
    command = [str(shell), "--master", "local-cluster[1,1,1024]", "--packages", packages]
    command += [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    rows = f"SELECT count(v) FROM (SELECT k AS v FROM delta.`{table}` WHERE k = 'k7')"
    asked = [COUNT.format(table), rows]
    lines = [f'spark.sql("{one}").collect().foreach(row => println("counted " + row(0)))' for one in asked]
    lines.append(f'println(spark.sql("{asked[0]}").queryExecution.executedPlan)')
    start = time.monotonic()
    printed = run_patiently(command, tmp_path, "".join(f"{line}\n" for line in lines))
    seconds = time.monotonic() - start
    record_property("spark-shell --packages", f"{seconds:.0f} s")
    print(f"spark-shell --packages: {seconds:.0f} s")
    assert re.findall(r"counted (\d+)", printed) == ["12", "12"], printed
    assert "IndexedAnswer" in printed
    assert seconds < WAIT_S
