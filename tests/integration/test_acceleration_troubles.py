"""What goes wrong beside an accelerated session: the query runs as without, `last()` and one line say why."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from support.acceleration import helper_of, kill, logged, rows_of
from support.tables import index_files, index_of, truncated
from support.waiting import HANG_S
from tailbit.index.kinds.bitmap_index import BITMAP_INDEX
from tailbit.spark.acceleration import Acceleration


@pytest.fixture
def path(spark: Any, accelerated: Acceleration, tmp_path: Path) -> str:
    path = str(tmp_path / "table")
    frame = spark.range(400).selectExpr("id", "cast(id AS int) i", "concat('k', id % 80) k")
    frame.repartition(8).write.format("delta").save(path)
    index_of(path, ["i", "k"])
    accelerated._entry.forget()
    return path


def both(accelerated: Acceleration, statement: str) -> str | None:
    """Check that a statement has the same rows with the rule and without; return why it was not served."""
    spark = accelerated._spark
    assert rows_of(spark, statement) == rows_of(spark, statement, enabled=False)
    (scan,) = accelerated.last()
    return scan.served or scan.not_counted or scan.reason


def drop(path: str) -> None:
    shutil.rmtree(f"{path}/_tailbit")


def damage_postings(path: str) -> None:
    for file in index_files(path, BITMAP_INDEX):
        truncated(file)


def damage_log(path: str) -> None:
    for commit in Path(path, "_tailbit", "_delta_log").glob("*.json"):
        commit.write_text("{")


def make_anew(path: str) -> None:
    """Put another table in the place of the one that is indexed."""
    shutil.move(f"{path}/_tailbit", f"{path} index")
    shutil.rmtree(path)
    rows = pa.table({"id": pa.array(range(400), pa.int64()), "i": [1] * 400, "k": ["k9"] * 400})
    for _ in range(3):
        write_deltalake(path, rows, mode="append")
    shutil.move(f"{path} index", f"{path}/_tailbit")


MEANWHILE = {
    "dropped": (drop, True, "no-index", "its index is gone"),
    "damaged postings": (damage_postings, False, "damaged-index", "damaged-index"),
    "damaged log": (damage_log, False, "damaged-index", "damaged-index"),
    "another table": (make_anew, True, "other-history", "other-history"),
}
"""What happens to an index, whether it was asked before, the reason that is told, and what the log says."""


@pytest.mark.parametrize("trouble", MEANWHILE)
def test_an_index_that_is_dropped_or_damaged_meanwhile_leaves_queries_to_spark(
    accelerated: Acceleration, path: str, trouble: str
) -> None:
    happens, asked, reason, line = MEANWHILE[trouble]
    count = f"SELECT count(*) FROM delta.`{path}` WHERE k = "
    assert not asked or both(accelerated, f"{count} 'k7'") == "counts"
    happens(path)
    accelerated._spark.conf.set("spark.tailbit.knownMs", "0")
    with logged(accelerated._spark) as lines:
        reasons = [both(accelerated, f"{count} 'k{n}'") for n in range(8, 11)]
        told = [text for text in lines() if path in text]
    accelerated._spark.conf.unset("spark.tailbit.knownMs")
    assert reasons == [reason] * 3
    assert len(told) == 1, told
    assert line in told[0]


def test_a_helper_whose_python_has_no_tailbit_is_told_of_and_left_alone(
    accelerated: Acceleration, path: str, tmp_path: Path
) -> None:
    spark, statement = accelerated._spark, f"SELECT * FROM delta.`{path}` WHERE i = 77"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    spark.conf.set("spark.tailbit.python", str(tmp_path / "bare" / "bin" / "python"))
    try:
        with logged(spark) as lines:
            kill(helper_of(accelerated), signal.SIGKILL)
            reasons, end = set[str | None](), time.monotonic() + HANG_S
            while not any("status 1" in line for line in lines()):
                assert time.monotonic() < end, lines()
                reasons.add(both(accelerated, statement))
            assert reasons <= {"helper-ended", "helper-paused", "helper-starting"}
            assert both(accelerated, statement) in ("helper-paused", "helper-starting")
    finally:
        spark.conf.set("spark.tailbit.python", sys.executable)
    end = time.monotonic() + HANG_S
    while both(accelerated, statement) != "rows":
        assert time.monotonic() < end, accelerated.last()


def test_a_new_session_of_an_accelerated_one_is_accelerated_with_its_settings(
    accelerated: Acceleration, spark: Any, path: str
) -> None:
    statement = f"SELECT * FROM delta.`{path}` WHERE i = 78"
    spark.conf.set("spark.tailbit.mostRows", "7")
    new = Acceleration(spark.newSession(), accelerated._entry)
    assert both(new, statement) == "rows"
    assert new._spark.conf.get("spark.tailbit.mostRows") == "7"
    own = Acceleration(spark.newSession(), accelerated._entry)
    own._spark.conf.set("spark.tailbit.serve", "files")
    assert both(own, statement) == "files"
    new.stop()
    accelerated.stop()
    later = Acceleration(spark.newSession(), accelerated._entry)
    rows_of(later._spark, statement)
    assert later.last() == []
    accelerated._entry.attachWithNewSessions(spark._jsparkSession)
    spark.conf.unset("spark.tailbit.mostRows")
