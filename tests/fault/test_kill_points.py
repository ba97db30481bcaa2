"""Whatever step between two durable effects the indexer dies at, the index equals one built without it.

Each test kills a real process with SIGKILL, asks the index as it was left, starts the process again and
compares with an index that was built in one go. The stream runs without Spark here, with offsets logged
before and after each batch as Spark does; `test_kill_spark.py` does the same to the shipped command.
"""

from __future__ import annotations

import math
import os
import random
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pyarrow as pa
import pytest

import tailbit
from support.contents import contents_of
from support.differential import assert_answers_agree
from support.forked import Forked
from support.fuzzer.columns import asked_array, pool
from support.histories import DeltalakeHistory
from support.oracle import Positions, duckdb_positions
from support.predicates import COLUMNS, INDEXED, Predicate, random_predicates
from support.profiles import seeds, variants
from support.waiting import wait_until
from tailbit.base.faults import Fault
from tailbit.index.kinds.schemas import BITMAP_INDEX
from tailbit.index.kinds.settings import FORMAT
from tailbit.index.maintenance.alter import alter
from tailbit.index.model import BITMAP, Definition, new_id
from tailbit.index.sql.terms import term_of
from tailbit.index.store.table import MetadataTable
from tailbit.tables import open_table

OF_SPARK = {Fault.BEFORE_SPARK_COMMIT}
"""Points that only a real stream passes."""

OF_REPAIR = {Fault.REPAIR_HALF_DONE}
"""Points that only `tailbit repair` passes."""

OF_FILLING = {Fault.FILL_PLANNED, Fault.FILL_BUILT, Fault.FILL_COMMITTED}
"""Points that only an indexer passes that fills files beside the stream."""

OF_CHANGES = {Fault.ROWS_LOCATED, Fault.VECTORS_WRITTEN, Fault.ROWS_APPENDED, Fault.CHANGE_COMMITTED}
"""Points that only a change of rows passes (`test_kill_changes.py`)."""

LATER = (
    *(Fault.OFFSET_LOGGED, Fault.BATCH_PLANNED, Fault.SEGMENT_HALF_WRITTEN),
    *(Fault.BEFORE_COMMIT, Fault.COMMIT_REPLY_LOST, Fault.AFTER_COMMIT),
)
"""Points that every batch passes; they are tried in a later batch as well."""


ARRAY = pa.list_(pa.string())
COLUMNS_OF_INDEX = (*INDEXED, "tags")
ASKED = (*COLUMNS, *[asked_array("tags", "tags", ARRAY, ("tags",))] * 3)


class TaggedHistory(DeltalakeHistory):
    """A history of a table that has an array, too."""

    def rows(self, count: int) -> pa.Table:
        """Random rows; one array in eight is NULL."""
        arrays = [None if self.rng.random() < 0.125 else self.rng.choice(pool(ARRAY)) for _ in range(count)]
        return super().rows(count).append_column("tags", pa.array(arrays, ARRAY))


