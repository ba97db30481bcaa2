"""Spark as it is deployed is accelerated by settings alone: a cluster, a thrift server, a Connect server."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from support.spark_deployments import sql_server, standalone_cluster, submitted
from support.tables import index_of
from tailbit.spark import jar

pytestmark = pytest.mark.spark

WANTED = "SELECT * FROM sales WHERE k = 'k7'"
QUESTIONS = [
    "SET spark.tailbit.serve=rows",
    f"EXPLAIN {WANTED}",
    WANTED,
    "SET spark.tailbit.serve=positions",
    f"EXPLAIN {WANTED}",
    WANTED,
    "SET spark.tailbit.serve=files",
    f"EXPLAIN {WANTED}",
    WANTED,
    "SET spark.tailbit.enabled=false",
    f"EXPLAIN {WANTED}",
    WANTED,
]
SHOWN = ("LocalTableScan", "IndexedRows", "IndexedFiles", "PreparedDeltaFileIndex")
"""What the plans show in turn, each once."""


def test_managed_tables_of_a_metastore_are_accelerated_on_a_cluster_for_connect_and_jdbc(
    tmp_path: Path,
) -> None:
    jar.build()
    made = (
        "CREATE TABLE sales USING delta AS"
        " SELECT /*+ REPARTITION(6) */ concat('k', id % 40) k, id v FROM range(120)"
    )
    with standalone_cluster(tmp_path) as master, sql_server(master, tmp_path) as server:
        with server.by_connect([made], QUESTIONS) as rows:
            index_of(tmp_path / "spark-warehouse" / "sales", ["k"])
        printed = server.by_jdbc(QUESTIONS)
    assert [str(rows).count(name) for name in SHOWN] == [1] * 4, rows
    answers = [sorted(answer) for answer in rows[3::3]]
    assert answers == [[f"Row(k='k7', v={v})" for v in (47, 7, 87)]] * 4
    assert [printed.count(name) for name in SHOWN] == [1] * 4, printed
    assert [printed.count(f"k7\t{v}\n") for v in (7, 47, 87)] == [4, 4, 4], printed


def test_executors_of_a_submitted_application_read_the_rows_at_the_positions_alone(tmp_path: Path) -> None:
    jar.build()
    path = str(tmp_path / "table")
    for first in range(0, 600, 100):
        values = range(first, first + 100)
        write_deltalake(path, pa.table({"k": [f"k{v % 40}" for v in values], "v": [*values]}), mode="append")
    index_of(path, ["k"])
    statements = ["SET spark.tailbit.serve=positions", f"SELECT * FROM delta.`{path}` WHERE k = 'k7'"]
    with standalone_cluster(tmp_path) as master:
        told = submitted(master, tmp_path, statements)
    assert told["wrong"] == []
    (scan,) = told["last"][-1]
    assert (scan["served"], scan["positions"], scan["files"]) == ("positions", 15, 6)
    assert (told["rows"][-1], told["scanned"][-1]) == (15, 15)
