"""Hudi tables of kinds that are not proven are refused by name, and those of the proven kinds are not."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from support.hudi import packed_names, unpack
from support.hudi_timeline import HudiTimeline
from tailbit.errors import UnsupportedFeatureError
from tailbit.tables.hudi.gate import check_readable
from tailbit.tables.hudi.log.properties import read_properties
from tailbit.tables.storage import open_storage


def check(folder: str) -> None:
    check_readable(read_properties(open_storage(folder)), folder)


@pytest.mark.parametrize("name", packed_names())
def test_real_tables_pass_if_they_are_copy_on_write(name: str, tmp_path: Path) -> None:
    table = unpack(name, tmp_path)
    if table.kind == "cow":
        check(table.path)
        return
    with pytest.raises(UnsupportedFeatureError, match="MERGE_ON_READ"):
        check(table.path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hoodie.table.base.file.format", "ORC"),
        ("hoodie.table.base.file.format", "HFILE"),
        ("hoodie.table.multiple.base.file.formats.enable", "true"),
        ("hoodie.table.format", "iceberg"),
        ("hoodie.bootstrap.base.path", "/elsewhere"),
        ("hoodie.datasource.write.drop.partition.columns", "true"),
        ("hoodie.partition.metafile.use.base.format", "true"),
        ("hoodie.table.keygenerator.type", "TIMESTAMP"),
        ("hoodie.table.keygenerator.type", "CUSTOM"),
        ("hoodie.table.keygenerator.class", "org.apache.hudi.keygen.TimestampBasedKeyGenerator"),
        ("hoodie.table.keygenerator.class", "org.apache.hudi.keygen.CustomAvroKeyGenerator"),
    ],
)
def test_a_kind_that_is_not_proven_is_refused_by_property(name: str, value: str, tmp_path: Path) -> None:
    HudiTimeline(tmp_path, 9, random.Random(1)).properties(**{name: value})
    with pytest.raises(UnsupportedFeatureError, match=f"{name}=") as raised:
        check(str(tmp_path))
    assert raised.value.fields["feature"] == f"{name}={value}"
