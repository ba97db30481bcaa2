"""Hudi tables of kinds that are not proven are refused by name, and those of the proven kinds are not."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

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


def refused(name: str, value: str) -> Any:
    """Return a property as a parameter that is marked as refused."""
    mark = pytest.mark.supports_hudi("Tables", f"`{name}` = {value.rpartition('.')[2]}", "refused")
    return pytest.param(name, value, marks=mark)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        refused("hoodie.table.base.file.format", "ORC"),
        refused("hoodie.table.base.file.format", "HFILE"),
        refused("hoodie.table.multiple.base.file.formats.enable", "true"),
        refused("hoodie.table.format", "iceberg"),
        refused("hoodie.bootstrap.base.path", "/elsewhere"),
        refused("hoodie.datasource.write.drop.partition.columns", "true"),
        refused("hoodie.partition.metafile.use.base.format", "true"),
        refused("hoodie.table.keygenerator.type", "TIMESTAMP"),
        refused("hoodie.table.keygenerator.type", "CUSTOM"),
        refused("hoodie.table.keygenerator.class", "org.apache.hudi.keygen.TimestampBasedKeyGenerator"),
        refused("hoodie.table.keygenerator.class", "org.apache.hudi.keygen.CustomAvroKeyGenerator"),
    ],
)
def test_a_kind_that_is_not_proven_is_refused_by_property(name: str, value: str, tmp_path: Path) -> None:
    HudiTimeline(tmp_path, 9, random.Random(1)).properties(**{name: value})
    with pytest.raises(UnsupportedFeatureError, match=f"{name}=") as raised:
        check(str(tmp_path))
    assert raised.value.fields["feature"] == f"{name}={value}"
