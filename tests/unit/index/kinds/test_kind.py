from __future__ import annotations

from pathlib import Path

import pytest

from support.index_records import record
from tailbit.errors import CorruptIndexError
from tailbit.index.kinds.files.kind import FILES
from tailbit.index.kinds.files.rows import files_to_arrow
from tailbit.index.kinds.rows import kind_of
from tailbit.tables.storage import LocalStorage


def test_records_written_to_a_file_are_read_back(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    rows = files_to_arrow([record("a"), record("b")])
    file = FILES.write(storage, rows)
    assert kind_of(file.path) == FILES.name
    assert FILES.read(storage, file.path) == rows


@pytest.mark.parametrize("damage", ["truncated", "altered", "gone", "not Parquet"])
def test_a_damaged_record_file_is_a_corrupt_index_with_the_name_of_the_file(
    tmp_path: Path, damage: str
) -> None:
    storage = LocalStorage(str(tmp_path))
    file = FILES.write(storage, files_to_arrow([record("a" * 50)]))
    local = tmp_path / file.path
    data = bytearray(local.read_bytes())
    if damage == "truncated":
        local.write_bytes(data[:-20])
    elif damage == "altered":
        data[60] ^= 0xFF
        local.write_bytes(data)
    elif damage == "gone":
        local.unlink()
    else:
        local.write_bytes(b"hello")
    with pytest.raises(CorruptIndexError) as caught:
        FILES.read(storage, file.path)
    assert file.path in str(caught.value)
