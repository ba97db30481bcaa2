"""Spark as it is deployed is accelerated by settings alone: a cluster, a thrift server, a Connect server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from support.spark_deployments import Server, sql_server, standalone_cluster, submitted
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


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for JDBC and Connect on a cluster of its own."""
    jar.build()
    folder = tmp_path_factory.mktemp("server")
    with standalone_cluster(folder) as master, sql_server(master, folder) as server:
        yield server


def test_managed_tables_of_a_metastore_are_accelerated_on_a_cluster_for_connect_and_jdbc(
    server: Server,
) -> None:
    made = (
        "CREATE TABLE sales USING delta AS"
        " SELECT /*+ REPARTITION(6) */ concat('k', id % 40) k, id v FROM range(120)"
    )
    with server.by_connect([made], QUESTIONS) as rows:
        index_of(server.folder / "spark-warehouse" / "sales", ["k"])
    printed = server.by_jdbc(QUESTIONS)
    assert [str(rows).count(name) for name in SHOWN] == [1] * 4, rows
    answers = [sorted(answer) for answer in rows[3::3]]
    assert answers == [[f"Row(k='k7', v={v})" for v in (47, 7, 87)]] * 4
    assert [printed.count(name) for name in SHOWN] == [1] * 4, printed
    assert [printed.count(f"k7\t{v}\n") for v in (7, 47, 87)] == [4, 4, 4], printed


def test_changes_by_a_session_of_connect_are_refused_by_name_and_nothing_is_changed(
    server: Server, tmp_path: Path
) -> None:
    vectors = {"delta.enableDeletionVectors": "true"}
    write_deltalake(tmp_path / "t", pa.table({"k": [1, 2], "v": ["a", "b"]}), configuration=vectors)
    refusals = server.changed_by_connect(tmp_path / "t")
    assert len(refusals) == 9
    assert all("Spark Connect" in refusal for refusal in refusals), refusals
    assert DeltaTable(tmp_path / "t").version() == 0


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
