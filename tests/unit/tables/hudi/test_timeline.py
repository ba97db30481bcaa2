"""The timeline of real Hudi tables holds what their makers recorded, and damage to it has a name."""

from __future__ import annotations

import hashlib
import os
import random
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tailbit
from support.drive import Drive
from support.hudi import HudiTable, packed_names, unpack
from support.hudi_builder import BaseFile, HudiBuilder
from support.hudi_states import CHANGES
from support.hudi_timeline import HudiTimeline, Instant
from support.waiting import HANG_S
from tailbit.errors import (
    CommitGapError,
    MalformedLogError,
    UnsafePathError,
    UnsupportedFeatureError,
)
from tailbit.tables.hudi.timeline import Timeline, TimelineReader
from tailbit.tables.model import Fingerprint
from tailbit.tables.open import open_table
from tailbit.tables.storage import open_storage


def timeline_of(table: HudiTable) -> Timeline:
    return TimelineReader(open_storage(table.path)).look()


def written_files(metadata: dict[str, Any]) -> set[str]:
    stats = [stat for stats in metadata["partitionToWriteStats"].values() for stat in stats]
    return {Path(stat["path"]).name for stat in stats}


def empty_commits(folder: Path, version: int, count: int) -> HudiTimeline:
    """A timeline of commits that write no file."""
    made = HudiTimeline(folder, version, random.Random(7))
    made.properties()
    metadata = {
        "partitionToWriteStats": {},
        "compacted": False,
        "extraMetadata": {},
        "operationType": "INSERT",
    }
    for _ in range(count):
        made.complete(made.request(), "commit", metadata)
    return made


@pytest.mark.parametrize("name", packed_names())
def test_the_completed_instants_are_those_that_were_recorded_and_not_taken_back(
    name: str, tmp_path: Path
) -> None:
    table = unpack(name, tmp_path)
    read = timeline_of(table)
    keys = {instant.key for instant in read.completed}
    recorded = [i for i in table.instants if (i.requested, i.action) in keys]
    gone = [i for i in table.instants if (i.requested, i.action) not in keys]
    assert [(i.requested, i.action) for i in recorded] == [i.key for i in read.completed]
    assert not [i for i in gone if i.readable_at_end]
    assert {i.completed for i in recorded if i.completed} <= {i.completed for i in read.completed}
    assert read.properties.version == table.version
    assert read.properties.values["hoodie.table.type"].startswith(table.kind[0].upper())


@pytest.mark.parametrize("name", sorted({*packed_names("cow")} - {"cow_v9_bare"}))
def test_the_rows_that_spark_saw_new_lie_in_files_that_the_commit_names(name: str, tmp_path: Path) -> None:
    table = unpack(name, tmp_path)
    read = timeline_of(table)
    metadata = {instant.key: read.metadata(instant) for instant in read.completed}
    judged = 0
    for instant in table.instants:
        said = metadata.get((instant.requested, instant.action))
        if said is None or instant.rows_file is None or "partitionToWriteStats" not in said:
            continue
        rows = table.rows(instant)
        new = rows.filter(pc.equal(rows["_hoodie_commit_time"], instant.requested))
        assert {*new["_hoodie_file_name"].to_pylist()} <= written_files(said)
        judged += len(new)
    assert judged


@pytest.mark.parametrize("version", [8, 9])
def test_archived_instants_keep_their_bytes_and_their_order(version: int, tmp_path: Path) -> None:
    made = empty_commits(tmp_path, version, 12)
    before = TimelineReader(open_storage(str(tmp_path))).look()
    bytes_before = {instant.key: before.content(instant) for instant in before.completed}
    for _ in range(5):
        made.archive(made.instants[:2])
    made.request()
    after = TimelineReader(open_storage(str(tmp_path))).look()
    assert [i.completed for i in after.completed] == [i.completed for i in before.completed]
    assert {i.key: after.content(i) for i in after.completed} == bytes_before
    assert (len(before.pending), len(after.pending)) == (0, 1)
    last = sorted(made.history.glob("*.parquet"))[-1]
    last.unlink()
    name = last.relative_to(tmp_path).as_posix()
    with pytest.raises(CommitGapError, match=rf"found manifest_\d+, but not {re.escape(name)}\)") as gap:
        TimelineReader(open_storage(str(tmp_path))).look()
    assert gap.value.hint == "Restore the file from a backup: no question is answered without it."


