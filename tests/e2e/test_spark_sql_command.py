"""Spark's own command line is accelerated by settings alone."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from deltalake import write_deltalake

from support.acceleration import patient_settings, run_patiently
from support.tables import index_of
from tailbit.spark import jar

pytestmark = pytest.mark.spark


def test_spark_sql_reads_rows_and_files_of_the_index_by_its_settings_in_either_order(tmp_path: Path) -> None:
    """Rows take the place of the scan before Delta lists files, though its extension is named first."""
    jar.build()
    path = str(tmp_path / "table")
    for n in range(6):
        keys = [f"k{(row * 7 + n) % 40}" for row in range(10)]
        write_deltalake(path, pa.table({"k": keys, "v": list(range(10))}), mode="append")
    index_of(path, ["k"])
    wanted = f"SELECT * FROM delta.`{path}` WHERE k = 'k7'"
    report = """SELECT concat('told ', count(*), ' ', count(served)) FROM tailbit_report()
        WHERE statement LIKE 'SELECT%'"""
    statements = (
        report,
        f"EXPLAIN {wanted}",
        f"SELECT 'rows', count(v) FROM ({wanted})",
        "SET spark.tailbit.serve=files",
        f"EXPLAIN {wanted}",
        f"SELECT 'rows', count(v) FROM ({wanted})",
        "SET spark.tailbit.enabled=false",
        f"EXPLAIN {wanted}",
        f"SELECT 'rows', count(v) FROM ({wanted})",
        report,
    )
    release = f"{pyspark.__version__.rpartition('.')[0]}_2.13:4.4.0"
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-sql"), "--master", "local[1]"]
    command += ["--packages", f"io.delta:delta-spark_{release}"]
    settings = patient_settings()
    ours, delta = settings["spark.sql.extensions"].split(",")
    settings["spark.sql.extensions"] = f"{delta},{ours}"
    command += [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    printed = run_patiently([*command, "-e", "; ".join(statements)], tmp_path)
    assert (printed.count("IndexedFiles"), printed.count("PreparedDeltaFileIndex")) == (1, 1), printed
    counts = [line for line in printed.splitlines() if line.startswith("rows")]
    assert printed.count("IndexedAnswer") == 1, printed
    assert len(counts) == 3
    assert len(set(counts)) == 1
    assert [line for line in printed.splitlines() if line.startswith("told")] == ["told 0 0", "told 2 2"]
