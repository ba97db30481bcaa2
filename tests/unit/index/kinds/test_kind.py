from __future__ import annotations

from pathlib import Path

import pytest

from support.index_records import record
from tailbit.errors import CorruptIndexError
from tailbit.index.kinds.files import FILES, files_to_arrow
from tailbit.tables.storage import LocalStorage


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
