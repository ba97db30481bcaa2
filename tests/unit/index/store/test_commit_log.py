"""An index is written wherever its folder lies, whatever the folder's name."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

import tailbit
from support.tables import index_of


@pytest.mark.parametrize("name", ["a%20b", "50%", "é%41 %2F", "%", "%zz #?"])
def test_a_folder_whose_name_looks_encoded_holds_a_table_and_its_index(tmp_path: Path, name: str) -> None:
    deltalake.write_deltalake(tmp_path / "plain", pa.table({"v": [1, 2, 2]}))
    folder = (tmp_path / "plain").rename(tmp_path / name)
    drive = index_of(folder, ["v"])
    (folder / "_delta_log" / f"{1:020d}.json").write_text('{"commitInfo": {}}\n')
    drive.drain()
    opened = tailbit.open(folder)
    assert opened.where("v = 2").count() == 2
    assert opened.where().covered_version == 1
    assert opened.verify().sound
    assert [path.name for path in tmp_path.iterdir()] == [name]
