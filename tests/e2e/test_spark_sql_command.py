"""Spark's own command line is accelerated by settings alone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from deltalake import write_deltalake

from support.spark_session import JAVA, SETTINGS
from support.tables import index_of
from tailbit.spark import acceleration_conf, jar

pytestmark = pytest.mark.spark


def test_spark_sql_reads_rows_and_files_of_the_index_by_its_settings_alone(tmp_path: Path) -> None:
    jar.build()
    path = str(tmp_path / "table")
    for n in range(6):
        keys = [f"k{(row * 7 + n) % 40}" for row in range(10)]
        write_deltalake(path, pa.table({"k": keys, "v": list(range(10))}), mode="append")
    index_of(path, ["k"])
    wanted = f"SELECT * FROM delta.`{path}` WHERE k = 'k7'"
    statements = (
        f"EXPLAIN {wanted}",
        f"SELECT 'rows', count(v) FROM ({wanted})",
        "SET spark.tailbit.serve=files",
        f"EXPLAIN {wanted}",
        f"SELECT 'rows', count(v) FROM ({wanted})",
        "SET spark.tailbit.enabled=false",
        f"EXPLAIN {wanted}",
        f"SELECT 'rows', count(v) FROM ({wanted})",
    )
    waiting = {"spark.tailbit.startMs": "60000", "spark.tailbit.budgetMs": "60000"}
    settings = {**SETTINGS, **acceleration_conf(), **waiting}
    release = f"{pyspark.__version__.rpartition('.')[0]}_2.13:4.4.0"
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-sql"), "--master", "local[1]"]
    command += ["--packages", f"io.delta:delta-spark_{release}"]
    command += [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    ran = subprocess.run(
        [*command, "-e", "; ".join(statements)],
        cwd=tmp_path,
        env={**os.environ, "SPARK_SUBMIT_OPTS": JAVA},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    assert (ran.stdout.count("IndexedFiles"), ran.stdout.count("PreparedDeltaFileIndex")) == (1, 1), (
        ran.stdout
    )
    counts = [line for line in ran.stdout.splitlines() if line.startswith("rows")]
    assert ran.stdout.count("LocalTableScan") == 1, ran.stdout
    assert len(counts) == 3
    assert len(set(counts)) == 1
