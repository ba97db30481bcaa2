"""A second store needs only `tables.storage.Storage`: source and index lie in memory, none of it on disk."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable as DeltaRs

pytest.importorskip("obstore", reason="obstore has no wheel for Python 3.10")

import tailbit
from support.claims import check_held
from support.delta_builder import DeltaBuilder
from support.drive import Drive
from support.index_records import ledger, new_index
from support.object_storage import MEMORY, SCHEME, ObjectStorage
from support.tables import VECTORS
from tailbit.checkpoints.claim import Claim
from tailbit.errors import CommitConflictError, ForeignIndexError, NoIndexError
from tailbit.index.maintenance.vacuum import vacuum
from tailbit.index.store import stored_checkpoints, stored_log
from tailbit.index.store.stored_log import StoredLog
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.settings import StreamSettings
from tailbit.tables.storage import open_storage, stores

PREDICATES = (None, "v = 'v1'", "k >= 13 AND v <> 'v0'", "NOT (v IN ('v0', 'v2'))", "v IS NULL OR k < 3")
HIDDEN = {"f0.parquet": [0, 4], "f7.parquet": [9]}
FILES = 12
INDEX = "memory://run/table/_tailbit"


@pytest.fixture(autouse=True)
def nothing_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Paths of scheme `memory` are in memory; what is taken for a local path would be seen in the folder."""
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    monkeypatch.setenv("TMPDIR", str(empty))
    monkeypatch.setitem(stores.STORES, SCHEME, ObjectStorage)
    yield
    MEMORY.clear()
    assert list(empty.rglob("*")) == []
    assert [str(path) for path in tmp_path.rglob("*") if "kind=" in path.name] == []


@pytest.fixture
def written(tmp_path: Path) -> DeltaBuilder:
    """A table on disk, for the judge: files of ten rows, some of which are hidden later."""
    builder = DeltaBuilder(str(tmp_path / "written"))
    builder.create(pa.schema([("k", pa.int64()), ("v", pa.string())]), **VECTORS)
    for n in range(FILES):
        keys = list(range(10 * n, 10 * n + 10))
        values = [None if k % 7 == 0 else f"v{k % 3}" for k in keys]
        rows = pa.table({"k": pa.array(keys, pa.int64()), "v": values})
        builder.commit([builder.data_file(rows, f"f{n}.parquet")])
    for file, vector in zip(HIDDEN, builder.stored_vectors(*HIDDEN.values()), strict=True):
        builder.commit(builder.hide(file, vector))
    return builder


@pytest.fixture
def table(written: DeltaBuilder) -> str:
    """The table in memory."""
    path = "memory://run/table"
    store, folder = open_storage(path), Path(written.path)
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            store.put(file.relative_to(folder).as_posix(), file.read_bytes())
    return path


def judged(folder: str, predicate: str | None) -> list[dict[str, Any]]:
    """What DuckDB finds in the Parquet files of the table on disk: file, position and value of the rows."""
    hidden = [f"{file}:{at}" for file, positions in HIDDEN.items() for at in positions]
    with duckdb.connect() as engine:
        found = engine.sql(
            "SELECT parse_filename(filename) AS file, file_row_number AS position, v "
            "FROM read_parquet($files, file_row_number = true, filename = true) "
            "WHERE NOT list_contains($hidden, parse_filename(filename) || ':' || file_row_number) "
            f"AND ({predicate or 'true'}) ORDER BY ALL",
            params={"files": f"{folder}/*.parquet", "hidden": hidden},
        ).to_arrow_table()
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def check(table: str, folder: str) -> tailbit.IndexedTable:
    """Counts, positions and facets from the index in memory are DuckDB's."""
    opened = tailbit.open(table)
    for predicate in PREDICATES:
        answer, expected = opened.where(predicate), judged(folder, predicate)
        assert answer.count() == len(expected), predicate
        positions = [(f, int(at)) for f, found in answer.positions().items() for at in found]
        assert sorted(positions) == sorted((row["file"], row["position"]) for row in expected)
        assert answer.facets("v") == Counter(row["v"] for row in expected)
    return opened


def indexed(table: str) -> Drive:
    """The index of the table in memory, built in batches of one file."""
    drive = Drive(table, INDEX, ["k", "v"], StreamSettings(files=1))
    assert len(drive.drain()) >= FILES
    return drive


