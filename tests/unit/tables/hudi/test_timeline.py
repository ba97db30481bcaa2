"""The timeline of real Hudi tables holds what their makers recorded, and damage to it has a name."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from support.hudi import HudiTable, packed_names, unpack
from support.hudi_timeline import HudiTimeline
from tailbit.errors import (
    CommitGapError,
    MalformedLogError,
    UnsafePathError,
    UnsupportedFeatureError,
)
from tailbit.tables.hudi.timeline import Timeline, TimelineReader
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
