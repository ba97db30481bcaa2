from __future__ import annotations

import hashlib
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailbit.base.faults import InjectedFaultError
from tailbit.errors import CorruptIndexError, StorageError
from tailbit.index.index_files import open_index_file, write_index_file, write_parquet
from tailbit.index.model import IndexFile
from tailbit.tables.storage import LocalStorage, Storage

SCHEMA = pa.schema([("n", pa.int64()), ("t", pa.string())])
TABLE = pa.table({"n": range(500), "t": [f"t{n % 5}" for n in range(500)]}, schema=SCHEMA)


def written(storage: Storage, groups: int = 2) -> IndexFile:
    pieces = [TABLE] * groups
    return write_index_file(storage, "files", "stem", lambda to: write_parquet(to, SCHEMA, pieces))


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    (tmp_path / "index").mkdir()
    return LocalStorage(str(tmp_path / "index"))


def test_the_name_says_length_and_hash_of_the_footer(storage: Storage) -> None:
    file = written(storage)
    data = storage.read(file.path)
    stem, length, digest, _ = file.path.rsplit(".", 3)
    assert stem.startswith("kind=files/stem-")
    footer = data[-8 - int(length) : -8]
    assert int.from_bytes(data[-8:-4], "little") == int(length)
    assert digest == hashlib.sha256(footer).hexdigest()[:16]
    assert (file.size, file.rows) == (len(data), 1000)


def test_a_table_is_a_row_group_and_reads_back_as_it_was(storage: Storage) -> None:
    with open_index_file(storage, written(storage).path) as file:
        assert file.metadata.num_row_groups == 2
        assert file.read_row_group(1).equals(TABLE)


def test_a_file_of_little_is_not_compressed_and_a_longer_one_is(storage: Storage) -> None:
    for groups, codec in ((2, "UNCOMPRESSED"), (8, "ZSTD")):
        with open_index_file(storage, written(storage, groups).path) as file:
            chunks = [file.metadata.row_group(group).column(0) for group in range(groups)]
            assert {chunk.compression for chunk in chunks} == {codec}
            assert file.read().equals(pa.concat_tables([TABLE] * groups))


def test_two_files_of_one_stem_have_two_names(storage: Storage) -> None:
    assert written(storage).path != written(storage).path


def test_a_missing_file_is_named(storage: Storage) -> None:
    file = written(storage)
    storage.delete(file.path)
    with pytest.raises(CorruptIndexError, match="missing"):
        open_index_file(storage, file.path)


@pytest.mark.parametrize("left", [0, 3, 8, 100, -1])
def test_a_truncated_file_is_refused_before_it_is_parsed(storage: Storage, left: int) -> None:
    file = written(storage)
    os.truncate(storage.local_path(file.path), left if left >= 0 else file.size + left)
    with pytest.raises(CorruptIndexError):
        open_index_file(storage, file.path)


def test_an_altered_footer_is_refused_before_it_is_parsed(storage: Storage) -> None:
    file = written(storage)
    data = bytearray(storage.read(file.path))
    data[-20] ^= 1
    Path(storage.local_path(file.path)).write_bytes(data)
    with pytest.raises(CorruptIndexError, match="footer"):
        open_index_file(storage, file.path)


def test_another_file_under_the_name_is_refused(storage: Storage) -> None:
    file = written(storage)
    pq.write_table(TABLE, storage.local_path(file.path))
    with pytest.raises(CorruptIndexError):
        open_index_file(storage, file.path)


@pytest.mark.parametrize("name", ["kind=files/x.parquet", "kind=files/x.y.z.parquet"])
def test_a_name_without_a_footer_in_it_is_refused(storage: Storage, name: str) -> None:
    storage.put(name, b"PAR1")
    with pytest.raises(CorruptIndexError):
        open_index_file(storage, name)


def test_an_altered_page_is_found_when_it_is_read(storage: Storage) -> None:
    file = written(storage)
    data = bytearray(storage.read(file.path))
    data[120] ^= 1
    Path(storage.local_path(file.path)).write_bytes(data)
    with open_index_file(storage, file.path) as opened, pytest.raises(OSError, match=r"(?i)crc|checksum"):
        opened.read()


def test_a_failure_while_writing_leaves_nothing(storage: Storage) -> None:
    def groups() -> Iterator[pa.Table]:
        yield TABLE
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        write_index_file(storage, "files", "stem", lambda to: write_parquet(to, SCHEMA, groups()))
    assert storage.list("kind=files") == []


@pytest.mark.parametrize("fault", ["segment_half_written", "segment_written"])
def test_a_fault_leaves_a_whole_file_or_none(
    storage: Storage, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAILBIT_FAULT", f"{fault}=raise")
    monkeypatch.setattr("tailbit.base.faults._passes", {})
    with pytest.raises(InjectedFaultError):
        written(storage)
    names = [entry.name for entry in storage.list("kind=files")]
    assert len(names) == (fault == "segment_written")
    for name in names:
        with open_index_file(storage, f"kind=files/{name}") as file:
            assert file.metadata.num_rows == 1000


FULL = """
import sys, pyarrow as pa
from tailbit.errors import StorageError
from tailbit.index.index_files import write_index_file, write_parquet
from tailbit.tables.storage import LocalStorage, Storage
import random, resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
table = pa.table({"b": [random.randbytes(50) for _ in range(9_000)]})
write = lambda to: write_parquet(to, table.schema, [table])
try:
    write_index_file(LocalStorage(sys.argv[1]), "files", "s", write)
except StorageError as refused:
    sys.exit(f"refused: {refused}")
"""


def test_a_disk_that_takes_no_more_is_a_named_error_and_leaves_nothing(storage: Storage) -> None:
    assert resource.RLIMIT_FSIZE
    found = subprocess.run(
        [sys.executable, "-c", FULL, storage.root], capture_output=True, text=True, check=False
    )
    assert found.returncode == 1, found.stderr
    assert found.stderr.startswith("refused: ")
    assert storage.list("kind=files") == []


def test_a_folder_that_cannot_be_is_a_named_error(tmp_path: Path) -> None:
    (tmp_path / "index").write_text("a file")
    with pytest.raises(StorageError):
        written(LocalStorage(str(tmp_path / "index")))
