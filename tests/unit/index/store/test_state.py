from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.index_records import ledger, new_index, record, segment
from tailbit.index.kinds.kind import kind_of
from tailbit.index.kinds.schemas import BITMAP_INDEX, KINDS
from tailbit.index.maintenance.merge import merge_all
from tailbit.index.store import state
from tailbit.index.store.table import MetadataTable


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many paths of index files have been looked at since the last call."""
    seen: list[str] = []

    def count(path: str) -> str:
        seen.append(path)
        return kind_of(path)

    def since() -> int:
        found = len(seen)
        seen.clear()
        return found

    monkeypatch.setattr(state, "kind_of", count)
    return since


def test_a_commit_looks_at_the_files_it_changes_and_not_at_all_that_live(
    tmp_path: Path, looked_at: Callable[[], int]
) -> None:
    index = new_index(str(tmp_path))
    costs = []
    for n in range(30):
        looked_at()
        index.commit([record(f"f{n}")], [segment(index, f"{n:032x}", {"c": [b"x"]})], ledger(n))
        costs.append(looked_at())
    assert len(index.state.files_of(BITMAP_INDEX)) == 30
    assert costs[-1] == costs[1] < 12


def test_the_files_of_each_kind_are_those_that_live(tmp_path: Path) -> None:
    index = new_index(str(tmp_path))
    first, second = (segment(index, f"{n:032x}", {"c": [b"x"]}) for n in range(2))
    index.commit([record("a")], [first], ledger(1))
    index.commit([record("b")], [second], ledger(2), removes=[first.path])
    found = index.state
    assert found.paths_of(BITMAP_INDEX) == {second.path}
    by_kind = [file.path for kind in KINDS for file in found.files_of(kind)]
    assert sorted(by_kind) == sorted(found.files)


def test_a_data_file_is_forgotten_whose_last_record_came_and_went_between_two_looks(tmp_path: Path) -> None:
    writer = new_index(str(tmp_path))
    writer.commit([record("gone")], [], ledger(1))
    reader = MetadataTable.open(str(tmp_path))
    assert reader.state.recorded.get("gone") is not None
    writer.commit([record("gone", left=1, counted=False)], [], ledger(2))
    for number in range(14):
        writer.commit([record(f"f{number}")], [], ledger(3 + number))
        merge_all(writer, 5)
    merge_all(writer, 5)
    reader.refresh()
    fresh = MetadataTable.open(str(tmp_path)).state.recorded
    assert fresh.get("gone") is None
    assert sorted(r.path for r in reader.state.recorded.records()) == sorted(r.path for r in fresh.records())
