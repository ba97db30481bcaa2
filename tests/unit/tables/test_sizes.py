"""A size that a file claims is compared with a bound before memory is taken for it."""

from __future__ import annotations

import os
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import tailbit
from support.delta_builder import DeltaBuilder
from support.tables import index_of
from tailbit.checkpoints.signs import NAME, read_heartbeat
from tailbit.errors import DataFileError, DeletionVectorError, MalformedLogError, TailbitError
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.spark_checkpoint import why_unusable
from tailbit.tables import open_table
from tailbit.tables.delta.deletion_vectors import DeletionVector
from tailbit.tables.parquet.data_file import open_data_file
from tailbit.tables.parquet.file import LARGEST_FOOTER
from tailbit.tables.positions import LARGEST
from tailbit.tables.storage import SMALL, LocalStorage
from tailbit.tables.storage.store import WHOLE


@pytest.fixture
def table(tmp_path: Path) -> DeltaBuilder:
    made = DeltaBuilder(str(tmp_path / "t")).create(
        pa.schema([("k", pa.int64())]), features=["deletionVectors"]
    )
    made.commit([made.data_file(pa.table({"k": [1, 2, 3]}), "a")])
    return made


def sparse(path: Path, size: int, end: bytes = b"") -> None:
    """A file that claims a size, and takes no room."""
    with path.open("wb") as file:
        file.truncate(size - len(end))
        file.seek(0, os.SEEK_END)
        file.write(end)


def refused_without_memory(kind: type[TailbitError], match: str, ask: Callable[[], object]) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(kind, match=match):
            ask()
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_a_commit_of_six_gigabytes_is_refused_before_it_is_read(table: DeltaBuilder) -> None:
    sparse(Path(table.path, "_delta_log", f"{2:020d}.json"), 6_000_000_000)
    refused_without_memory(
        MalformedLogError,
        f"it has 6000000000 bytes, and at most {WHOLE}",
        lambda: tailbit.open(table.path).where().count(),
    )


def test_a_manifest_of_a_log_checkpoint_is_refused_before_it_is_read(table: DeltaBuilder) -> None:
    log = Path(table.path, "_delta_log")
    sparse(log / f"{1:020d}.checkpoint.11111111-2222-3333-4444-555555555555.json", WHOLE + 1)
    (log / f"{0:020d}.json").unlink()
    refused_without_memory(
        MalformedLogError, f"has {WHOLE + 1} bytes", lambda: open_table(table.path).snapshot()
    )


@pytest.mark.parametrize("name", [f"{1:020d}.checkpoint.parquet", "a"])
def test_a_footer_of_two_gigabytes_is_refused_before_it_is_read(table: DeltaBuilder, name: str) -> None:
    end = struct.pack("<I", LARGEST_FOOTER + 1) + b"PAR1"
    sparse(Path(table.path, name), 3_000_000_000, end)
    storage = LocalStorage(table.path)
    refused_without_memory(
        DataFileError, f"its footer has {LARGEST_FOOTER + 1} bytes", lambda: open_data_file(storage, name)
    )


def test_a_deletion_vector_of_two_gigabytes_is_refused_before_it_is_read(table: DeltaBuilder) -> None:
    vectors = Path(table.path, "vectors.bin")
    sparse(vectors, 3_000_000_000)
    vector = DeletionVector("p", str(vectors), 1, 2_000_000_000, 3)
    refused_without_memory(
        DeletionVectorError,
        f"it has 2000000000 bytes, and at most {LARGEST}",
        lambda: vector.read(LocalStorage(table.path)),
    )


def test_the_small_files_of_an_index_are_refused_or_passed_over_before_they_are_read(
    table: DeltaBuilder,
) -> None:
    index_of(table.path, ["k"])
    index = Path(table.path, "_tailbit")
    opened = MetadataTable.open(str(index))
    sparse(index / "_delta_log" / "_last_checkpoint", SMALL + 1)
    refused_without_memory(MalformedLogError, "_last_checkpoint: it has", lambda: opened.commit([], [], None))
    sparse(index / NAME, SMALL + 1)
    assert read_heartbeat(opened.storage) is None


def test_a_spark_checkpoint_of_long_files_is_reset(tmp_path: Path) -> None:
    sparse(tmp_path / "metadata", SMALL + 1)
    assert why_unusable(str(tmp_path)) == "its metadata is torn"
