"""What lies outside of a table's root is refused by name, unless an option allows it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tailbit
from support.delta_builder import DeltaBuilder
from tailbit.errors import CorruptIndexError, UnsafePathError, UsageError
from tailbit.index.index_files import open_index_file
from tailbit.tables import open_table
from tailbit.tables.storage import NO_OPTIONS, LocalStorage, StorageOptions, open_storage

ALLOWED = StorageOptions.of({"allow_outside": "true"})
VARIABLE = "TAILBIT_ALLOW_OUTSIDE"


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A table's root, a file beside it, and links of each kind."""
    for folder in ("t/in", "outside"):
        (tmp_path / folder).mkdir(parents=True)
    for file in ("t/x", "t/in/x", "outside/x"):
        (tmp_path / file).write_bytes(b"x")
    found = tmp_path / "t"
    (found / "file-out").symlink_to(tmp_path / "outside" / "x")
    (found / "folder-out").symlink_to(tmp_path / "outside")
    (found / "file-in").symlink_to(found / "in" / "x")
    (found / "folder-in").symlink_to("in")
    (found / "in" / "up").symlink_to("../..")
    return found


OUTSIDE = ["{0}/outside/x", "file:{0}/outside/x", "file://{0}/outside/x", "{0}/t-longer/x", "{0}/t", "/x"]
LINKS = ["file-out", "folder-out/x", "in/up/outside/x", "{0}/t/file-out", "folder-out/not-there"]


@pytest.mark.parametrize("path", [*OUTSIDE, *LINKS])
def test_a_path_that_leads_out_of_the_root_is_refused_unless_allowed(root: Path, path: str) -> None:
    path = path.format(root.parent)
    with pytest.raises(UnsafePathError, match="it lies outside of the table's root") as refused:
        LocalStorage(str(root)).resolve(path)
    assert "--storage-option allow_outside=true" in refused.value.hint
    assert VARIABLE in refused.value.hint
    name = path.removeprefix("file:").replace("///", "/")
    assert LocalStorage(str(root), ALLOWED).resolve(path) == os.path.join(root, name.replace("//", "/"))


@pytest.mark.parametrize(
    "path", ["x", "in/x", "{0}/t/x", "file://{0}/t/in/x", "file-in", "folder-in/x", "new"]
)
def test_a_path_below_the_root_is_read_however_it_is_written(root: Path, path: str) -> None:
    storage = LocalStorage(str(root))
    name, found = storage.locate(path.format(root.parent))
    assert storage.resolve(path.format(root.parent)) == name
    assert found == storage.stat(name)
    assert (found is None) == (path == "new")


@pytest.mark.parametrize("allowed", [NO_OPTIONS, ALLOWED])
@pytest.mark.parametrize(
    "path", ["{0}/t/../outside/x", "{0}/t/../t/x", "file:../outside/x", "../outside/x", "a/../x"]
)
def test_two_dots_in_a_path_are_refused_whatever_is_allowed(
    root: Path, path: str, allowed: StorageOptions
) -> None:
    with pytest.raises(UnsafePathError, match=r"it holds `\.\.`"):
        LocalStorage(str(root), allowed).resolve(path.format(root.parent))


@pytest.mark.parametrize("given", ["link", "folder/t"])
def test_the_root_may_be_a_link_or_lie_behind_one(root: Path, given: str) -> None:
    (root.parent / "link").symlink_to(root)
    (root.parent / "folder").symlink_to(root.parent)
    storage = LocalStorage(str(root.parent / given))
    for path in ("x", "file-in", f"{root.parent}/{given}/x", f"{root}/x"):
        assert storage.read(storage.resolve(path)) == b"x"
    for path in ("file-out", f"{root}/file-out"):
        with pytest.raises(UnsafePathError):
            storage.resolve(path)


