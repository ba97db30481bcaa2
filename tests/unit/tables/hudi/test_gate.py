"""Hudi tables of kinds that are not proven are refused by name, and those of the proven kinds are not."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tailbit
from support.hudi import packed_names, unpack
from support.hudi_builder import META, HudiBuilder
from support.hudi_timeline import HudiTimeline
from tailbit.errors import UnsupportedFeatureError
from tailbit.tables.hudi.gate import check_readable
from tailbit.tables.hudi.properties import read_properties
from tailbit.tables.storage import open_storage


def check(folder: str) -> None:
    check_readable(read_properties(open_storage(folder)), folder)


@pytest.mark.parametrize("name", packed_names())
def test_real_tables_of_both_types_pass(name: str, tmp_path: Path) -> None:
    check(unpack(name, tmp_path).path)


def refused(name: str, value: str, section: str = "Tables") -> Any:
    """Return a property as a parameter that is marked as refused."""
    mark = pytest.mark.supports_hudi(section, f"`{name}` = {value.rpartition('.')[2]}", "refused")
    return pytest.param(name, value, marks=mark)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        refused("hoodie.table.type", "ANOTHER"),
        refused("hoodie.table.base.file.format", "ORC"),
        refused("hoodie.table.base.file.format", "HFILE"),
        refused("hoodie.table.multiple.base.file.formats.enable", "true"),
        refused("hoodie.table.format", "iceberg"),
        refused("hoodie.bootstrap.base.path", "/elsewhere"),
        refused("hoodie.datasource.write.drop.partition.columns", "true"),
        refused("hoodie.datasource.write.slash.separated.date.partitioning", "true"),
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


@pytest.mark.parametrize(
    ("name", "value"),
    [
        refused("hoodie.record.merge.mode", "CUSTOM", "MERGE_ON_READ"),
        refused("hoodie.record.merge.strategy.id", "another", "MERGE_ON_READ"),
        refused("hoodie.compaction.record.merger.strategy", "another", "MERGE_ON_READ"),
        refused("hoodie.table.partial.update.mode", "IGNORE_DEFAULTS", "MERGE_ON_READ"),
        refused("hoodie.record.merge.property.hoodie.payload.delete.field", "op", "MERGE_ON_READ"),
        refused("hoodie.payload.delete.field", "op", "MERGE_ON_READ"),
        refused(
            "hoodie.compaction.payload.class",
            "org.apache.hudi.common.model.PartialUpdateAvroPayload",
            "MERGE_ON_READ",
        ),
        refused(
            "hoodie.table.legacy.payload.class",
            "org.apache.hudi.common.model.debezium.PostgresDebeziumAvroPayload",
            "MERGE_ON_READ",
        ),
        refused("hoodie.populate.meta.fields", "false", "MERGE_ON_READ"),
    ],
)
def test_a_merge_on_read_table_is_refused_if_its_way_of_merging_is_not_proven(
    name: str, value: str, tmp_path: Path
) -> None:
    timeline = HudiTimeline(tmp_path, 9, random.Random(1))
    timeline.properties(**{"hoodie.table.type": "MERGE_ON_READ", name: value})
    with pytest.raises(UnsupportedFeatureError, match=f"{name}="):
        check(str(tmp_path))
    timeline.properties(**{"hoodie.table.type": "COPY_ON_WRITE", name: value})
    check(str(tmp_path))


def test_properties_that_contradict_each_other_about_merging_are_refused(tmp_path: Path) -> None:
    said = {
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
        "hoodie.compaction.payload.class": "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
    }
    HudiTimeline(tmp_path, 9, random.Random(1)).properties(**said)
    with pytest.raises(UnsupportedFeatureError, match=r"hoodie\.record\.merge\.mode=EVENT_TIME"):
        check(str(tmp_path))


HIVE_STYLE = "hoodie.datasource.write.hive_style_partitioning"
ENCODES = "hoodie.datasource.write.partitionpath.urlencode"
ROWS = pa.table({META[2]: ["0"], "key": pa.array([0], pa.int64())})


def folder_of(folder: Path, name: str, **properties: str) -> HudiBuilder:
    """Make a table with a data file in a folder of some name."""
    builder = HudiBuilder(str(folder), 9, random.Random(1), **properties)
    add_folder(builder, name, "1")
    return builder


def add_folder(builder: HudiBuilder, name: str, digit: str) -> None:
    requested = builder.timeline.request("commit")
    file_id = "11111111-1111-4111-8111-111111111111-0".replace("1", digit)
    file = builder.data_file(ROWS, requested, file_id, name)[0]
    builder.commit(requested, [file], ROWS.schema.remove(0), "INSERT")


@pytest.mark.supports_hudi(
    "Tables", "partition folders in whose names Spark finds another value than was written", "refused"
)
@pytest.mark.parametrize("name", ["a_b=c+d", "a%20b"])
def test_a_folder_in_whose_name_spark_finds_another_value_is_refused(name: str, tmp_path: Path) -> None:
    builder = folder_of(tmp_path, "p0", **{HIVE_STYLE: "false"})
    opened = tailbit.open(str(tmp_path))
    assert opened.where().count() == 1
    add_folder(builder, name, "2")
    for reader in (opened, tailbit.open(str(tmp_path))):
        with pytest.raises(UnsupportedFeatureError, match=f"the partition folder {re.escape(repr(name))}"):
            reader.where().count()


@pytest.mark.parametrize(
    ("name", "properties"),
    [
        ("part=a=b", {HIVE_STYLE: "true"}),
        ("part=a%3Db", {HIVE_STYLE: "true", ENCODES: "true"}),
        ("a%3Db", {HIVE_STYLE: "false", ENCODES: "true"}),
        ("100%", {HIVE_STYLE: "false"}),
    ],
)
def test_a_folder_in_whose_name_spark_finds_what_was_written_is_read(
    name: str, properties: dict[str, str], tmp_path: Path
) -> None:
    folder_of(tmp_path, name, **properties)
    assert tailbit.open(str(tmp_path)).where().count() == 1


@pytest.mark.supports_hudi(
    "Tables", "partition columns of other types than text, whole numbers and dates", "refused"
)
def test_a_partition_column_that_spark_does_not_read_from_folders_is_refused(tmp_path: Path) -> None:
    builder = HudiBuilder(str(tmp_path), 9, random.Random(1), **{"hoodie.table.partition.fields": "at"})
    requested = builder.timeline.request("commit")
    at = pa.array([1_704_103_200_000_000], pa.timestamp("us", "UTC"))
    rows = pa.table({META[2]: ["0"], "at": at})
    file_id = "11111111-1111-4111-8111-111111111111-0"
    file = builder.data_file(rows, requested, file_id, "1704103200000000")[0]
    builder.commit(requested, [file], rows.schema.remove(0), "INSERT")
    with pytest.raises(UnsupportedFeatureError, match="the partition column at of type timestamp"):
        tailbit.open(str(tmp_path)).where().count()


@pytest.mark.supports_hudi(
    "Tables", "the table of Hudi's own metadata (the error names the table above)", "refused"
)
def test_the_table_of_hudis_own_metadata_is_refused_and_the_one_above_is_named(tmp_path: Path) -> None:
    path = unpack("cow_v9", tmp_path).path
    with pytest.raises(UnsupportedFeatureError, match="Hudi's own metadata") as raised:
        tailbit.open(f"{path}/.hoodie/metadata")
    assert raised.value.hint == f"Give the folder that holds .hoodie: {path}."
