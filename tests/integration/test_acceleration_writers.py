"""Accelerated statements beside other writers: never a mix of versions, and conflicts as without."""

from __future__ import annotations

import itertools
import math
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from support.profiles import PROOF, variants
from support.tables import index_of
from support.waiting import HANG_S
from tailbit.spark.acceleration import MODES, Acceleration

READERS, JOINS = 4, 400 if PROOF else 20


def hot(generation: int) -> pa.Table:
    """Two rows that are `hot`, and others."""
    keys = ["hot", "hot", *(f"k{n}" for n in range(8))]
    return pa.table({"k": keys, "g": pa.array([generation] * 10, pa.int64())})


def test_four_threads_that_join_and_count_under_a_writer_never_see_a_mix_of_versions(
    accelerated: Acceleration, spark: Any, tmp_path: Path
) -> None:
    """Each commit adds two rows: a count is even, a join of all with all a square, and neither goes back."""
    path, done, asked, wrong = str(tmp_path / "t"), threading.Event(), itertools.count(), list[Any]()
    turns = threading.Semaphore(READERS)
    cold = pa.table({"k": ["a", "z"] * 2500, "g": pa.array(range(5000), pa.int64())})
    for _ in range(4):
        write_deltalake(path, cold, mode="append")
    write_deltalake(path, hot(0), mode="append")
    index_of(path, ["k", "g"])
    # What was refused at one version is asked again at the next one.
    spark.conf.set("spark.tailbit.knownMs", "0")
    served = sum(map(accelerated.served, MODES))
    at = f"delta.`{path}`"
    join = f"SELECT count(*) FROM {at} x JOIN {at} y ON x.k = y.k WHERE x.k = 'hot' AND y.k = 'hot'"
    count = f"SELECT count(*) FROM {at} WHERE k = 'hot'"
    rows = f"SELECT g FROM {at} WHERE k = 'hot'"

    def write() -> None:
        for generation in itertools.count(1):
            # A writer that is quicker than the readers would leave them ever more files.
            turns.acquire()
            if done.is_set():
                return
            write_deltalake(path, hot(generation), mode="append")
            if generation % 2 == 0:
                index_of(path)

    def read() -> None:
        seen = 0
        while next(asked) < JOINS:
            ((pairs,),) = spark.sql(join).collect()
            ((number,),) = spark.sql(count).collect()
            generations = sorted(row.g for row in spark.sql(rows).collect())
            told = len(generations)
            is_whole = generations == sorted([*range(told // 2)] * 2) and number % 2 == 0
            if (
                not is_whole
                or math.isqrt(pairs) ** 2 != pairs
                or not seen <= math.isqrt(pairs) <= number <= told
            ):
                wrong.append((seen, pairs, number, generations))
            seen = told
            turns.release()

    writer = threading.Thread(target=write)
    readers = [threading.Thread(target=read) for _ in range(READERS)]
    for thread in (writer, *readers):
        thread.start()
    for thread in readers:
        thread.join()
    done.set()
    turns.release()
    writer.join()
    spark.conf.unset("spark.tailbit.knownMs")
    assert wrong == []
    assert next(asked) >= JOINS
    assert sum(map(accelerated.served, MODES)) > served


STATEMENTS = {
    "insert": "INSERT INTO {t} VALUES (2000, 'k5', 2000)",
    "insert of what is read": "INSERT INTO {t} SELECT id + 1000, k, v FROM {t} WHERE k = 'k5'",
    "insert of a count": "INSERT INTO {t} SELECT 3000, 'n', count(*) FROM {t} WHERE k = 'k5'",
    "update": "UPDATE {t} SET v = -1 WHERE k = 'k5'",
    "update elsewhere": "UPDATE {t} SET v = -2 WHERE id = 90",
    "delete": "DELETE FROM {t} WHERE k = 'k5' AND v < 50",
    "merge": "MERGE INTO {t} x USING (SELECT * FROM {t} WHERE k = 'k5') y ON x.id = y.id"
    " WHEN MATCHED THEN UPDATE SET v = -3",
    "merge of a count": "MERGE INTO {t} x USING (SELECT k, count(*) n FROM {t} WHERE k = 'k5' GROUP BY k) y"
    " ON x.k = y.k AND x.id < 20 WHEN MATCHED THEN UPDATE SET v = n"
    " WHEN NOT MATCHED THEN INSERT (id, k, v) VALUES (4000, y.k, n)",
    "optimize": "OPTIMIZE {t}",
}
"""Statements of which some read the table in their transaction, where the index serves the read.

Delta has no subquery in DELETE and UPDATE.
"""

PAIRS = [*itertools.product(STATEMENTS, repeat=2)]


@pytest.fixture(scope="module")
def pattern(spark: Any, accelerated: Acceleration, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of five files, indexed, of which statements get copies."""
    path = str(tmp_path_factory.mktemp("matrix") / "table")
    frame = spark.range(100).selectExpr("id", "concat('k', id % 25) k", "id v")
    writer = frame.repartitionByRange(5, "id").write.format("delta")
    writer.option("delta.enableDeletionVectors", "true").save(path)
    index_of(path, ["k", "v"])
    return path


def overtaken(spark: Any, first: str, second: str) -> str:
    """Run a statement that has read and written before another one commits; return how the first one ends."""
    delta = spark._jvm.org.apache.spark.sql.delta
    phases = delta.fuzzer.OptimisticTransactionPhases.forName("first")
    for phase in ("analysis", "initial", "prepare", "backfill", "postCommit"):
        getattr(phases, f"{phase}Phase")().entryBarrier().unblock()
    outcome = list[str]()

    def run() -> None:
        observer = delta.fuzzer.PhaseLockingTransactionExecutionObserver(phases)
        delta.TransactionExecutionObserver.setObserver(observer)
        try:
            spark.sql(first)
            outcome.append("committed")
        except PySparkException as conflict:
            outcome.append(str(conflict.getCondition()))
        except Py4JJavaError as anew:
            # OPTIMIZE begins another transaction after a conflict, for which Delta's observer has no phase.
            if "IllegalStateTransitionException" not in str(anew.java_exception):
                raise
            outcome.append("begins anew")

    thread = threading.Thread(target=run)
    thread.start()
    end = time.monotonic() + HANG_S
    while thread.is_alive() and not phases.commitPhase().hasReached():
        assert time.monotonic() < end, "the statement comes to no commit"
        time.sleep(0.01)
    try:
        spark.sql(second)
    finally:
        phases.commitPhase().entryBarrier().unblock()
        thread.join(HANG_S)
    assert not thread.is_alive()
    return outcome[0]


@pytest.mark.parametrize("pair", variants(PAIRS, 4), ids=" before ".join)
def test_two_transactions_end_as_they_do_without_the_index(
    accelerated: Acceleration, spark: Any, pattern: str, tmp_path: Path, pair: tuple[str, str]
) -> None:
    ends = {}
    for enabled in (False, True):
        path = str(tmp_path / str(enabled))
        shutil.copytree(pattern, path)
        texts = [STATEMENTS[name].format(t=f"delta.`{path}`") for name in pair]
        spark.conf.set("spark.tailbit.enabled", str(enabled).lower())
        try:
            outcome = overtaken(spark, texts[1], texts[0])
        finally:
            spark.conf.set("spark.tailbit.enabled", "false")
        rows = sorted(map(str, spark.read.format("delta").load(path).collect()))
        history = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").collect()
        spark.conf.set("spark.tailbit.enabled", "true")
        ends[enabled] = (outcome, rows, [(row.operation, row.isBlindAppend) for row in history])
    assert ends[True] == ends[False]
