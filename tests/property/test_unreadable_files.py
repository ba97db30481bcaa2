"""Data files that cannot be read at some moments of any history: in the end nothing tells that they were not.

The judge is an index built in one go of the same table.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import deltalake
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tailbit
from support.contents import contents_of
from support.drive import Drive
from support.histories import DeltalakeHistory
from support.profiles import examples
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.settings import StreamSettings
from tailbit.streaming.sweeping import LONGEST_S, Retrier


@contextmanager
def unreadable(path: str, rng: random.Random) -> Iterator[None]:
    """Some live files are missing, cut or damaged while the block lasts."""
    files = [Path(uri.removeprefix("file://")) for uri in deltalake.DeltaTable(path).file_uris()]
    good = {file: file.read_bytes() for file in rng.sample(files, rng.randint(0, min(3, len(files))))}
    for file, data in good.items():
        damaged = rng.choice((None, data[: len(data) // 2], b"x" * len(data)))
        file.unlink() if damaged is None else file.write_bytes(damaged)
    yield
    for file, data in good.items():
        file.write_bytes(data)


@pytest.mark.supports("Changes", "a data file that cannot be read for some time", "exact", note="left out")
@given(seed=st.integers(min_value=0, max_value=2**32 - 1))
@examples(5)
def test_files_that_cannot_be_read_for_some_time_leave_no_trace(seed: int) -> None:
    rng, now = random.Random(seed), [0.0]
    with tempfile.TemporaryDirectory() as folder:
        history, columns = DeltalakeHistory(f"{folder}/t", rng), ["category", "small", "day"]
        settings = StreamSettings(files=rng.choice((1, 2, 2000)))
        indexer = Drive(history.path, f"{history.path}/_tailbit", columns, settings)
        index = MetadataTable.open(indexer.index.path)
        retrier = Retrier(indexer.table, index, lambda: now[0])
        for _ in range(rng.randint(3, 7)):
            history.step()
            with unreadable(history.path, rng):
                indexer.step() if rng.random() < 0.5 else indexer.drain()
                now[0] += rng.choice((1.0, 60.0, LONGEST_S))
                retrier.look()
                indexer.drain() if rng.random() < 0.5 else None
            if rng.random() < 0.3:
                tailbit.open(history.path).compact()
        indexer.drain()
        now[0] += LONGEST_S
        assert retrier.look() == bool(indexer.index.state.recorded.unread())
        indexer.drain()
        whole = Drive(history.path, f"{folder}/whole", columns)
        whole.drain()
        assert contents_of(indexer.index.path) == contents_of(whole.index.path), history.done
        assert tailbit.open(history.path).verify().problems == [], history.done
        assert tailbit.open(history.path).where("category IS NOT NULL AND day IS NULL").files_scanned == 0
