"""An Iceberg table as a source: pointer, versions, names, times, moved tables, and what is refused."""

from __future__ import annotations

import gzip
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tailbit
from support.drive import Drive
from support.iceberg_builder import IcebergBuilder, Json, Written
from tailbit.errors import (
    ColumnTypeError,
    CommitGapError,
    DataFileError,
    MalformedLogError,
    NotATableError,
    TailbitError,
    UnsupportedFeatureError,
    UsageError,
    VersionNotFoundError,
)
from tailbit.tables import open_table
from tailbit.tables.storage import StorageOptions

FIELDS: list[Json] = [
    {"id": 1, "name": "k", "required": True, "type": "long"},
    {"id": 2, "name": "v", "required": False, "type": "string"},
]


class Berg:
    """A small table: each commit appends a data file of rows `k`, `v`."""

    def __init__(self, root: Path, version: int = 2, **options: Any) -> None:
        self.builder = IcebergBuilder(str(root), random.Random(7), version, **options)
        self.builder.gz, self.builder.lags = False, False
        self.builder.schemas.append({"type": "struct", "schema-id": 0, "fields": FIELDS})
        self.files: list[Written] = []
        self.lists: list[Json] = []
        self.ids: list[int] = []

    @property
    def path(self) -> str:
        return str(self.builder.root)

    def file(self, *keys: int) -> Written:
        rows = pa.table({"k": pa.array(keys, pa.int64()), "v": [f"v{key}" for key in keys]})
        return self.builder.data_file(rows, FIELDS, {})

    def append(self, *keys: int, change: Callable[[Written], Written] = lambda file: file) -> int:
        """Commit a data file; the id of the snapshot."""
        id_ = self.builder.new_snapshot()
        self.files.append(change(self.file(*keys)))
        self.lists.append(self.builder.manifest([(1, self.files[-1])], 0, False, id_))
        self.builder.add_snapshot(id_, self.lists, "append")
        self.builder.commit()
        self.ids.append(id_)
        return id_

    def delete(self, *deletes: Written) -> int:
        """Commit delete files."""
        id_ = self.builder.new_snapshot()
        self.lists.append(self.builder.manifest([(1, file) for file in deletes], 0, True, id_))
        self.builder.add_snapshot(id_, self.lists, "delete")
        self.builder.commit()
        return id_

    def metadata(self) -> Path:
        return self.builder.root / "metadata" / f"v{self.builder.number}.metadata.json"

    def edit(self, change: Callable[[Json], object]) -> None:
        """Change the newest metadata file."""
        content = json.loads(self.metadata().read_text())
        change(content)
        self.metadata().write_text(json.dumps(content))


@pytest.fixture
def berg(tmp_path: Path) -> Berg:
    table = Berg(tmp_path / "berg")
    table.append(1, 2, 3)
    table.append(4, 5)
    return table


def keys(path: str, **version: Any) -> list[int]:
    return sorted(tailbit.open(path).where("k > 0", **version).read()["k"].to_pylist())


# The pointer


@pytest.mark.supports_iceberg("Tables", "tables of a Hadoop catalog, by their folder", "exact")
@pytest.mark.parametrize("hint", ["1", "0", "7", "no number", "", "\x00", None])
def test_a_hint_that_lags_or_errs_leads_to_the_newest_metadata(berg: Berg, hint: str | None) -> None:
    file = Path(berg.path, "metadata/version-hint.text")
    file.unlink() if hint is None else file.write_text(hint)
    assert keys(berg.path) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("suffix", [".gz.metadata.json", ".metadata.json.gz"])
def test_metadata_may_be_gzipped_under_either_name(berg: Berg, suffix: str) -> None:
    data = berg.metadata().read_bytes()
    berg.metadata().unlink()
    (berg.metadata().parent / f"v{berg.builder.number}{suffix}").write_bytes(gzip.compress(data))
    assert keys(berg.path) == [1, 2, 3, 4, 5]


def test_a_reader_sees_each_commit_and_reads_metadata_once(berg: Berg) -> None:
    table = open_table(berg.path)
    before = table.head()
    assert not table.moved_on(before)
    berg.append(6)
    assert table.moved_on(before)
    assert table.snapshot() is table.snapshot()
    assert len(table.snapshot().files) == 3


