"""One jar accelerates each release of Spark that it is meant for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from support import release_questions
from support.acceleration import patient_settings, run_patiently
from support.tables import index_of
from tailbit.spark import jar

pytestmark = pytest.mark.spark

ENVIRONMENTS = Path(__file__).parents[2] / "build"


def python_of(release: str) -> str:
    """Return the Python of an environment with that release of Spark; it is made once."""
    folder = ENVIRONMENTS / f"spark-{release}"
    python = folder / "bin" / "python"
    if not (folder / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", f"pyspark=={release}"]
        done = subprocess.run(install, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"pyspark {release} cannot be installed: {done.stderr[-300:]}")
        (folder / "installed").touch()
    return str(python)


@pytest.mark.parametrize("release", ["4.0.1", "4.1.1"])
def test_the_jar_serves_every_mode_on_an_older_release(release: str, tmp_path: Path) -> None:
    jar.build()
    path = str(tmp_path / "table")
    for n in range(6):
        rows = [(f"k{row % 10 * 6 + n:02}", row % 3, n * 100 + row) for row in range(100)]
        names = ("k", "g", "v")
        columns = {name: list(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)}
        write_deltalake(path, pa.table(columns), mode="append")
    DeltaTable(path).delete("v = 3")
    index_of(path, ["k", "g"])
    table = f"delta.`{path}`"
    covered = f"{table} VERSION AS OF {DeltaTable(path).version()}"
    write_deltalake(path, pa.table({"k": ["k31"], "g": [1], "v": [7000]}), mode="append")
    statements = (
        "SET spark.tailbit.serve=files",
        f"SELECT * FROM {table} WHERE k = 'k31' AND g < 2",
        f"SELECT a.v, b.g FROM {table} a JOIN {table} b ON a.v = b.v WHERE a.k = 'k26' AND b.g < 2",
        "SET spark.tailbit.serve=rows,counts,groups",
        f"SELECT * FROM {covered} WHERE k = 'k31' AND g < 2",
        f"SELECT a.v, b.g FROM {covered} a JOIN {covered} b ON a.v = b.v WHERE a.k = 'k26' AND b.g < 2",
        f"SELECT count(*) FROM {covered} WHERE k IN ('k21', 'k32') AND g <> 1",
        f"SELECT g, count(*) FROM {covered} WHERE k LIKE 'k1%' GROUP BY g",
    )
    packages = {"spark.jars.packages": f"io.delta:delta-spark_{release.rpartition('.')[0]}_2.13:4.4.0"}
    given = map(json.dumps, (patient_settings() | packages, statements))
    printed = run_patiently([python_of(release), release_questions.__file__, *given], tmp_path)
    told = json.loads(printed.splitlines()[-1])
    assert (told["release"], told["wrong"]) == (release, [])
    assert told["rows"] > 8
    assert all(told["served"].values()), told
