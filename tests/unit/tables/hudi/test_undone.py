"""A covered instant that is taken back: the index reads the files that came back, and no other."""

from __future__ import annotations

import hashlib
import os
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

import tailbit
from support.drive import Drive
from support.hudi import unpack
from support.hudi_builder import BaseFile, HudiBuilder
from support.hudi_states import CHANGES
from support.hudi_timeline import Instant
from support.waiting import HANG_S
from tailbit.tables.model import Fingerprint
from tailbit.tables.open import open_table

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
        """Commit a file to each file group."""
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