def test_old_metadata_files_that_commits_delete_are_not_needed(berg: Berg) -> None:
    table = open_table(berg.path)
    berg.append(6)
    berg.append(7)
    for number in (1, 2, 3):
        (berg.builder.root / "metadata" / f"v{number}.metadata.json").unlink()
    Path(berg.path, "metadata/version-hint.text").write_text("1")
    assert len(table.snapshot().files) == len(open_table(berg.path).snapshot().files) == 4


@pytest.mark.supports_iceberg("Tables", "one state of any table, by the path of a metadata file", "exact")
def test_a_metadata_file_is_a_table_whose_head_stays(berg: Berg) -> None:
    first = str(berg.builder.root / "metadata" / "v1.metadata.json")
    of_catalog = berg.metadata().with_name("00001-ab-cd.metadata.json")
    of_catalog.write_bytes(berg.metadata().read_bytes())
    berg.append(6)
    assert keys(first) == [1, 2, 3]
    assert keys(str(of_catalog)) == [1, 2, 3, 4, 5]
    assert open_table(first).root == berg.path


@pytest.mark.supports_iceberg("Tables", "the folder of a table of another catalog", "refused")
def test_the_folder_of_a_table_of_a_catalog_is_refused_with_what_to_give(berg: Berg) -> None:
    for file in (berg.builder.root / "metadata").glob("v*"):
        file.unlink()
    (berg.builder.root / "metadata" / "00001-ab.metadata.json").write_text("{}")
    with pytest.raises(NotATableError, match="only the catalog knows") as refused:
        tailbit.open(berg.path)
    assert f"{berg.path}/metadata/00001-ab.metadata.json" in refused.value.hint


@pytest.mark.supports_iceberg("Tables", "copied and moved tables: paths below the old location", "exact")
@pytest.mark.parametrize("location", ["file:/gone/t", "file:///gone/t", "/gone/t/", "s3a://bucket/t"])
def test_a_moved_table_is_read_where_it_is_found(tmp_path: Path, location: str) -> None:
    berg = Berg(tmp_path / "t", location=location)
    berg.append(1, 2)
    berg.delete(berg.builder.position_deletes({berg.files[0].path: [0]}, berg.files[0], bounded=False))
    shutil.move(tmp_path / "t", tmp_path / "moved")
    assert keys(str(tmp_path / "moved")) == [2]


def test_a_table_beside_the_log_of_another_format_is_of_that_format_unless_named(berg: Berg) -> None:
    from deltalake import write_deltalake

    write_deltalake(berg.path, pa.table({"k": pa.array([9], pa.int64())}))
    assert keys(berg.path) == [9]
    named = tailbit.open(berg.path, storage_options={"table_format": "iceberg"})
    assert named.where("k > 0").count() == 5


def test_a_table_without_a_snapshot_is_empty_and_is_followed_from_there(tmp_path: Path) -> None:
    berg = Berg(tmp_path / "t")
    berg.builder.commit()
    drive = Drive(berg.path, f"{berg.path}-index", ["k"])
    drive.drain()
    assert keys(berg.path) == []
    berg.append(1, 2)
    drive.drain()
    assert drive.table.snapshot().version == drive.table.head()
    opened = tailbit.open(berg.path, index=f"{berg.path}-index")
    assert opened.where("k = 2").count() == 1
    assert opened.where().covered_version == drive.table.head()


def test_manifests_of_one_header_are_decoded_together_each_with_its_own_entries(tmp_path: Path) -> None:
    berg = Berg(tmp_path / "berg")
    for number in range(60):
        berg.append(number)
    berg.delete(berg.builder.position_deletes({berg.files[7].path: [0]}, berg.files[7], bounded=True))
    assert keys(berg.path) == [number for number in range(1, 60) if number != 7]
    assert keys(berg.path, version=str(berg.ids[30])) == [*range(1, 31)]


