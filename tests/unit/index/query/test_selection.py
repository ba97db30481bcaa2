"""A selection says per file where a predicate is TRUE, and what told it; threads may share it."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyroaring import BitMap

import tailbit
from support.delta_builder import DeltaBuilder
from support.scans import candidates
from support.tables import (
    VECTORS,
    break_bitmaps,
    eight_flights,
    flipped_pages,
    half_built,
    index_files,
    index_of,
)
from support.waiting import HANG_S
from tailbit.answer import Answer
from tailbit.index.postings.row_group import KeyRange
from tailbit.index.postings.segment import POSTINGS, Segment
from tailbit.index.predicate.tree import columns_of
from tailbit.index.query.selection import HitSource, Selection


@pytest.fixture
def path(table_path: str) -> str:
    """Eight flights, and two more that the index does not know yet."""
    builder = eight_flights(table_path)
    more = pa.table({"flight": [9, 10], "carrier": ["UA", "DL"], "dest": ["SFO", "SFO"], "dep_delay": [1, 2]})
    builder.commit([builder.data_file(more, "c.parquet")])
    return table_path


def selected(path: str, predicate: str | None) -> Selection:
    return tailbit.open(path).where(predicate)._selection


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        ("carrier = 'UA'", [("a", [0, 2], "index"), ("b", [0, 3], "index"), ("c", [0], "scan")]),
        ("carrier = 'DL'", [("b", [1], "index"), ("c", [1], "scan")]),
        ("dest = 'LAX'", [("a", [1, 2], "recheck"), ("b", [0], "recheck")]),
        ("carrier = 'AA' OR flight = 4", [("a", [1, 3], "recheck"), ("b", [2], "index")]),
        (None, [("a", [0, 1, 2, 3], "index"), ("b", [0, 1, 2, 3], "index"), ("c", [0, 1], "pruned")]),
        ("FALSE", []),
    ],
)
def test_each_file_says_where_it_matches_and_what_told_it(
    path: str, predicate: str | None, expected: list[tuple[str, list[int], str]]
) -> None:
    hits = selected(path, predicate).hits()
    assert [(h.slice_.path, h.positions.tolist(), h.source.value) for h in hits] == [
        (f"{file}.parquet", positions, source) for file, positions, source in expected
    ]


@pytest.mark.parametrize(
    ("predicate", "of_index", "of_data"),
    [
        ("carrier = 'UA' AND dest = 'SFO'", ["dest"], ["carrier", "dest"]),
        (
            "dest = 'SFO' AND flight > 1 AND carrier <> 'AA'",
            ["dest", "flight"],
            ["carrier", "dest", "flight"],
        ),
        ("carrier = 'UA' OR dest = 'SFO'", ["carrier", "dest"], ["carrier", "dest"]),
        ("dest = 'SFO' AND (carrier = 'UA' OR flight = 4)", ["carrier", "dest", "flight"], None),
    ],
)
def test_rows_that_bitmaps_leave_open_are_read_for_what_these_do_not_decide(
    path: str, predicate: str, of_index: list[str], of_data: list[str] | None
) -> None:
    selection = selected(path, predicate)
    _, scans, sources = selection._hits_and_scans
    columns: dict[HitSource, set[str]] = {HitSource.RECHECK: set(), HitSource.SCAN: set()}
    for scan, source in zip(scans, sources, strict=True):
        columns[source] |= {column.label for column in columns_of(scan.node)}
    assert sorted(columns[HitSource.RECHECK]) == of_index
    assert sorted(columns[HitSource.SCAN]) == (of_data or of_index)


def test_a_selection_and_its_answer_cannot_be_changed(path: str) -> None:
    answer = tailbit.open(path).where("carrier = 'UA'")
    with pytest.raises(dataclasses.FrozenInstanceError):
        answer.covered_version = 7  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        answer._selection.node = tailbit.open(path).where()._selection.node  # type: ignore[misc]


@pytest.mark.parametrize("predicate", ["carrier = 'UA'", "dest = 'SFO'", None])
def test_positions_that_a_caller_changes_change_no_later_answer(path: str, predicate: str | None) -> None:
    answer = tailbit.open(path).where(predicate)
    before = answer.read()
    for positions in answer.positions().values():
        positions[:] = 0
    assert answer.read().equals(before)


def test_only_reading_sources_count_as_read() -> None:
    assert [source for source in HitSource if source.read] == [HitSource.RECHECK, HitSource.SCAN]


ASKED: tuple[Callable[[Answer], Any], ...] = (
    Answer.count,
    Answer.positions,
    Answer.files,
    lambda answer: answer.facets("carrier"),
    lambda answer: answer.read().to_pylist(),
    lambda answer: [file["outcome"] for file in answer.explain()["files"]],
    lambda answer: answer.files_scanned,
    lambda answer: list(map(str, answer.damaged)),
)


@pytest.mark.parametrize("predicate", ["carrier = 'UA'", "carrier = 'UA' OR dest = 'LAX'"])
def test_threads_that_share_an_answer_get_what_one_thread_gets(table_path: str, predicate: str) -> None:
    rows = pa.table({"carrier": ["UA", "DL", "AA"] * 100, "dest": ["SFO", "LAX"] * 150})
    for _ in range(4):
        write_deltalake(table_path, rows, mode="append")
    index_of(table_path, ["carrier"], files=1)
    for file in index_files(table_path, "bitmap_index")[:2]:
        flipped_pages(file)
    alone = tailbit.open(table_path).where(predicate)
    alone.files()
    expected = [_plain(ask(alone)) for ask in ASKED[:-1]]
    for _ in range(5):
        shared = tailbit.open(table_path).where(predicate)
        together = threading.Barrier(len(ASKED) - 1)

        def ask(
            question: Callable[[Answer], Any], shared: Answer = shared, together: threading.Barrier = together
        ) -> Any:
            together.wait()
            return _plain(question(shared))

        with ThreadPoolExecutor(len(ASKED) - 1) as threads:
            assert list(threads.map(ask, ASKED[:-1])) == expected
        assert ASKED[-1](shared) == ASKED[-1](alone)
        assert len(shared.damaged) == 2


def _plain(value: Any) -> Any:
    return {key: list(at) for key, at in value.items()} if _by_path(value) else value


def _by_path(value: Any) -> bool:
    return isinstance(value, dict) and all(hasattr(at, "tolist") for at in value.values())


class _Waiting(Segment):
    """A segment that keeps the threads of one name waiting before they read it."""

    def __init__(self, segment: Segment) -> None:
        super().__init__(segment._storage, segment.path)
        self.asked, self.go_on = threading.Event(), threading.Event()

    def cover(self, column: str, ranges: Sequence[KeyRange]) -> list[BitMap]:
        if threading.current_thread().name.startswith("waits"):
            self.asked.set()
            assert self.go_on.wait(HANG_S)
        return super().cover(column, ranges)


def waiting(found: Selection) -> _Waiting:
    """The only segment of a selection, made to wait."""
    (space,) = found.coverage.spaces
    space.segments = [_Waiting(space.segments[0])]
    return space.segments[0]


def test_an_answer_that_waits_for_its_index_keeps_no_other_waiting(table_path: str) -> None:
    eight_flights(table_path)
    tailbit.open(table_path).compact()
    slow, quick = (selected(table_path, "carrier = 'UA'") for _ in range(2))
    segment = waiting(slow)
    with (
        ThreadPoolExecutor(1, thread_name_prefix="waits") as first,
        ThreadPoolExecutor(1, thread_name_prefix="asks") as second,
    ):
        begun = first.submit(slow.hits)
        assert segment.asked.wait(HANG_S)
        asked = second.submit(quick.hits)
        try:
            assert len(asked.result(HANG_S)) == 2
        finally:
            segment.go_on.set()
        assert len(begun.result(HANG_S)) == 2


def test_what_one_thread_finds_gone_changes_nothing_that_another_has_found(table_path: str) -> None:
    eight_flights(table_path)
    tailbit.open(table_path).compact()
    found = selected(table_path, "carrier = 'UA'")
    segment = waiting(found)
    with (
        ThreadPoolExecutor(1, thread_name_prefix="waits") as first,
        ThreadPoolExecutor(1, thread_name_prefix="asks") as second,
    ):
        late = first.submit(found.hits)
        assert segment.asked.wait(HANG_S)
        try:
            rows = second.submit(lambda: [hit.positions.tolist() for hit in found.hits()]).result(HANG_S)
            for file in index_files(table_path, "bitmap_index"):
                file.unlink()
            POSTINGS.clear()
        finally:
            segment.go_on.set()
        assert [hit.positions.tolist() for hit in late.result(HANG_S)] == rows == [[0, 2], [0, 3]]
        assert found.count() == 4


PREDICATES = {
    None: "abc",
    "v = 'v1'": "b",
    "v = 'v1' OR k < 10": "ab",
    "v <> 'v1' AND k >= 10": "c",
    "k > 5 OR v IS NULL": "abc",
    "v = 'nowhere'": "",
    "part = 'x'": "ac",
    "part = 'x' AND v = 'v1'": "",
}
"""Predicate to the files that an index of every file must leave."""


def table(path: str) -> None:
    """Files a, b and c of ten rows, k counting on; v is one value a file; of b's rows one is hidden."""
    schema = pa.schema([("k", pa.int64()), ("v", pa.string()), ("part", pa.string())])
    builder = DeltaBuilder(path).create(schema, ["part"], **VECTORS)
    for n, name in enumerate("abc"):
        rows = pa.table({"k": pa.array(range(10 * n, 10 * n + 10), pa.int64()), "v": [f"v{n}"] * 10})
        builder.commit([builder.data_file(rows, name, {"part": "y" if name == "b" else "x"})])
    builder.commit(builder.hide("b", builder.stored_vectors([0])[0]))


@pytest.mark.parametrize("predicate", PREDICATES)
def test_the_index_leaves_the_files_that_hold_a_match(tmp_path: Path, predicate: str | None) -> None:
    table(str(tmp_path))
    index_of(tmp_path, ["k", "v"])
    found = candidates(tailbit.open(tmp_path).where(predicate)._selection)
    assert "".join(slice_.path for slice_ in found) == PREDICATES[predicate]


def nothing(path: Path) -> None:
    """No index at all."""


def broken(path: Path) -> None:
    """An index whose bitmaps do not decode."""
    index_of(path, ["v"])
    break_bitmaps(path)


@pytest.mark.parametrize(
    "indexed",
    [nothing, broken, lambda path: half_built(path, ["v"]), lambda path: index_of(path, ["v"])],
    ids=["none", "broken", "half built", "one column"],
)
def test_no_file_with_a_match_is_missing_whatever_is_indexed(
    tmp_path: Path, indexed: Callable[[Path], object]
) -> None:
    table(str(tmp_path))
    indexed(tmp_path)
    for predicate in PREDICATES:
        answer = tailbit.open(tmp_path).where(predicate)
        assert {*answer.files()} <= {slice_.path for slice_ in candidates(answer._selection)}, predicate
