"""An index is written wherever its folder lies, whatever the folder's name."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import tailbit
from support.index_records import ledger, new_index
from support.tables import index_of, three_commits, truncated
from tailbit.errors import IndexLogError
from tailbit.index.maintenance.definitions import add
from tailbit.index.maintenance.vacuum import referenced
from tailbit.index.model import Definition
from tailbit.index.store import stored_log
from tailbit.index.store.stored_log import LOG_CHECKPOINT_EVERY, last_checkpoint
from tailbit.index.store.table import MetadataTable
from tailbit.tables import open_table
from tailbit.tables.storage import Storage


@pytest.mark.parametrize("name", ["a%20b", "50%", "é%41 %2F", "%", "%zz #?"])
def test_a_folder_whose_name_looks_encoded_holds_a_table_and_its_index(tmp_path: Path, name: str) -> None:
    deltalake.write_deltalake(tmp_path / "plain", pa.table({"v": [1, 2, 2]}))
    folder = (tmp_path / "plain").rename(tmp_path / name)
    drive = index_of(folder, ["v"])
    (folder / "_delta_log" / f"{1:020d}.json").write_text('{"commitInfo": {}}\n')
    drive.drain()
    opened = tailbit.open(folder)
    assert opened.where("v = 2").count() == 2
    assert opened.where().covered_version == 1
    assert opened.verify().sound
    assert [path.name for path in tmp_path.iterdir()] == [name]


def young(folder: Path) -> MetadataTable:
    """An index of a table, with a log checkpoint."""
    index = index_of(three_commits(str(folder)), ["v"]).index
    while index.version <= LOG_CHECKPOINT_EVERY:
        index.commit([], [], None)
    return index


@pytest.mark.parametrize(
    "hint", [b"", b'{"version":', b"[]", b"{}", b'{"version":"x"}', b"\xff", b'{"version":60}']
)
def test_a_damaged_hint_of_the_newest_log_checkpoint_changes_nothing(tmp_path: Path, hint: bytes) -> None:
    index = young(tmp_path / "t")
    Path(index.path, "_delta_log/_last_checkpoint").write_bytes(hint)
    index = MetadataTable.open(index.path)
    index.commit([], [], None)
    index.checkpoint_log()
    assert last_checkpoint(index.storage) == index.version == LOG_CHECKPOINT_EVERY + 2


@pytest.mark.parametrize("damage", [truncated, Path.unlink])
@pytest.mark.parametrize("delta_rs", [True, False])
def test_a_log_checkpoint_of_the_index_that_cannot_be_read_is_named_once_and_made_anew_by_who_writes(
    tmp_path: Path, delta_rs: bool, damage: Callable[[Path], object]
) -> None:
    index = young(tmp_path / "t")
    if delta_rs:
        deltalake.DeltaTable(index.path).create_checkpoint()
    checkpoint = max(Path(index.path, "_delta_log").glob("*.checkpoint.parquet"))
    damage(checkpoint)
    again = MetadataTable.open(index.path)
    again.commit([], [], None)
    again.checkpoint_log()
    told = again.take_mended()
    # One that is gone is not missed: the commits before it are there.
    assert len(told) == checkpoint.exists()
    assert all("checkpoint.parquet" in line for line in told)
    fresh = MetadataTable.open(index.path)
    fresh.commit([], [], None)
    fresh.checkpoint_log()
    assert fresh.take_mended() == []
    assert fresh.state.files.keys() <= referenced(fresh)
    assert tailbit.open(tmp_path / "t").verify().sound


def test_a_log_that_delta_rs_has_checkpointed_and_written_to_is_carried_on(tmp_path: Path) -> None:
    index = young(tmp_path / "t")
    live = set(index.state.files)
    by_delta_rs = deltalake.DeltaTable(index.path)
    by_delta_rs.create_checkpoint()
    for checkpointed in (False, True):
        index = MetadataTable.open(index.path)
        index.commit([], [], None)
        if checkpointed:
            index.checkpoint_log()
    by_delta_rs = deltalake.DeltaTable(index.path)
    assert by_delta_rs.version() == index.version
    assert {uri.partition("/kind=")[2] for uri in by_delta_rs.file_uris()} == {
        path.partition("kind=")[2] for path in index.state.files
    }
    assert len(live & set(index.state.files)) == len(live) - 1
    assert tailbit.open(tmp_path / "t").verify().sound


def test_a_log_checkpoint_that_another_process_has_damaged_meanwhile_is_named_by_who_writes(
    tmp_path: Path,
) -> None:
    asleep = young(tmp_path / "t")
    awake = MetadataTable.open(asleep.path)
    awake.commit([], [], None)
    awake.checkpoint_log()
    truncated(max(Path(asleep.path, "_delta_log").glob("*.checkpoint.parquet")))
    with pytest.raises(IndexLogError, match="the log checkpoint cannot be read"):
        referenced(MetadataTable.open(asleep.path))


def test_a_log_checkpoint_holds_what_all_commits_say_without_tombstones_that_are_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    minutes = [0]
    for module in (stored_log, stored_log):
        monkeypatch.setattr(module, "now_ms", lambda: minutes[0] * 60_000)
    index = new_index(str(tmp_path))
    while index.version < 3 * LOG_CHECKPOINT_EVERY:
        minutes[0] += 1
        index.commit([], [], ledger(minutes[0]))
    log = tmp_path / "_delta_log"
    newest: dict[object, tuple[str, dict[str, Any]]] = {}
    for version in range(index.version + 1):
        lines = map(json.loads, (log / f"{version:020}.json").read_text().splitlines())
        for action in (line for line in lines if "commitInfo" not in line):
            [(name, value)] = stored_log.storable(action).items()
            key = "file" if name in ("add", "remove") else name
            newest[key, value.get("path", value.get("appId"))] = (name, value)
    kept_ms = (minutes[0] - 10) * 60_000
    expected = [
        (name, value)
        for name, value in newest.values()
        if name != "remove" or value["deletionTimestamp"] > kept_ms
    ]
    stored = [
        (name, {key: value for key, value in fields.items() if value is not None})
        for row in stored_log.read_log_checkpoint(index.storage, index.version).to_pylist()
        for name, fields in row.items()
        if fields is not None
    ]
    assert sorted(stored, key=repr) == sorted(expected, key=repr)
    assert sum(name == "remove" for name, _ in stored) == 10


def test_a_commit_below_a_log_checkpoint_that_another_process_has_written_at_once_is_known_to_have_landed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = young(tmp_path / "t")
    while (index.version + 2) % LOG_CHECKPOINT_EVERY:
        index.commit([], [], None)
    other, above = MetadataTable.open(index.path), stored_log.is_checkpointed_above

    def after_the_other(storage: Storage, version: int) -> bool:
        monkeypatch.setattr(stored_log, "is_checkpointed_above", above)
        other.refresh()
        other.commit([], [], None)
        other.checkpoint_log()
        assert above(storage, version)
        return above(storage, version)

    monkeypatch.setattr(stored_log, "is_checkpointed_above", after_the_other)
    schema = open_table(str(tmp_path / "t")).snapshot().schema
    add(index, Definition.of_column(schema.resolve_all(["k"])[0]), schema)
    assert [definition.name for definition in MetadataTable.open(index.path).state.settings.definitions] == [
        "v",
        "k",
    ]
    index.refresh()
    assert index.version == other.version


def test_what_killed_writers_left_unfinished_in_the_log_goes_with_a_log_checkpoint_after_an_hour(
    tmp_path: Path,
) -> None:
    index = young(tmp_path / "t")
    log = Path(index.path, "_delta_log")
    targets = [f"{7:020}.json", f"{20:020}.checkpoint.parquet", "_last_checkpoint"]
    old, new = [
        [log / f".{target}.{digits}.tmp" for target in targets] for digits in ("0123abcd", "deadbeef")
    ]
    foreign = log / ".anything.tmp"
    for file in [*old, *new, foreign]:
        file.write_bytes(b"{")
    for file in [*old, foreign]:
        os.utime(file, (time.time() - 3700,) * 2)
    index.commit([], [], None)
    index.checkpoint_log()
    assert {file for file in log.iterdir() if file.suffix == ".tmp"} == {*new, foreign}


def test_a_writer_killed_before_the_first_commit_leaves_a_folder_in_which_an_index_can_be_created(
    tmp_path: Path,
) -> None:
    table = three_commits(str(tmp_path / "t"))
    unfinished = tmp_path / f"t/_tailbit/_delta_log/.{0:020}.json.deadbeef.tmp"
    unfinished.parent.mkdir(parents=True)
    unfinished.write_bytes(b"{")
    index_of(table, ["v"])
    assert tailbit.open(table).verify().sound


def test_a_writer_that_slept_does_not_put_the_hint_back_to_its_older_log_checkpoint(tmp_path: Path) -> None:
    index = young(tmp_path / "t")
    older = LOG_CHECKPOINT_EVERY
    rows = stored_log.read_log_checkpoint(index.storage, older)
    index.checkpoint_log()
    stored_log.StoredCheckpoints(index.storage, index.path).put(older, rows)
    assert last_checkpoint(index.storage) == index.version > older