class Case:
    """A table, what DuckDB says about it, and an index built without a fault."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "table")
        history = TaggedHistory(self.path, random.Random(3))
        for _ in range(18):
            history.step()
        self.head = history.head()
        self.predicates: list[Predicate] = random_predicates(random.Random(4), 16, ASKED)
        self.expected: list[Positions] = duckdb_positions(self.path, self.head, self.predicates)
        self.sound = str(folder / "sound")
        whole = run_indexer(self.path, self.sound)
        _, error = whole.communicate()
        assert whole.returncode == 0, error
        self.contents = contents_of(self.sound)

    def finish(self, index: str) -> None:
        """The index as it was left does no harm, and after a restart is what it should be."""
        if Path(index, "_delta_log").exists():
            self.ask(index)
        again = run_indexer(self.path, index)
        _, error = again.communicate()
        assert again.returncode == 0, error
        assert contents_of(index) == self.contents
        assert tailbit.open(self.path, index=index).verify().problems == []
        self.ask(index)

    def ask(self, index: str) -> None:
        """Every answer with this index is the one that DuckDB gives."""
        assert_answers_agree(self.path, self.head, self.predicates, self.expected, "killed", index)


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return Case(tmp_path_factory.mktemp("case"))


def run_indexer(table: str, index: str, fault: str = "") -> subprocess.Popen[str]:
    """Drive the stream in a process of its own until it is done or dies."""
    return run_module(fault, "support.drive_process", table, index, ",".join(COLUMNS_OF_INDEX))


def run_module(fault: str, *arguments: str) -> subprocess.Popen[str]:
    """A module in a process of its own, which may die at a named point."""
    return Forked(
        ["-m", *arguments],
        env={**os.environ, "TAILBIT_FAULT": fault},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize(
    ("fault", "passes"),
    [(fault, 1) for fault in Fault if fault not in OF_SPARK | OF_REPAIR | OF_FILLING | OF_CHANGES]
    + [(fault, 4) for fault in variants(LATER, 2)],
    ids=lambda at: at.value if isinstance(at, Fault) else str(at),
)
def test_once_and_only_once_an_index_killed_at_a_named_point_equals_one_built_without_the_fault(
    case: Case, tmp_path: Path, fault: Fault, passes: int
) -> None:
    index = str(tmp_path / "index")
    died = run_indexer(case.path, index, f"{fault.value}=kill@{passes}")
    _, error = died.communicate()
    assert died.returncode == -signal.SIGKILL, error
    case.finish(index)


@pytest.mark.parametrize(
    "fault",
    [
        *sorted(OF_FILLING, key=lambda fault: fault.value),
        Fault.SEGMENT_HALF_WRITTEN,
        Fault.SEGMENT_WRITTEN,
        Fault.BEFORE_COMMIT,
        Fault.AFTER_COMMIT,
    ],
    ids=lambda fault: fault.value,
)
@pytest.mark.parametrize("passes", [1, 2])
def test_an_indexer_killed_while_it_fills_files_goes_on_and_nothing_is_lost_or_twice(
    case: Case, tmp_path: Path, fault: Fault, passes: int
) -> None:
    index = tmp_path / "index"
    shutil.copytree(case.sound, index)
    shutil.copy(f"{case.sound}.offsets", f"{index}.offsets")
    schema = open_table(case.path).snapshot().schema
    definition = Definition(new_id(), "lowered", BITMAP, (term_of("lower(category)", schema),))
    alter(MetadataTable.open(str(index)), [definition], [])
    unhurt = tmp_path / "unhurt"
    shutil.copytree(index, unhurt)
    shutil.copy(f"{index}.offsets", f"{unhurt}.offsets")
    _, error = run_indexer(case.path, str(unhurt)).communicate()
    died = run_indexer(case.path, str(index), f"{fault.value}=kill@{passes}")
    _, error = died.communicate()
    assert died.returncode == -signal.SIGKILL, error
    case.ask(str(index))
    again = run_indexer(case.path, str(index))
    _, error = again.communicate()
    assert again.returncode == 0, error
    records = list(MetadataTable.open(str(index)).state.recorded.live())
    assert all(definition.id in record.built for record in records)
    assert contents_of(str(index)) == contents_of(str(unhurt))
    assert tailbit.open(case.path, index=str(index)).verify(derive=40).problems == []
    case.ask(str(index))


def lose_segment(index: Path) -> None:
    segments = MetadataTable.open(str(index)).state.files_of(BITMAP_INDEX)
    (index / segments[0].path).unlink()


def make_older(index: Path) -> None:
    """An older release wrote it, by what its settings say."""
    table = MetadataTable.open(str(index))
    table.commit([], [], None, settings=replace(table.state.settings, format=FORMAT - 1))


def lose_records(index: Path) -> None:
    for file in index.glob("kind=files/*.parquet"):
        file.unlink()


def cut_log(index: Path) -> None:
    """Every log checkpoint and the newest commit are cut: nothing tells what the index holds."""
    log = index / "_delta_log"
    for file in (*log.glob("*.checkpoint.parquet"), max(log.glob("*.json"))):
        file.write_bytes(file.read_bytes()[:200])


@pytest.mark.parametrize("lose", [lose_segment, lose_records, cut_log, make_older])
def test_an_index_whose_repair_is_killed_half_done_equals_one_built_without_the_fault(
    case: Case, tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    index = tmp_path / "index"
    shutil.copytree(case.sound, index)
    lose(index)
    repair = ("tailbit.cli", "repair", case.path, "--index", str(index))
    died = run_module(f"{Fault.REPAIR_HALF_DONE.value}=kill", *repair)
    _, error = died.communicate()
    assert died.returncode == -signal.SIGKILL, error
    case.ask(str(index))
    again = run_module("", *repair)
    _, error = again.communicate()
    assert again.returncode == 0, error
    case.finish(str(index))


def worked(process: subprocess.Popen[str]) -> float:
    """The seconds of processor time that a process has used: how far it is, on a busy machine too."""
    try:
        used = psutil.Process(process.pid).cpu_times()
    except psutil.NoSuchProcess:
        return math.inf
    return math.inf if process.poll() is not None else float(used.user + used.system)


@pytest.mark.parametrize("seed", seeds(1))
def test_an_index_killed_at_random_times_equals_one_built_without_the_fault(
    case: Case, tmp_path: Path, seed: int
) -> None:
    index, rng = str(tmp_path / "index"), random.Random(seed)
    for _ in range(4):
        process, at = run_indexer(case.path, index), rng.uniform(0.6, 2.0)
        wait_until(lambda running=process, at=at: worked(running) > at)
        process.kill()
        process.communicate()
    case.finish(index)
