"""Requests to the helper of Spark's driver that arrive at the same moment."""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.tables import index_of
from support.waiting import HANG_S
from tailbit.spark import helper as helpers

ROWS = 20


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = str(tmp_path / "table")
    write_deltalake(path, pa.table({"v": range(ROWS)}))
    index_of(path, ["v"])
    return path


def test_a_table_is_opened_by_one_request_and_others_wait_no_longer_than_their_driver(
    table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, metadata, opened = helpers.Helper(), DeltaTable(table), list[str]()
    release = threading.Event()

    def slowly(path: str, **options: Any) -> Any:
        opened.append(path)
        release.wait(HANG_S)
        return tailbit.open(path)

    monkeypatch.setattr(helpers, "open_indexed", slowly)
    fields = {"id": 1, "root": table, "table": str(metadata.metadata().id), "want": "count"}

    def ask(budget_ms: int, version: int = metadata.version()) -> Any:
        line = json.dumps({**fields, "version": version, "budget_ms": budget_ms}).encode()
        return process.reply(line, time.monotonic())[0]

    with ThreadPoolExecutor(4) as threads:
        first = threads.submit(ask, 60_000, 99)
        while not opened:
            time.sleep(0.01)
        waiting = [threads.submit(ask, 60_000) for _ in range(2)]
        assert ask(10)["declined"] == "helper-late"
        assert opened == [table]
        release.set()
        assert first.result()["declined"] == "no-version"
        assert [reply.result()["count"] for reply in waiting] == [ROWS] * 2
    assert len(opened) == 2, "a request that fails opens the table for itself alone"
    assert not process._opening


def test_the_helper_says_that_it_is_ready_while_every_thread_is_at_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release, written = threading.Event(), io.BytesIO()

    def answered(*_: Any) -> Any:
        release.wait(HANG_S)
        return {"answered": True}, b""

    class Questions(list[bytes]):
        def __iter__(self) -> Iterator[bytes]:
            yield from super().__iter__()
            assert json.loads(written.getvalue()) == {"id": -1, "ready": True}
            release.set()

    monkeypatch.setattr(helpers.Helper, "_answered", answered)
    asked = {"root": "ready", "table": "x", "version": 0, "want": "count"}
    questions = [json.dumps({"id": n, **asked}).encode() for n in range(2 * helpers.THREADS)]
    helpers.serve(Questions([*questions, b'{"id": -1, "want": "ready"}']), written)  # type: ignore[arg-type]
    replies = [json.loads(line) for line in written.getvalue().splitlines()]
    assert {reply["id"] for reply in replies} == {-1, *range(2 * helpers.THREADS)}
