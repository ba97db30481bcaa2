from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from support.index_records import counts, ledger, new_index, record
from tailbit.base.faults import InjectedFaultError
from tailbit.index.maintenance import vacuum as vacuuming
from tailbit.index.maintenance.merge import merge_all
from tailbit.index.maintenance.vacuum import vacuum
from tailbit.index.store import stored_log
from tailbit.index.store.table import MetadataTable

HOUR_MS = 3_600_000


def merged_index(path: Path) -> MetadataTable:
    """An index whose merges have left their inputs behind, forgotten by the log."""
    index = new_index(str(path))
    for i in range(9):
        index.commit([record(f"f{i}")], [counts(index, "c", {b"x": 1})], ledger(i))
    merge_all(index)
    index.checkpoint_log()
    for name in sorted(os.listdir(path / "_delta_log")):
        if name.endswith(".json") and int(name.split(".")[0]) < index.version:
            os.unlink(path / "_delta_log" / name)
    return index


@pytest.fixture(autouse=True)
def quick_tombstones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(stored_log.CONFIGURATION, "delta.deletedFileRetentionDuration", "interval 0 seconds")


def on_disk(path: Path) -> set[str]:
    return {str(p.relative_to(path)) for p in path.glob("kind=*/*")}


def later(hours: float) -> int:
    return int(time.time() * 1000 + hours * HOUR_MS)


def test_vacuum_deletes_what_nothing_refers_to_and_spares_the_rest(tmp_path: Path) -> None:
    index = merged_index(tmp_path)
    before = on_disk(tmp_path)
    gone = vacuum(index, now_ms=later(2))
    assert gone
    assert set(gone) == before - set(index.state.files)
    assert on_disk(tmp_path) == set(index.state.files)
    assert MetadataTable.open(str(tmp_path)).state.value_counts("c")[1].tolist() == [9]


def test_vacuum_spares_young_files(tmp_path: Path) -> None:
    index = merged_index(tmp_path)
    before = on_disk(tmp_path)
    assert vacuum(index) == []
    assert on_disk(tmp_path) == before


def test_a_dry_run_deletes_nothing_and_names_the_same_files(tmp_path: Path) -> None:
    index = merged_index(tmp_path)
    before = on_disk(tmp_path)
    named = vacuum(index, dry_run=True, now_ms=later(2))
    assert on_disk(tmp_path) == before
    assert named == vacuum(index, now_ms=later(2))


def test_vacuum_spares_files_that_a_version_in_the_log_refers_to(tmp_path: Path) -> None:
    index = new_index(str(tmp_path))
    for i in range(9):
        index.commit([record(f"f{i}")], [counts(index, "c", {b"x": 1})], ledger(i))
    merge_all(index)
    before = on_disk(tmp_path)
    assert vacuum(index, now_ms=later(2)) == []
    assert on_disk(tmp_path) == before


def test_vacuum_spares_files_removed_a_moment_ago_though_the_log_is_cleaned_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        stored_log.CONFIGURATION,
        "delta.deletedFileRetentionDuration",
        stored_log.TOMBSTONE_RETENTION,
    )
    index = merged_index(tmp_path)
    before = on_disk(tmp_path)
    assert vacuum(index, now_ms=later(2)) == []
    assert on_disk(tmp_path) == before


def test_vacuum_spares_the_spark_checkpoint_and_the_heartbeat(tmp_path: Path) -> None:
    index = merged_index(tmp_path)
    for name in ("_checkpoint/offsets/0", "_heartbeat.json", "_heartbeat/owner"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (1, 1))
    vacuum(index, now_ms=later(2))
    assert (tmp_path / "_checkpoint/offsets/0").exists()
    assert (tmp_path / "_heartbeat.json").exists()
    assert (tmp_path / "_heartbeat/owner").exists()


def test_a_vacuum_that_dies_half_way_leaves_a_whole_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = merged_index(tmp_path)
    monkeypatch.setenv("TAILBIT_FAULT", "vacuum_half_done=raise@2")
    monkeypatch.setattr("tailbit.base.faults._passes", {})
    with pytest.raises(InjectedFaultError):
        vacuum(index, now_ms=later(2))
    monkeypatch.delenv("TAILBIT_FAULT")
    found = MetadataTable.open(str(tmp_path))
    assert len(list(found.state.recorded.live())) == 9
    vacuum(found, now_ms=later(2))
    assert on_disk(tmp_path) == set(found.state.files)


def test_commits_that_another_writer_cleans_up_meanwhile_do_not_disturb_a_vacuum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, named = new_index(str(tmp_path)), vacuuming._named
    while index.version <= stored_log.LOG_CHECKPOINT_EVERY:
        index.commit([record(f"{index.version}.parquet")], [], ledger(index.version))
    cleaned: list[Path] = []

    def named_meanwhile(index: MetadataTable, version: int, *, whole: bool) -> set[str]:
        if not cleaned:
            cleaned.extend(sorted(tmp_path.glob("_delta_log/*.json"))[:10])
            for commit in cleaned:
                commit.unlink()
        return named(index, version, whole=whole)

    monkeypatch.setattr(vacuuming, "_named", named_meanwhile)
    assert vacuum(MetadataTable.open(index.path), 0.0, dry_run=True, now_ms=0) == []
    assert len(cleaned) == 10
    assert set(index.state.files) <= vacuuming.referenced(MetadataTable.open(index.path))