@pytest.mark.parametrize("damage", ["cut", "block", "marker", "empty"])
def test_of_many_manifests_the_damaged_one_is_named(tmp_path: Path, damage: str) -> None:
    berg = Berg(tmp_path / "berg")
    for number in range(60):
        berg.append(number)
    file = Path(berg.path, "metadata", berg.lists[40]["manifest_path"].rpartition("/")[2])
    data = bytearray(file.read_bytes())
    if damage == "block":
        data[-40:-20] = bytes(20)
    elif damage == "marker":
        data[-1] ^= 1
    file.write_bytes(data[:-30] if damage == "cut" else b"" if damage == "empty" else data)
    with pytest.raises(MalformedLogError) as refused:
        tailbit.open(berg.path).where("k > 0").count()
    assert file.name in str(refused.value)


# Versions


@pytest.mark.supports_iceberg("Ways to ask", "a snapshot by its id, a branch, a tag", "exact")
def test_versions_are_named_by_snapshot_ids_branches_and_tags(berg: Berg) -> None:
    first, second = berg.ids
    berg.builder.refs["audit"] = {"snapshot-id": first, "type": "branch"}
    berg.builder.refs["v1.0"] = {"snapshot-id": first, "type": "tag"}
    berg.builder.commit()
    assert keys(berg.path, version=str(first)) == keys(berg.path, version="audit") == [1, 2, 3]
    assert keys(berg.path, version=first) == [1, 2, 3]
    assert keys(berg.path, version=open_table(berg.path).version_named("audit")) == [1, 2, 3]
    assert keys(berg.path, version="v1.0") == [1, 2, 3]
    assert keys(berg.path, version="main") == keys(berg.path, version=str(second)) == [1, 2, 3, 4, 5]
    with pytest.raises(VersionNotFoundError, match="no such branch or tag"):
        keys(berg.path, version="nothing")


@pytest.mark.supports_iceberg(
    "Schema and types", "the head by the current schema, a snapshot by its own", "exact"
)
def test_a_schema_that_changes_without_a_snapshot_is_that_of_the_head_and_of_branches(berg: Berg) -> None:
    table = open_table(berg.path)
    before = table.head()
    berg.builder.schemas.append(
        {"type": "struct", "schema-id": 1, "fields": [FIELDS[0], {**FIELDS[1], "name": "w"}]}
    )
    berg.builder.schema = 1
    berg.builder.refs["side"] = {"snapshot-id": berg.ids[0], "type": "branch"}
    berg.builder.commit()
    assert table.head() > before
    names = {
        name: table.snapshot(table.version_named(name)).schema.arrow().names
        for name in ("main", "side", str(berg.ids[1]))
    }
    assert names == {"main": ["k", "w"], "side": ["k", "w"], str(berg.ids[1]): ["k", "v"]}
    assert table.fingerprint(table.head()) is not None
    assert table.changes(table.head(), table.head()).schema_changed


@pytest.mark.supports_iceberg("Ways to ask", "a point in time, also before a rollback", "exact")
def test_a_time_means_the_snapshot_that_was_current_then(berg: Berg) -> None:
    times = [entry["timestamp-ms"] for entry in berg.builder.snapshots]
    berg.builder.clock_ms += 1000
    berg.builder.set_current(berg.ids[0])
    berg.builder.commit()
    table = open_table(berg.path)
    at = [table.name_of(table.version_at(time)) for time in (*times, times[1] + 999, times[1] + 10**6)]
    assert at == [str(id_) for id_ in (*berg.ids, berg.ids[1], berg.ids[0])]
    with pytest.raises(VersionNotFoundError):
        table.version_at(times[0] - 1)


@pytest.mark.supports_iceberg("Histories", "`rollback_to_snapshot`, `set_current_snapshot`", "exact")
def test_after_a_rollback_the_index_goes_on_without_reading_a_file(berg: Berg) -> None:
    index = f"{berg.path}-index"
    drive = Drive(berg.path, index, ["k"])
    drive.drain()
    berg.builder.set_current(berg.ids[0])
    berg.builder.commit()
    for file in berg.files:
        (berg.builder.root / file.path).rename(berg.builder.root / f"{file.path}.away")
    assert tailbit.open(berg.path, index=index).where("k = 3").count() == 1
    assert tailbit.open(berg.path, index=index).where("k = 4").count() == 0


