"""A folder whose name stands for NULL: Spark reads its rows so, whatever their files hold."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa

import tailbit
from support.drive import Drive
from support.hudi_builder import HudiBuilder

NULL = "__HIVE_DEFAULT_PARTITION__"


def test_an_empty_text_in_the_folder_of_null_is_null_by_scan_and_by_index(tmp_path: Path) -> None:
    fields = {"hoodie.table.partition.fields": "region,city"}
    builder = HudiBuilder(str(tmp_path / "table"), 9, random.Random(1), **fields)
    requested, files = builder.timeline.request(), []
    for folder, region, city in (
        ("EU/Oslo", "EU", "Oslo"),
        (f"{NULL}/Oslo", "", "Oslo"),
        (f"region={NULL}/city=Oslo", None, "Oslo"),
        (f"EU/{NULL}", "EU", ""),
        (f"{NULL}/{NULL}", "", ""),
    ):
        rows = pa.table({"region": pa.array([region], pa.string()), "city": [city]})
        files.append(builder.data_file(rows, requested, builder.new_group(), folder)[0])
    builder.commit(requested, files, rows.schema, "INSERT")
    Drive(tmp_path / "table", tmp_path / "index", ["region", "city"]).drain()
    for place in (None, tmp_path / "index"):
        opened = tailbit.open(str(tmp_path / "table"), place)
        assert opened.where().facets("region") == {None: 3, "EU": 2}
        assert opened.where("region IS NULL AND city = 'Oslo'").count() == 2
        assert opened.where("region = '' OR city = ''").count() == 0
        assert opened.where("city IS NULL").read(["region", "city"]).to_pylist() == [
            {"region": "EU", "city": None},
            {"region": None, "city": None},
        ]
