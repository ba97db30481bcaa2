"""Records of an index that cannot be read at a start: made anew if they are lost and nobody is at work."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from support.drive import Drive
from support.tables import index_files, index_of, three_commits, truncated
from tailbit.checkpoints.claim import Claim
from tailbit.errors import CorruptIndexError, IndexerRunningError, StorageError
from tailbit.index.kinds.files import FILES, FilesKind
from tailbit.index.kinds.settings import SettingsKind
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.config.model import TableEntry
from tailbit.streaming.many.followed_table import opened_index
from tailbit.streaming.mending import Mender
from tailbit.streaming.query.launch import prepare
from tailbit.tables import open_table
from tailbit.tables.storage import Storage, open_storage


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = three_commits(str(tmp_path / "t"))
    index_of(path, ["v"])
    return path


def of_many(path: str) -> MetadataTable:
    """What an application does for a table at its start."""
    entry = TableEntry.model_validate({"path": path, "columns": ("v",)})
    return opened_index(entry, open_table(path), [].append, sure_s=0.0)


def of_one(path: str) -> MetadataTable:
    """What the run of one table does at its start."""
    prepared = prepare(path, None, None, None, "0 seconds")
    assert prepared is not None
    return prepared.index


STARTS = [of_many, of_one]


def identity(path: str) -> str:
    return MetadataTable.open(f"{path}/_tailbit").state.index_id


def failing(monkeypatch: pytest.MonkeyPatch, times: int) -> list[str]:
    """Let the next reads of file records fail as on a network disk for a moment; return the failed ones."""
    read, failed = FilesKind.read, list[str]()

    def reading(kind: FilesKind, storage: Storage, path: str) -> pa.Table:
        if len(failed) < times:
            failed.append(path)
            reason = OSError(errno.ESTALE, "Stale file handle")
            raise CorruptIndexError(file=path, reason=str(reason)) from reason
        return read(kind, storage, path)

    monkeypatch.setattr(FilesKind, "read", reading)
    monkeypatch.setattr(
        FilesKind, "read_whole", lambda kind, storage, path: kind.read(storage, path) and None
    )
    return failed


@pytest.mark.parametrize("start", STARTS)
def test_a_second_start_beside_an_indexer_leaves_its_damaged_index_alone(
    path: str, start: Callable[[str], MetadataTable]
) -> None:
    truncated(index_files(path, FILES)[0])
    heartbeat = Claim(open_storage(f"{path}/_tailbit"))
    heartbeat.acquire()
    before = identity(path)
    with pytest.raises(IndexerRunningError):
        start(path)
    assert identity(path) == before
    heartbeat.release()
    start(path)
    assert identity(path) != before
    Drive(path, f"{path}/_tailbit").drain()


@pytest.mark.parametrize("start", STARTS)
def test_a_read_that_fails_for_a_moment_at_a_start_costs_no_index(
    path: str, start: Callable[[str], MetadataTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, failed = identity(path), failing(monkeypatch, 1)
    assert start(path).state.index_id == before
    assert len(failed) == 1


@pytest.mark.parametrize("start", STARTS)
def test_a_store_that_fails_again_at_a_start_is_named_and_costs_no_index(
    path: str, start: Callable[[str], MetadataTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = identity(path)
    failing(monkeypatch, 2)
    with pytest.raises(StorageError, match="Stale file handle"):
        start(path)
    assert identity(path) == before


@pytest.mark.parametrize("start", STARTS)
def test_reads_that_fail_now_and_then_at_a_start_cost_no_index(
    path: str, start: Callable[[str], MetadataTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, reads = identity(path), []
    read = FilesKind.read

    def reading(kind: FilesKind, storage: Storage, file: str) -> pa.Table:
        reads.append(file)
        if len(reads) in (1, 3):
            raise CorruptIndexError(file=file, reason="stale") from OSError(errno.ESTALE, "Stale file handle")
        return read(kind, storage, file)

    monkeypatch.setattr(FilesKind, "read", reading)
    monkeypatch.setattr(
        FilesKind, "read_whole", lambda kind, storage, file: kind.read(storage, file) and None
    )
    assert start(path).state.index_id == before


@pytest.mark.parametrize("start", [of_many])
def test_an_index_that_stays_unreadable_is_made_anew_once_and_then_named(
    path: str, start: Callable[[str], MetadataTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    written = list[str]()

    def reading(kind: SettingsKind, storage: Storage, file: str) -> pa.Table:
        if file not in written:
            written.append(file)
        raise CorruptIndexError(file=file, reason="other bytes than were written")

    monkeypatch.setattr(SettingsKind, "read", reading)
    monkeypatch.setattr(
        SettingsKind, "read_whole", lambda kind, storage, file: kind.read(storage, file) and None
    )
    with pytest.raises(CorruptIndexError, match="other bytes"):
        start(path)
    assert len(written) == 2


def test_records_that_cannot_be_read_for_a_moment_while_damage_is_mended_cost_no_index(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = identity(path)
    damaged = index_files(path, "value_counts")[0]
    truncated(damaged)
    mender = Mender(open_table(path), MetadataTable.open(f"{path}/_tailbit"))
    failing(monkeypatch, 1)
    error = CorruptIndexError(file=f"kind=value_counts/{damaged.name}", reason="it is truncated")
    mender.mend(error)
    assert (identity(path), mender.mended) == (before, 0)
    mender.mend(error)
    assert (identity(path), mender.mended) == (before, 1)
