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
    "SET spark.tailbit.serve=files",
    f"EXPLAIN {WANTED}",
    WANTED,
    "SET spark.tailbit.enabled=false",
    f"EXPLAIN {WANTED}",
    WANTED,
]
SHOWN = ("IndexedAnswer", "IndexedFiles", "PreparedDeltaFileIndex")
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
    assert [str(rows).count(name) for name in SHOWN] == [1] * 3, rows
    answers = [sorted(answer) for answer in rows[3::3]]
    assert answers == [[f"Row(k='k7', v={v})" for v in (47, 7, 87)]] * 3
    assert [printed.count(name) for name in SHOWN] == [1] * 3, printed
    assert [printed.count(f"k7\t{v}\n") for v in (7, 47, 87)] == [3, 3, 3], printed


def test_changes_by_a_session_of_connect_are_refused_by_name_and_rows_are_read(
    server: Server, tmp_path: Path
) -> None:
    vectors = {"delta.enableDeletionVectors": "true"}
    write_deltalake(tmp_path / "t", pa.table({"k": [1, 2], "v": ["a", "b"]}), configuration=vectors)
    *refusals, rows = server.changed_by_connect(tmp_path / "t")
    assert (len(refusals), rows) == (8, "[Row(k=1, v='a')]")
    assert all("Spark Connect" in refusal for refusal in refusals), refusals
    assert DeltaTable(tmp_path / "t").version() == 0


def test_executors_that_lack_the_jar_work_on_over_rows_and_counts(tmp_path: Path) -> None:
    jar.build()
    path = str(tmp_path / "table")
    for first in range(0, 600, 100):
        values = range(first, first + 100)
        write_deltalake(path, pa.table({"k": [f"k{v % 40}" for v in values], "v": [*values]}), mode="append")
    index_of(path, ["k"])
    where = f"FROM delta.`{path}` WHERE k = 'k7'"
    asked = [
        f"SELECT g.v, g.m FROM (SELECT v, max(k) m FROM delta.`{path}` GROUP BY v) g"
        f" JOIN (SELECT v {where}) x ON g.v = x.v",
        f"SELECT max(v) {where} GROUP BY v % 3",
        f"SELECT v + n FROM (SELECT v {where}) JOIN VALUES (1), (2) AS other(n) ON v % 2 = n % 2",
        f"SELECT v, lag(v) OVER (ORDER BY v) {where} AND v > 300",
        f"SELECT sum(n) FROM (SELECT count(*) n {where} UNION ALL SELECT 1)",
    ]
    # Operators whose code is not generated are sent to executors as they are.
    by_nodes = ["SET spark.sql.codegen.wholeStage=false", *asked]
    with standalone_cluster(tmp_path) as master:
        told = submitted(master, tmp_path, [*asked, *by_nodes])
    assert told["wrong"] == []
    assert any(scan.get("keys") == 15 for scan in told["last"][-5])
    served = [scan["served"] for scans in told["last"][-4:] for scan in scans]
    assert served == ["rows", "rows", "rows", "counts"]
    assert told["rows"][-4:] == [3, 15, 7, 1]
