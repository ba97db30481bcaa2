"""Files by name: whole or not at all, and every refusal by name."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from tailbit.errors import StorageError
from tailbit.tables.storage import Storage


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(str(tmp_path / "root"))


def test_what_is_put_is_read_listed_and_deleted(storage: Storage) -> None:
    storage.put("a/b.bin", b"hello")
    storage.put("a/b.bin", b"hello again")
    storage.put_if_absent("a/a.bin", b"x")
    assert storage.read("a/b.bin") == b"hello again"
    assert storage.read_range("a/b.bin", 6, 100) == b"again"
    assert [(e.name, e.size) for e in storage.list("a")] == [("a.bin", 1), ("b.bin", 11)]
    assert storage.open("a/b.bin").read() == b"hello again"
    storage.delete("a/b.bin")
    storage.delete("a/b.bin")
    assert not storage.exists("a/b.bin")
    assert storage.stat("a/b.bin") is None
    assert storage.list("nowhere") == []
    with pytest.raises(FileNotFoundError):
        storage.read("a/b.bin")


def test_of_many_writers_of_one_name_exactly_one_wins(storage: Storage) -> None:
    won = []

    def write(number: int) -> None:
        try:
            storage.put_if_absent("x", bytes([number]) * 1000)
            won.append(number)
        except FileExistsError:
            pass

    threads = [threading.Thread(target=write, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert storage.read("x") == bytes(won) * 1000
    assert [e.name for e in storage.list()] == ["x"]


def test_a_file_uri_and_a_path_are_one_root(tmp_path: Path) -> None:
    folder = tmp_path / "a b%20c"
    for root in (str(folder), f"file://{tmp_path}/a%20b%2520c", f"file:{tmp_path}/a%20b%2520c"):
        assert Storage(root).root == str(folder)


@pytest.mark.parametrize("root", ["s3://bucket/x", "abfss://c@a/x", "hdfs://x"])
def test_another_scheme_is_refused_by_name(root: str) -> None:
    with pytest.raises(StorageError, match=root.split(":")[0]):
        Storage(root)


def test_a_refusal_of_the_system_is_a_storage_error(storage: Storage) -> None:
    storage.put("a", b"x")
    with pytest.raises(StorageError):
        storage.put("a/b", b"x")
    with pytest.raises(StorageError):
        storage.read("")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_says_so() -> None:
    with pytest.raises(OSError, match="No space") as caught, open("/dev/full", "wb", buffering=0) as full:
        full.write(b"x")
    assert caught.value.errno == errno.ENOSPC