def forgetting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log keeps neither commits below its newest checkpoint nor removed files."""
    for name in ("delta.logRetentionDuration", "delta.deletedFileRetentionDuration"):
        monkeypatch.setitem(stored_checkpoints.CONFIGURATION, name, "interval 0 seconds")


def later(hours: float) -> int:
    return int((time.time() + 3600 * hours) * 1000)


def kind_files() -> set[str]:
    return {name for name in ObjectStorage(INDEX).everything() if name.startswith("kind=")}


def log_names() -> Sequence[str]:
    return [entry.name for entry in open_storage(INDEX).list("_delta_log")]


def test_an_index_in_memory_is_built_and_answers_as_duckdb_does(table: str, written: DeltaBuilder) -> None:
    indexed(table)
    opened = check(table, written.path)
    assert opened.state == "complete"
    assert opened.where("v = 'v1'").files_scanned == 0
    assert kind_files() >= set(MetadataTable.open(INDEX).state.files)


def test_an_index_in_memory_is_merged_verified_and_vacuumed(
    table: str, written: DeltaBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgetting(monkeypatch)
    indexed(table)
    before = kind_files()
    opened = tailbit.open(table)
    assert opened.compact() > 0
    index = MetadataTable.open(INDEX)
    gone = vacuum(index, now_ms=later(2))
    assert gone
    assert set(gone) >= before - set(index.state.files)
    assert kind_files() == set(index.state.files)
    assert check(table, written.path).verify().problems == []


def test_a_vacuum_in_memory_spares_what_the_log_still_refers_to(table: str) -> None:
    indexed(table)
    assert tailbit.open(table).compact() > 0
    before = kind_files()
    open_storage(INDEX).put("kind=files/never-committed.parquet", b"x")
    assert vacuum(MetadataTable.open(INDEX), now_ms=later(2)) == ["kind=files/never-committed.parquet"]
    assert kind_files() == before


@pytest.mark.parametrize("cleaned", [False, True])
def test_delta_rs_reads_the_log_that_was_written_through_the_store(
    table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cleaned: bool
) -> None:
    if cleaned:
        forgetting(monkeypatch)
    indexed(table)
    index = MetadataTable.open(INDEX)
    index.checkpoint_log()
    assert (len(log_names()) == 3) == cleaned, log_names()
    copied = tmp_path / "copied"
    for name, data in ObjectStorage(INDEX).everything().items():
        if name.startswith("_delta_log/"):
            (copied / name).parent.mkdir(parents=True, exist_ok=True)
            (copied / name).write_bytes(data)
    judge = DeltaRs(str(copied))
    assert judge.version() == index.version
    actions = pa.table(judge.get_add_actions(flatten=True)).to_pylist()
    assert {(a["path"], a["size_bytes"], a["num_records"]) for a in actions} == {
        (f.path, f.size, f.rows) for f in index.state.files.values()
    }
    assert judge.transaction_version(stored_log.app_transaction(index.state.index_id)) == index.state.seq
    assert pa.schema(judge.schema().to_arrow()).names == index.kinds.table_schema().names


def test_of_two_commits_in_memory_on_one_version_the_second_is_a_conflict() -> None:
    new_index(INDEX)
    first, second = MetadataTable.open(INDEX), MetadataTable.open(INDEX)
    first.commit([], [], ledger(0))
    with pytest.raises(CommitConflictError):
        second.commit([], [], ledger(0))
    assert second.refresh()
    second.commit([], [], ledger(1))
    assert MetadataTable.open(INDEX).version == 2


def test_a_commit_in_memory_by_one_who_slept_through_a_cleanup_is_a_conflict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forgetting(monkeypatch)
    awake = new_index(INDEX)
    asleep = MetadataTable.open(INDEX)
    for n in range(3):
        awake.commit([], [], ledger(n))
    awake.checkpoint_log()
    with pytest.raises(CommitConflictError):
        asleep.commit([], [], ledger(0))
    assert MetadataTable.open(INDEX).version == awake.version == 3


def test_a_lower_transaction_is_never_committed_in_memory() -> None:
    index = new_index(INDEX)
    index.commit([], [], ledger(0))
    log = StoredLog(open_storage(INDEX), INDEX, index.kinds.table_schema())
    with pytest.raises(CommitConflictError):
        log.commit(index.version, index.state.index_id, index.state.seq, [], [], data_change=True)
    assert MetadataTable.open(INDEX).version == index.version


def test_an_index_in_memory_is_made_once_and_where_nothing_else_is() -> None:
    with pytest.raises(NoIndexError):
        MetadataTable.open(INDEX)
    index = new_index(INDEX)
    with pytest.raises(CommitConflictError):
        MetadataTable.create(INDEX, index.state.settings)
    open_storage("memory://run/other").put("notes.txt", b"mine")
    with pytest.raises(ForeignIndexError, match=r"notes\.txt"):
        MetadataTable.create("memory://run/other", index.state.settings)


def test_a_heartbeat_in_memory_keeps_a_second_indexer_away() -> None:
    mine, other = Claim(open_storage(INDEX)), Claim(open_storage(INDEX))
    check_held(mine, other)
    other.acquire()
    other.release()
    assert open_storage(INDEX).list() == []
