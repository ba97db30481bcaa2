"""The stream of one table: waiting, draining, freezing, rows and errors, as its planner asks for them."""

from __future__ import annotations

import pickle
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from support.tables import append, index_of
from support.waiting import HANG_S
from tailbit.checkpoints.claim import Claim
from tailbit.checkpoints.liveness import Liveness
from tailbit.checkpoints.offset import Offset
from tailbit.errors import NotATableError, TailbitError
from tailbit.index.maintenance.create import ask_for_round
from tailbit.streaming.executors import ThreadExecutor
from tailbit.streaming.query import one_table
from tailbit.streaming.query.launch import Prepared, prepare, table_at_work
from tailbit.streaming.query.one_table import ANSWER_S, OneTable
from tailbit.streaming.query.planner_socket import PlannerSocket
from tailbit.streaming.query.source import LogsReader
from tailbit.streaming.query.stream import ranges_of


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Two versions, covered by an index."""
    path = str(tmp_path / "t")
    append(path)
    append(path)
    index_of(path, ["v"])
    return path


@pytest.fixture
def prepared(table: str) -> Prepared:
    found = prepare(table, None, None, None, "200ms")
    assert found is not None
    return found


def stream_of(prepared: Prepared, pace_s: float = 0.0) -> OneTable:
    """The stream without Spark."""
    life = Liveness()
    claim = Claim(prepared.index.storage, life=life)
    at_work = table_at_work(prepared, ThreadExecutor(), claim, None, [].append, life)
    return OneTable(prepared.table, at_work, life, 0.05, pace_s)


@pytest.fixture
def stream(prepared: Prepared) -> OneTable:
    return stream_of(prepared)


def end_of(stream: OneTable, start: dict[str, Any]) -> Offset:
    return Offset.from_json(stream.next(start))


def soon(act: Callable[[], object]) -> threading.Timer:
    """Do something while the stream waits."""
    timer = threading.Timer(0.2, act)
    timer.start()
    return timer


def test_an_idle_stream_answers_after_its_wait(stream: OneTable) -> None:
    start, began = stream.initial(), time.monotonic()
    assert stream.next(start) == start
    assert time.monotonic() - began >= ANSWER_S


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream waits as long as it takes."""
    monkeypatch.setattr(one_table, "ANSWER_S", HANG_S)


@pytest.mark.usefixtures("patient")
def test_a_commit_is_picked_up_while_waiting(stream: OneTable, table: str) -> None:
    start = stream.initial()
    committed = soon(lambda: append(table))
    assert end_of(stream, start).stands_at == 2
    committed.join()


def test_a_stream_that_is_drained_says_so_and_starts_nothing(stream: OneTable, table: str) -> None:
    start = stream.initial()
    append(table)
    stream.drain()
    assert not stream.is_idle
    assert stream.next(start) == start
    assert stream.is_idle


@pytest.mark.usefixtures("patient")
def test_a_wait_ends_when_the_stream_is_drained(prepared: Prepared) -> None:
    stream = stream_of(prepared, pace_s=3600.0)
    start = stream.initial()
    drained = soon(stream.drain)
    assert stream.next(start) == start
    assert stream.is_idle
    drained.join()


def test_a_frozen_stream_reads_nothing_that_came_later(stream: OneTable, table: str) -> None:
    start = stream.initial()
    append(table)
    stream.freeze()
    append(table)
    end = stream.next(start)
    assert Offset.from_json(end).stands_at == 2
    stream.take(ranges_of(stream.rows(start, end)), 0)
    assert stream.next(end) == end


def test_the_log_is_looked_at_no_sooner_than_the_pace_of_the_batches(prepared: Prepared, table: str) -> None:
    stream = stream_of(prepared, pace_s=3600.0)
    start = stream.initial()
    append(table)
    end = stream.next(start)
    assert Offset.from_json(end).stands_at == 2
    append(table)
    assert stream.next(end) == end


def test_a_new_round_is_found_while_waiting(stream: OneTable, prepared: Prepared) -> None:
    start = stream.initial()
    ask_for_round(prepared.index)
    assert end_of(stream, start).round > Offset.from_json(start).round


def test_a_query_is_begun_by_each_offset_that_a_release_before_has_written(
    stream: OneTable, table: str
) -> None:
    """The offset of a run of one table is what it was when the planner had a source of its own."""
    assert stream.initial().keys() == {"round", "version", "file", "fp"}
    append(table)
    before = {"round": 1, "version": 2, "file": None}
    assert end_of(stream, before).stands_at == 2


@pytest.fixture
def reader(stream: OneTable) -> Iterator[LogsReader]:
    """The planner's side of the stream."""
    socket = PlannerSocket(lambda name, arguments: getattr(stream, name)(*arguments))
    yield LogsReader(str(socket.folder))
    socket.close()


def rows_of(reader: LogsReader, start: Offset, end: Offset) -> list[tuple[str, ...]]:
    """The rows that Spark reads for a range, which passes from the planner to a worker by pickle."""
    partitions = pickle.loads(pickle.dumps(reader.partitions(start.to_json(), end.to_json())))
    return [row for partition in partitions for row in reader.read(partition)]


def test_spark_counts_a_row_for_each_version_of_a_range(reader: LogsReader, table: str) -> None:
    start = Offset.from_json(reader.initialOffset())
    for _ in range(3):
        append(table)
    DeltaTable(table).optimize.compact()
    end = Offset.from_json(reader.latestOffset(start.to_json(), reader.getDefaultReadLimit()))
    rows = rows_of(reader, start, end)
    assert len(rows) == 4
    assert ranges_of(rows) == {"t": (start, end)}
    assert rows_of(reader, end, end) == []


def test_spark_counts_one_row_for_a_part_of_a_snapshot(reader: LogsReader) -> None:
    parts = [Offset(2, 7, 0), Offset(2, 7, 20), Offset(2, 7, 40), Offset(2, 8)]
    assert [len(rows_of(reader, start, end)) for start, end in pairwise(parts)] == [1, 1, 1]
    assert len(rows_of(reader, Offset(1, 3), parts[0])) == 1


def test_a_range_is_planned_without_a_look_at_the_log(reader: LogsReader, table: str) -> None:
    before = rows_of(reader, Offset(1, 0), Offset(1, 2))
    shutil.rmtree(Path(table, "_delta_log"))
    assert rows_of(reader, Offset(1, 0), Offset(1, 2)) == before


def test_an_error_ends_the_query_by_its_text_and_the_stream_knows_it_by_name(
    reader: LogsReader, stream: OneTable, table: str
) -> None:
    start = reader.initialOffset()
    Path(table, "_delta_log").rename(f"{table}.away")
    with pytest.raises(RuntimeError, match=r"^NotATableError: "):
        reader.latestOffset(start, reader.getDefaultReadLimit())
    assert isinstance(stream.error, NotATableError)


def test_a_batch_that_fails_is_known_by_name(stream: OneTable, table: str) -> None:
    start = stream.initial()
    append(table)
    end = stream.next(start)
    Path(table).rename(f"{table}.away")
    with pytest.raises(TailbitError) as met:
        stream.take(ranges_of(stream.rows(start, end)), 0)
    assert stream.error is met.value


def test_the_report_has_the_head_and_the_lag_behind_it(stream: OneTable, table: str) -> None:
    start = stream.initial()
    append(table)
    append(table)
    stream.next(start)
    report = stream.report()
    assert report is not None
    assert report["version"] == 4
    assert (report["behind"]["versions"], report["behind"]["files"]) == (2, 2)
    assert report["behind"]["bytes"] > 0