def test_a_file_that_gives_way_to_a_link_is_refused_at_once_a_folder_in_a_moment(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, now = LocalStorage(str(root)), 100.0
    monkeypatch.setattr("tailbit.tables.storage.store.monotonic", lambda: now)
    for name in ("x", "in/x"):
        storage.resolve(name)
    (root / "x").unlink()
    (root / "x").symlink_to(root.parent / "outside" / "x")
    with pytest.raises(UnsafePathError):
        storage.resolve("x")
    (root / "in").rename(root / "away")
    (root / "in").symlink_to(root.parent / "outside")
    now += 1.1
    with pytest.raises(UnsafePathError):
        storage.resolve("in/x")


@pytest.mark.parametrize("text", ["true", "TRUE", "1", "yes"])
def test_the_environment_allows_what_lies_outside_where_no_option_is_given(
    root: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv(VARIABLE, text)
    outside = f"{root.parent}/outside/x"
    assert LocalStorage(str(root)).resolve(outside) == outside
    with pytest.raises(UnsafePathError):
        LocalStorage(str(root), StorageOptions.of({"ALLOW_OUTSIDE": "false"})).resolve(outside)


def test_an_option_that_is_neither_true_nor_false_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="allow_outside is neither true nor false"):
        LocalStorage(str(root), StorageOptions.of({"allow_outside": "ture"})).resolve("/x")
    monkeypatch.setenv(VARIABLE, "ture")
    with pytest.raises(UsageError, match=f"{VARIABLE} is neither true nor false"):
        LocalStorage(str(root)).resolve("/x")


def test_another_key_of_the_bucket_is_refused_unless_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    for path in ("s3://bucket/other/a", "s3a://bucket/t-longer/a"):
        with pytest.raises(UnsafePathError, match="it lies outside of the table's root"):
            open_storage("s3://bucket/t").resolve(path)
        assert open_storage("s3://bucket/t", ALLOWED).resolve(path) == f"/{path.partition('bucket/')[2]}"
    monkeypatch.setenv(VARIABLE, "true")
    assert open_storage("s3://bucket/t").resolve("s3://bucket/other/a") == "/other/a"
    for path in ("s3://bucket/t/../other/a", "s3://bucket/../a"):
        with pytest.raises(UnsafePathError, match=r"it holds `\.\.`"):
            open_storage("s3://bucket/t", ALLOWED).resolve(path)


def test_the_option_is_none_of_the_library_that_reaches_a_store() -> None:
    pytest.importorskip("obstore", reason="obstore has no wheel for Python 3.10")
    options = StorageOptions.of({"allow_outside": "true", "AWS_REGION": "eu-west-1"})
    assert open_storage("s3://bucket/t", options)._store is not None  # type: ignore[attr-defined]


def with_a_file_outside(tmp_path: Path) -> str:
    """A table of one row whose log names a file of three rows beside it."""
    table = DeltaBuilder(str(tmp_path / "t")).create(pa.schema([("k", pa.int64())]))
    table.commit([table.data_file(pa.table({"k": [10]}))])
    pq.write_table(pa.table({"k": [1, 2, 3]}), tmp_path / "secret.parquet")
    add = {
        "path": str(tmp_path / "secret.parquet"),
        "partitionValues": {},
        "size": os.path.getsize(tmp_path / "secret.parquet"),
        "modificationTime": 1,
        "dataChange": True,
    }
    table.commit([{"add": add}])
    return table.path


def test_a_question_about_a_file_outside_of_the_table_is_refused_unless_allowed(tmp_path: Path) -> None:
    path = with_a_file_outside(tmp_path)
    with pytest.raises(UnsafePathError, match=r"secret\.parquet"):
        tailbit.open(path).where("k > 0").count()
    assert tailbit.open(path, storage_options={"allow_outside": "true"}).where("k > 0").count() == 4
    with pytest.raises(UnsafePathError, match=r"secret\.parquet"):
        tailbit.open(path).where("k > 0").count()


def test_a_deletion_vector_outside_of_the_table_is_refused_unless_allowed(tmp_path: Path) -> None:
    table = DeltaBuilder(str(tmp_path / "t")).create(
        pa.schema([("k", pa.int64())]), features=["deletionVectors"]
    )
    table.commit([table.data_file(pa.table({"k": [1, 2, 3]}), "a")])
    (vector,) = table.stored_vectors([1], absolute=str(tmp_path / "vectors"))
    table.commit(table.hide("a", vector))
    with pytest.raises(UnsafePathError):
        tailbit.open(table.path).where("k > 0").count()
    assert tailbit.open(table.path, storage_options={"allow_outside": "true"}).where("k > 0").count() == 2


@pytest.mark.parametrize("sidecar", ["../../x.parquet", "/elsewhere/x.parquet"])
def test_a_sidecar_outside_of_the_table_is_refused(tmp_path: Path, sidecar: str) -> None:
    table = DeltaBuilder(str(tmp_path / "t")).create(pa.schema([("k", pa.int64())]))
    log = tmp_path / "t" / "_delta_log"
    lines = (log / f"{0:020d}.json").read_text()
    name = f"{0:020d}.checkpoint.11111111-2222-3333-4444-555555555555.json"
    (log / name).write_text(lines + json.dumps({"sidecar": {"path": sidecar, "sizeInBytes": 1}}) + "\n")
    (log / f"{0:020d}.json").unlink()
    with pytest.raises(UnsafePathError):
        open_table(table.path).snapshot()


def test_a_file_of_the_index_is_never_looked_for_outside_of_it(tmp_path: Path) -> None:
    with pytest.raises(CorruptIndexError, match="its path leaves the index"):
        open_index_file(LocalStorage(str(tmp_path)), "kind=files/../../a.10.00.parquet")
