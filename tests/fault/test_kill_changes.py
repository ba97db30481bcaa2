"""A process is killed at every point between look-up and commit of a change, which is then called again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from support.row_changes.killed import CHANGES, POINTS, ROWS, STATEMENTS, faults, name_of
from support.spark_session import rows_of
from support.tables import index_of
from tailbit.base.faults import Fault
from tailbit.spark.writing.target import REPLAYED

pytestmark = pytest.mark.spark

TESTS = Path(__file__).parents[1]
VECTORS = {"delta.enableDeletionVectors": "true"}


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of twenty rows in two partitions, half indexed; whoever changed each was killed at its point."""
    folder = tmp_path_factory.mktemp("killed")
    made = str(folder / "made")
    for first in (0, 10):
        ids = range(first, first + 10)
        rows = {"id": pa.array(ids, pa.int64()), "part": ["ab"[i % 2] for i in ids], "v": ["old"] * 10}
        write_deltalake(made, pa.table(rows), mode="append", partition_by=["part"], configuration=VECTORS)
        if first == 0:
            index_of(made, ["id"])
    for change, point in POINTS:
        shutil.copytree(made, folder / name_of(change, point))
    paths = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
    process = subprocess.Popen(
        [sys.executable, "-m", "support.row_changes.killed", str(folder)],
        env={**os.environ, "TAILBIT_FAULT": faults(), "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        assert "ready\n" in iter(process.stdout.readline, "")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    return folder


@pytest.mark.parametrize(
    ("change", "point"), POINTS, ids=lambda at: at.value if isinstance(at, Fault) else at
)
def test_a_change_killed_between_look_up_and_commit_and_called_again_is_made_once(
    spark: Any, killed: Path, change: str, point: Fault
) -> None:
    path, twin = str(killed / name_of(change, point)), str(killed / f"twin of {change} {point.value}")
    shutil.copytree(killed / "made", twin)
    statement = STATEMENTS[change].format(f"delta.`{twin}`")
    spark.sql(statement, **({"rows": spark.createDataFrame(ROWS)} if change == "upsert" else {})).collect()
    committed = point is Fault.CHANGE_COMMITTED
    assert DeltaTable(path).version() == (2 if committed else 1)
    for _ in range(2):
        done = CHANGES[change](spark, path)
        assert (done.by, done.reason) == ("index", REPLAYED if committed else None)
        assert rows_of(spark, path) == rows_of(spark, twin)
        committed = True
    assert DeltaTable(path).version() == 2