@pytest.mark.parametrize("name", ["cow_v8_archived", "cow_v9_archived"])
@pytest.mark.parametrize("number", [None, b"", b"x"])
def test_while_a_writer_replaces_the_number_of_the_manifest_the_newest_manifest_counts(
    name: str, number: bytes | None, tmp_path: Path
) -> None:
    table = unpack(name, tmp_path)
    before = timeline_of(table)
    assert any(instant.row >= 0 for instant in before.completed)
    file = Path(table.path) / ".hoodie" / "timeline" / "history" / "_version_"
    file.unlink()
    if number is not None:
        file.write_bytes(number)
    assert timeline_of(table).completed == before.completed


def test_a_history_that_begins_while_its_number_is_missing_is_read(tmp_path: Path) -> None:
    """Archiving deletes the instants of the active timeline as soon as a manifest names them."""
    made = empty_commits(tmp_path, 9, 4)
    reader = TimelineReader(open_storage(str(tmp_path)))
    before = reader.look()
    made.archive(made.instants[:2])
    (made.history / "_version_").unlink()
    assert [i.key for i in reader.look().completed] == [i.key for i in before.completed]


def test_a_number_of_no_manifest_is_damage(tmp_path: Path) -> None:
    table = unpack("cow_v9_archived", tmp_path)
    history = Path(table.path) / ".hoodie" / "timeline" / "history"
    for manifest in history.glob("manifest_*"):
        manifest.unlink()
    (history / "_version_").write_bytes(b"x")
    with pytest.raises(MalformedLogError, match="should hold a number"):
        timeline_of(table)


def test_an_instant_that_is_being_archived_counts_once(tmp_path: Path) -> None:
    table = unpack("cow_v9_archived", tmp_path)
    before = timeline_of(table)
    archived = next(instant for instant in before.completed if instant.row >= 0)
    file = f"{archived.requested}_{archived.completed}.{archived.action}"
    content = before.content(archived)
    assert content is not None
    (Path(table.path) / ".hoodie" / "timeline" / file).write_bytes(content)
    after = timeline_of(table)
    assert [i.key for i in after.completed] == [i.key for i in before.completed]
    assert [i.row for i in after.completed if i.key == archived.key] == [-1]


def test_one_instant_with_two_times_of_completion_is_refused(tmp_path: Path) -> None:
    table = unpack("cow_v9_rolled_back", tmp_path)
    active = Path(table.path) / ".hoodie" / "timeline"
    first = timeline_of(table).completed[0]
    (active / f"{first.requested}_20991231235959999.{first.action}").write_bytes(b"{}")
    with pytest.raises(MalformedLogError, match="completes twice"):
        timeline_of(table)


@pytest.mark.supports_hudi("Timeline", "actions of later releases", "refused")
def test_an_action_of_a_later_release_is_refused_by_name(tmp_path: Path) -> None:
    table = unpack("cow_v9_rolled_back", tmp_path)
    active = Path(table.path) / ".hoodie" / "timeline"
    (active / "20991231235959998_20991231235959999.rewrite").write_bytes(b"{}")
    with pytest.raises(UnsupportedFeatureError, match="action rewrite"):
        timeline_of(table)


def test_a_manifest_that_names_a_file_elsewhere_is_refused(tmp_path: Path) -> None:
    table = unpack("cow_v9_archived", tmp_path)
    history = Path(table.path) / ".hoodie" / "timeline" / "history"
    number = (history / "_version_").read_text()
    (history / f"manifest_{number}").write_text('{"files": [{"fileName": "../../x.parquet", "fileLen": 1}]}')
    with pytest.raises(UnsafePathError):
        timeline_of(table)


ROWS = pa.table({"k": range(5), "city": ["a", "b", "c", "a", "b"]})


class Taken:
    """A table of eight file groups with an index that has followed two updates of a file each."""

    def __init__(self, folder: Path, version: int, **properties: str) -> None:
        self.path, self.index = folder / "table", folder / "index"
        self.builder = HudiBuilder(str(self.path), version, random.Random(version), **properties)
        self.files: list[BaseFile] = []
        self.write([(self.builder.new_group(), None) for _ in range(8)])
        self.follow()
        self.updates = []
        for file in self.files[:2]:
            self.updates.append(self.write([(file.file_id, file.path)]))
            self.follow()

    def write(self, groups: list[tuple[str, str | None]]) -> tuple[Instant, list[BaseFile]]:
        requested = self.builder.timeline.request()
        files = [self.builder.data_file(ROWS, requested, g, "", p)[0] for g, p in groups]
        self.files += files
        return self.builder.commit(requested, files, ROWS.schema, "UPSERT"), files

    def follow(self) -> Drive:
        """Let the index follow to the head."""
        drive = Drive(self.path, self.index, ["city"])
        drive.drain()
        return drive

    def take_back(self, how: str) -> list[BaseFile]:
        """Take back the newest update, or both; return the files that come back."""
        if how == "rollback":
            instant, files = self.updates[-1]
            self.builder.rollback(instant.requested, "commit", files)
            return self.files[1:2]
        self.builder.restore([(i.requested, "commit", f) for i, f in reversed(self.updates)])
        return self.files[:2]

    @contextmanager
    def unreadable(self, files: list[BaseFile]) -> Iterator[None]:
        """Damage files: whoever opens one fails. Sizes and times stay."""
        paths = [self.path / file.path for file in files]
        kept = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}
        for path, (data, time) in kept.items():
            path.write_bytes(bytes(len(data)))
            os.utime(path, ns=(time, time))
        yield
        for path, (data, time) in kept.items():
            path.write_bytes(data)
            os.utime(path, ns=(time, time))