def test_an_expired_snapshot_is_told_as_such_and_the_stream_begins_behind_it(berg: Berg) -> None:
    berg.append(6)
    berg.builder.snapshots = berg.builder.snapshots[1:]
    berg.builder.commit()
    table = open_table(berg.path)
    assert table.name_of(table.earliest()) == str(berg.ids[1])
    with pytest.raises(VersionNotFoundError):
        table.version_named(str(berg.ids[0]))
    with pytest.raises(CommitGapError):
        table.changes(0, table.head())
    assert [change.path for change in table.changes(table.head(), table.head()).slices] == [
        berg.files[2].path
    ]


@pytest.mark.supports_iceberg("Histories", "format version 1, manifests in the metadata itself", "exact")
def test_a_table_of_version_1_may_leave_out_what_later_versions_say(tmp_path: Path) -> None:
    berg = Berg(tmp_path / "t", version=1)
    berg.append(1)
    berg.append(2)

    def strip(content: Json) -> None:
        for name in (
            "schemas",
            "current-schema-id",
            "partition-specs",
            "default-spec-id",
            "refs",
            "table-uuid",
        ):
            del content[name]
        for entry in content["snapshots"]:
            del entry["schema-id"]
        entry = content["snapshots"][1]
        entry.pop("manifest-list", None)
        entry["manifests"] = [listed["manifest_path"] for listed in berg.lists]

    berg.edit(strip)
    assert keys(berg.path) == [1, 2]
    assert keys(berg.path, version=str(berg.ids[0])) == [1]


# What is refused


def _format_4(berg: Berg) -> None:
    berg.edit(lambda content: content.update({"format-version": 4}))


def _encrypted(berg: Berg) -> None:
    berg.edit(lambda content: content.update({"encryption-keys": [{"key-id": "a"}]}))


def _encrypted_snapshot(berg: Berg) -> None:
    berg.edit(lambda content: content["snapshots"][-1].update({"key-id": "a"}))


def _encrypted_file(berg: Berg) -> None:
    berg.append(6, change=lambda file: Written(file.path, {**file.entry, "key_metadata": b"k"}))


def _view(berg: Berg) -> None:
    berg.metadata().write_text(json.dumps({"view-uuid": "a", "format-version": 1, "location": berg.path}))


def _orc(berg: Berg) -> None:
    berg.append(6, change=lambda file: Written(file.path, {**file.entry, "file_format": "ORC"}))


def _avro_deletes(berg: Berg) -> None:
    file = berg.builder.position_deletes({berg.files[0].path: [0]}, berg.files[0], bounded=False)
    berg.delete(Written(file.path, {**file.entry, "file_format": "AVRO"}))


REFUSED = {
    "format version 4": (_format_4, "format version 4"),
    "encrypted tables": (_encrypted, "encryption"),
    "encrypted manifest lists": (_encrypted_snapshot, "encryption"),
    "encrypted data files": (_encrypted_file, "encryption"),
    "views": (_view, "a view"),
    "data files in ORC or Avro": (_orc, "data files in ORC"),
    "delete files in ORC or Avro": (_avro_deletes, "delete file in AVRO"),
}


@pytest.mark.parametrize(
    "what",
    [pytest.param(what, marks=pytest.mark.supports_iceberg("Tables", what, "refused")) for what in REFUSED],
)
def test_what_is_not_read_is_refused_by_name_with_what_to_do(berg: Berg, what: str) -> None:
    make, named = REFUSED[what]
    make(berg)
    with pytest.raises(UnsupportedFeatureError, match=named) as refused:
        keys(berg.path)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("type_", "more"),
    [
        pytest.param(
            type_,
            more,
            marks=pytest.mark.supports_iceberg("Schema and types", what, "refused", note="the column"),
        )
        for what, type_, more in (
            ("time", "time", {}),
            ("timestamp_ns, timestamptz_ns", "timestamp_ns", {}),
            ("timestamp_ns, timestamptz_ns", "timestamptz_ns", {}),
            ("geometry, geography", "geometry", {}),
            ("geometry, geography", "geography", {}),
        )
    ],
)
def test_a_column_that_cannot_be_read_is_refused_alone(berg: Berg, type_: str, more: Json) -> None:
    odd = {"id": 3, "name": "odd", "required": False, "type": type_, **more}
    berg.builder.schemas.append({"type": "struct", "schema-id": 1, "fields": [*FIELDS, odd]})
    berg.builder.schema = 1
    berg.builder.commit()
    with pytest.raises(ColumnTypeError, match="odd"):
        tailbit.open(berg.path).where("odd = 1").count()
    assert tailbit.open(berg.path).where("k = 2").count() == 1


def _two_vectors(berg: Berg) -> None:
    path, like = berg.files[0].path, {berg.files[0].path: berg.files[0]}
    berg.delete(*berg.builder.vectors({path: [0]}, like), *berg.builder.vectors({path: [1]}, like))


def _lost_manifest(berg: Berg) -> None:
    (berg.builder.root / berg.lists[0]["manifest_path"].removeprefix(f"{berg.builder.location}/")).unlink()


def _cut_metadata(berg: Berg) -> None:
    berg.metadata().write_bytes(berg.metadata().read_bytes()[:-20])


def _cut_manifest(berg: Berg) -> None:
    file = berg.builder.root / berg.lists[0]["manifest_path"].removeprefix(f"{berg.builder.location}/")
    file.write_bytes(file.read_bytes()[:-30])


DAMAGED: dict[str, tuple[Callable[[Berg], None], str]] = {
    "two vectors": (_two_vectors, "two deletion vectors"),
    "lost manifest": (_lost_manifest, "it is missing, though the newest metadata names it"),
    "metadata cut short": (_cut_metadata, "v2.metadata.json"),
    "manifest cut short": (_cut_manifest, "not readable Avro"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_damage_is_told_by_file_and_what_is_wrong(berg: Berg, damage: str) -> None:
    make, named = DAMAGED[damage]
    make(berg)
    with pytest.raises(MalformedLogError, match=named):
        keys(berg.path)


def test_a_lost_data_file_is_told_in_the_words_of_iceberg(berg: Berg) -> None:
    (berg.builder.root / berg.files[0].path).unlink()
    with pytest.raises(DataFileError, match="the file is missing") as refused:
        keys(berg.path)
    assert "rollback_to_snapshot" in refused.value.hint


def test_a_file_outside_of_the_table_is_read_only_where_that_is_allowed(berg: Berg, tmp_path: Path) -> None:
    shutil.move(Path(berg.path, berg.files[0].path), tmp_path / "elsewhere.parquet")
    outside = {"file_path": str(tmp_path / "elsewhere.parquet")}
    berg.lists.clear()
    berg.append(9, change=lambda file: Written(file.path, {**berg.files[0].entry, **outside}))
    with pytest.raises(TailbitError, match="outside of the table's root"):
        keys(berg.path)
    opened = tailbit.open(berg.path, storage_options=dict(StorageOptions.of({"allow_outside": "true"})))
    assert opened.where("k > 0").count() == 3


# Defaults and files without field ids


def _with_struct(berg: Berg, inner: Json) -> None:
    """Commit rows with a struct, and then a schema whose struct has one more field."""
    fields = [
        FIELDS[0],
        {
            "id": 5,
            "name": "st",
            "required": False,
            "type": {"type": "struct", "fields": [{"id": 6, "name": "a", "required": False, "type": "int"}]},
        },
    ]
    berg.builder.schemas.append({"type": "struct", "schema-id": 1, "fields": fields})
    berg.builder.schema = 1
    rows = pa.table({"k": pa.array([7, 8], pa.int64()), "st": pa.array([{"a": 1}, None])})
    file = berg.builder.data_file(
        rows.cast(pa.schema([("k", pa.int64()), ("st", pa.struct([("a", pa.int32())]))])), fields, {}
    )
    berg.append(9, change=lambda _: file)
    wider = json.loads(json.dumps(fields))
    wider[1]["type"]["fields"].append(inner)
    berg.builder.schemas.append({"type": "struct", "schema-id": 2, "fields": wider})
    berg.builder.schema = 2
    berg.builder.commit()


@pytest.mark.parametrize(
    ("text", "microsecond"),
    [
        ("2021-02-03T04:05:06", 0),
        ("2021-02-03T04:05:06.5", 500_000),
        ("2021-02-03T04:05:06.000007", 7),
        ("2021-02-03T04:05:06.12", 120_000),
    ],
)
def test_a_default_time_is_read_whatever_digits_its_fraction_has(
    berg: Berg, text: str, microsecond: int
) -> None:
    """Python 3.10 refuses a fraction of other than three or six digits, which Iceberg writes."""
    for type_, zone in (("timestamp", ""), ("timestamptz", "+00:00")):
        odd = {"id": 3, "name": "odd", "required": False, "type": type_, "initial-default": text + zone}
        berg.builder.schemas.append({"type": "struct", "schema-id": 1, "fields": [*FIELDS, odd]})
        berg.builder.schema = len(berg.builder.schemas) - 1
        berg.builder.schemas[-1]["schema-id"] = berg.builder.schema
        berg.builder.commit()
        (read,) = set(tailbit.open(berg.path).where().read()["odd"].to_pylist())
        assert (read.replace(tzinfo=None).isoformat()[:19], read.microsecond) == (text[:19], microsecond)


def test_a_default_within_a_struct_is_null_where_the_struct_is_null(berg: Berg) -> None:
    _with_struct(berg, {"id": 7, "name": "b", "required": False, "type": "string", "initial-default": "x"})
    opened = tailbit.open(berg.path)
    assert opened.where("k = 7").read()["st"].to_pylist() == [{"a": 1, "b": "x"}]
    assert opened.where("k = 8").read()["st"].to_pylist() == [None]
    assert opened.where("st.b = 'x'").count() == 1
    assert opened.where("st.b IS NULL").count() == 6
    Drive(berg.path, f"{berg.path}-index", ["st.b"]).drain()
    indexed = tailbit.open(berg.path, index=f"{berg.path}-index")
    assert indexed.where("st.b = 'x'").count() == 1
    assert indexed.where("st.b IS NULL").count() == 6


def test_an_equality_delete_of_a_default_value_hides_the_rows_of_older_files(berg: Berg) -> None:
    added = {"id": 3, "name": "n", "required": False, "type": "int", "initial-default": 5}
    berg.builder.schemas.append({"type": "struct", "schema-id": 1, "fields": [*FIELDS, added]})
    berg.builder.schema = 1
    berg.delete(berg.builder.equality_deletes(pa.table({"n": pa.array([5], pa.int32())}), [added], 0, {}))
    assert keys(berg.path) == []


@pytest.mark.supports_iceberg("Files", "files without field ids in a table without a name mapping", "refused")
def test_a_file_without_field_ids_is_refused_where_no_mapping_says_what_its_names_mean(berg: Berg) -> None:
    rows = pa.table({"k": pa.array([6], pa.int64()), "v": ["x"]})
    file = berg.builder.data_file(rows, FIELDS, {}, folder="data")
    berg.append(6, change=lambda _: file)
    with pytest.raises(DataFileError, match="its fields have no ids"):
        keys(berg.path)


def test_an_imported_file_that_lacks_its_partition_and_has_no_such_folder_is_refused(berg: Berg) -> None:
    spec = {
        "spec-id": 1,
        "fields": [{"source-id": 2, "field-id": 1000, "name": "v", "transform": "identity"}],
    }
    berg.builder.specs.append(spec)
    mapping = [{"field-id": 1, "names": ["n1"]}, {"field-id": 2, "names": ["n2"]}]
    berg.builder.properties["schema.name-mapping.default"] = json.dumps(mapping)
    rows = pa.table({"k": pa.array([6], pa.int64()), "v": ["x"]})
    file = berg.builder.data_file(rows, FIELDS, {1000: "x"}, 1, folder="data/elsewhere", left_out=2)
    id_ = berg.builder.new_snapshot()
    berg.lists.append(berg.builder.manifest([(1, file)], 1, False, id_))
    berg.builder.add_snapshot(id_, berg.lists, "append")
    berg.builder.commit()
    with pytest.raises(DataFileError, match="no folder of its path"):
        tailbit.open(berg.path).where("k = 6").read()
    assert tailbit.open(berg.path).where("k = 6").count() == 1


# Views


@pytest.mark.supports_iceberg("Ways to ask", "a Delta view over the data files (`to_delta`)", "exact")
def test_a_delta_view_shows_the_rows_of_the_data_files(berg: Berg, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    berg.delete(berg.builder.position_deletes({berg.files[0].path: [0]}, berg.files[0], bounded=False))
    opened = tailbit.open(berg.path)
    opened.where("k > 0").to_delta(str(tmp_path / "view"))
    assert (
        tailbit.open(str(tmp_path / "view"), storage_options={"allow_outside": "true"}).where().count() == 4
    )
    assert DeltaTable(str(tmp_path / "view")).schema().to_arrow()


@pytest.mark.parametrize("change", ["renamed", "swapped", "default"])
def test_a_delta_view_is_refused_where_readers_by_name_would_read_other_values(
    berg: Berg, tmp_path: Path, change: str
) -> None:
    fields = {
        "renamed": [FIELDS[0], {**FIELDS[1], "name": "w"}],
        "swapped": [{**FIELDS[0], "name": "v"}, {**FIELDS[1], "name": "k"}],
        "default": [*FIELDS, {"id": 3, "name": "n", "required": False, "type": "int", "initial-default": 1}],
    }[change]
    berg.builder.schemas.append({"type": "struct", "schema-id": 1, "fields": fields})
    berg.builder.schema = 1
    berg.builder.commit()
    with pytest.raises(UsageError, match="under that name"):
        tailbit.open(berg.path).where().to_delta(str(tmp_path / "view"))


# Damage of any kind


@pytest.mark.parametrize("seed", range(40))
def test_bytes_that_are_changed_at_random_raise_named_errors_alone(tmp_path: Path, seed: int) -> None:
    rng, berg = random.Random(seed), Berg(tmp_path / "t")
    berg.append(1, 2, 3)
    berg.delete(berg.builder.position_deletes({berg.files[0].path: [0]}, berg.files[0], bounded=False))
    berg.delete(berg.builder.equality_deletes(pa.table({"k": pa.array([2], pa.int64())}), FIELDS[:1], 0, {}))
    berg.append(4)
    files = sorted(
        file for file in Path(berg.path).rglob("*") if file.is_file() and file.name != "version-hint.text"
    )
    for _ in range(6):
        file = rng.choice(files)
        before = data = bytearray(file.read_bytes())
        for _ in range(rng.choice((1, 1, 4))):
            at = rng.randrange(len(data))
            data = bytearray(data)
            change = rng.choice(("flip", "cut", "zero", "double"))
            if change == "flip":
                data[at] ^= 1 << rng.randrange(8)
            elif change == "zero":
                data[at : at + 4] = bytes(len(data[at : at + 4]))
            elif change == "double":
                data[at:at] = data[at : at + rng.randint(1, 30)]
            elif at:
                del data[at:]
        file.write_bytes(data)
        copied = tmp_path / f"copy-{rng.getrandbits(40)}"
        shutil.copytree(berg.path, copied)
        try:
            tailbit.open(str(copied)).where("k > 0").read()
        except TailbitError as named:
            assert named.hint  # noqa: PT017
        file.write_bytes(before)


def test_the_command_line_takes_ids_branches_and_tags(berg: Berg) -> None:
    from click.testing import CliRunner

    from tailbit.cli.main import cli

    berg.builder.refs["v1.0"] = {"snapshot-id": berg.ids[0], "type": "tag"}
    berg.builder.commit()
    for name in (str(berg.ids[0]), "v1.0"):
        assert CliRunner().invoke(cli, ["count", berg.path, "--version", name]).output == "3\n"
    refused = CliRunner().invoke(cli, ["count", berg.path, "--version", "nothing"])
    assert isinstance(refused.exception, VersionNotFoundError)


def test_a_rollback_under_another_name_mapping_is_no_rollback_of_the_same_values(berg: Berg) -> None:
    table = open_table(berg.path)
    covered = table.fingerprint(table.head())
    assert covered is not None
    berg.builder.set_current(berg.ids[0])
    berg.builder.commit()
    assert table.took_back(covered)
    berg.builder.properties["schema.name-mapping.default"] = '[{"field-id": 1, "names": ["x"]}]'
    berg.builder.commit()
    assert not table.took_back(covered)


def test_an_expired_snapshot_counts_as_taken_back_where_no_name_mapping_may_have_changed(berg: Berg) -> None:
    table = open_table(berg.path)
    covered = table.fingerprint(table.version_named(str(berg.ids[0])))
    assert covered is not None
    berg.builder.snapshots = berg.builder.snapshots[1:]
    berg.builder.commit()
    assert table.took_back(covered)