@pytest.mark.supports_hudi(
    "Histories", "a covered commit that is taken back: only files that come back are read", "exact"
)
@pytest.mark.parametrize("how", ["rollback", "restore"])
@pytest.mark.parametrize("version", [6, 9])
def test_an_index_follows_a_rollback_and_reads_only_the_files_that_came_back(
    tmp_path: Path, version: int, how: str
) -> None:
    table = Taken(tmp_path, version)
    back = table.take_back(how)
    kept = [file for file in table.files[:8] if file not in back]
    with table.unreadable(kept):
        lagging = tailbit.open(table.path, table.index).where("city = 'a'")
        assert (lagging.count(), lagging.files_scanned) == (16, 0)
        outcomes = table.follow().outcomes
        assert sum(outcome.files for outcome in outcomes) == 2 * len(back)
        answer = tailbit.open(table.path, table.index).where("city = 'a'")
        assert (answer.count(), answer.files_scanned) == (16, 0)
    opened = tailbit.open(table.path, table.index)
    assert opened.verify().sound
    assert opened.where().covered_version == opened.where().version


def test_a_past_that_changed_besides_proves_nothing(tmp_path: Path) -> None:
    table = Taken(tmp_path, 9)
    known = open_table(str(table.path)).fingerprint(open_table(str(table.path)).head())
    assert known is not None
    table.take_back("rollback")
    later = open_table(str(table.path))
    assert later.took_back(known)
    assert not later.took_back(known._replace(table_id="another"))
    assert not later.took_back(known._replace(sha256=known.sha256[::-1]))
    first = table.builder.timeline.instants[0]
    table.builder.timeline.forget(first)
    assert not open_table(str(table.path)).took_back(known)


def test_a_rollback_that_has_deleted_the_instant_and_not_completed_yet_is_awaited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Taken(tmp_path, 9)
    builder, (instant, files) = table.builder, table.updates[-1]
    known = open_table(str(table.path)).fingerprint(open_table(str(table.path)).head())
    assert known is not None
    requested = builder.timeline.request("rollback")
    metadata = builder.undo(instant.requested, "commit", files)
    assert not open_table(str(table.path)).took_back(known), "it has not completed after a while"
    monkeypatch.setattr("tailbit.tables.hudi.table._PATIENCE_S", HANG_S)
    completes = threading.Timer(0.2, builder.timeline.complete, (requested, "rollback", metadata))
    completes.start()
    assert open_table(str(table.path)).took_back(known)
    completes.join()


def test_nothing_is_proven_of_log_files_whose_names_hold_no_instants(tmp_path: Path) -> None:
    merged = {"hoodie.table.type": "MERGE_ON_READ", "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}
    for version, proven in ((6, False), (9, True)):
        table = Taken(tmp_path / str(version), version, **merged)
        opened = open_table(str(table.path))
        known = opened.fingerprint(opened.head())
        assert known is not None
        table.take_back("rollback")
        assert open_table(str(table.path)).took_back(known) is proven
        table.follow()
        assert tailbit.open(table.path, table.index).verify().sound


@pytest.mark.parametrize(
    "name", ["cow_v9_rolled_back", "cow_v8_restored", "mor_v9_rolled_back", "mor_v9_restored"]
)
def test_what_hudi_itself_took_back_is_proven_by_its_metadata(name: str, tmp_path: Path) -> None:
    table = unpack(name, tmp_path)
    opened, taken_back = open_table(table.path), 0
    left = {opened.name_of(version) for version in opened.versions(0, opened.head())}
    requests: list[str] = []
    for instant in (instant for instant in table.instants if instant.action in CHANGES):
        requests.append(instant.requested)
        digest = hashlib.sha256(repr(tuple(requests)).encode()).hexdigest()[:32]
        known = Fingerprint(int(instant.completed or 0), digest + "0" * 32, name)
        assert opened.took_back(known) is (instant.requested not in left)
        taken_back += instant.requested not in left
        if instant.action in ("rollback", "restore"):
            requests = [request for request in requests if request in left]
    assert taken_back > 0
