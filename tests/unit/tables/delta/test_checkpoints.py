"""Every form of log checkpoint gives the same snapshot; damaged ones are passed over or named."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.delta_builder import DeltaBuilder
from tailbit.errors import CommitGapError, MalformedLogError, VersionNotFoundError
from tailbit.tables import open_table
from tailbit.tables.snapshot import Snapshot
from tailbit.tables.storage import LocalStorage

SCHEMA = pa.schema([("a", pa.int64()), ("p", pa.string())])
ROWS = pa.table({"a": list(range(10))})
FORMS = [("classic", 1), ("multipart", 3), ("v2-json", 2), ("v2-parquet", 2)]


@pytest.fixture
def builder(table_path: str) -> DeltaBuilder:
    """Five files, one with hidden rows, one removed, odd names; then two commits more."""
    made = DeltaBuilder(table_path).create(
        SCHEMA, ["p"], {"k": "v"}, features=["deletionVectors", "v2Checkpoint"]
    )
    made.commit([made.data_file(ROWS, f"p=a b%/{i}.parquet", {"p": "a b%"}) for i in range(3)])
    made.commit([made.data_file(ROWS, f"{i}.parquet", {"p": None}, stats=i == 0) for i in range(2)])
    made.commit(made.hide("0.parquet", made.stored_vectors([1, 2], prefix="ab")[0]))
    made.commit([made.remove("1.parquet")])
    return made


def described(snapshot: Snapshot) -> list[object]:
    """All that a snapshot says, row count and statistics included."""
    return [snapshot.table_id, dict(snapshot.configuration), snapshot.protocol, list(snapshot.files)]


@pytest.mark.parametrize(("form", "parts"), FORMS)
def test_every_form_of_checkpoint_gives_the_snapshot_of_the_commits(
    builder: DeltaBuilder, form: str, parts: int
) -> None:
    expected = described(open_table(builder.path).snapshot())
    builder.checkpoint(form, parts)
    for version in range(builder.version):
        (builder.log / f"{version:020d}.json").unlink()
    table = open_table(builder.path)
    assert described(table.snapshot()) == expected
    (builder.log / f"{builder.version:020d}.json").unlink()
    assert described(open_table(builder.path).snapshot()) == expected
    assert table.earliest() == builder.version


@pytest.mark.parametrize(("form", "parts"), FORMS)
def test_a_checkpoint_whose_metadata_sets_no_schema_is_of_a_table_without_columns(
    table_path: str, form: str, parts: int
) -> None:
    made = DeltaBuilder(table_path).create_without_columns(features=["v2Checkpoint"])
    made.commit([made.data_file(ROWS)])
    made.checkpoint(form, parts)
    for version in range(made.version + 1):
        (made.log / f"{version:020d}.json").unlink()
    snapshot = open_table(made.path).snapshot()
    assert snapshot.schema.columns == ()
    assert [slice_.rows for slice_ in snapshot.files] == [10]


@pytest.mark.parametrize(("form", "parts"), FORMS)
def test_commits_after_a_checkpoint_are_applied_to_it(builder: DeltaBuilder, form: str, parts: int) -> None:
    builder.checkpoint(form, parts)
    builder.commit(builder.hide("0.parquet", builder.inline_vector([5])))
    builder.commit(
        [builder.data_file(ROWS, "new.parquet", {"p": ""}), builder.remove("p=a%20b%25/0.parquet")]
    )
    expected = described(open_table(builder.path).snapshot())
    for version in range(5):
        (builder.log / f"{version:020d}.json").unlink()
    snapshot = open_table(builder.path).snapshot()
    assert described(snapshot) == expected
    assert snapshot.files.paths.to_pylist() == [
        "0.parquet",
        "new.parquet",
        "p=a b%/1.parquet",
        "p=a b%/2.parquet",
    ]
    assert snapshot.files.rows.to_pylist() == [10, 10, 10, 10]
    assert snapshot.files.with_hidden.tolist() == [0]
    assert snapshot.files.partition_texts("p").to_pylist() == [None, "", "a b%", "a b%"]


def test_a_snapshot_extended_from_a_kept_one_is_the_one_built_anew(builder: DeltaBuilder) -> None:
    builder.checkpoint()
    table = open_table(builder.path)
    before = described(table.snapshot())
    builder.commit(builder.hide("0.parquet", None))
    builder.commit([builder.data_file(ROWS, f"n{i}.parquet", {"p": "x"}) for i in range(3)])
    assert described(table.snapshot()) == described(open_table(builder.path).snapshot())
    assert described(table.snapshot(4)) == before


def test_row_counts_come_from_parsed_statistics_where_there_is_no_text(builder: DeltaBuilder) -> None:
    builder.checkpoint(stats_as_struct=True)
    files = open_table(builder.path).snapshot().files
    assert files.rows.to_pylist() == [10, 10, 10, 10]
    assert files[0].rows == 10
    assert files[0].stats is None


@pytest.mark.supports("Log", "incomplete multi-part log checkpoint", "exact", note="passed over")
def test_an_incomplete_multi_part_checkpoint_does_not_count(builder: DeltaBuilder) -> None:
    expected = described(open_table(builder.path).snapshot())
    builder.checkpoint("multipart", 3)[1].unlink()
    assert described(open_table(builder.path).snapshot()) == expected


@pytest.mark.supports("Log", "several log checkpoints of one version", "exact")
def test_several_checkpoints_of_one_version_are_no_conflict(builder: DeltaBuilder) -> None:
    expected = described(open_table(builder.path).snapshot())
    for form, parts in FORMS:
        builder.checkpoint(form, parts)
    assert described(open_table(builder.path).snapshot()) == expected


@pytest.mark.parametrize("hint", ["", "{", '{"version":3}', '{"version":99,"size":1}'])
def test_a_stale_or_corrupt_last_checkpoint_hint_changes_nothing(builder: DeltaBuilder, hint: str) -> None:
    expected = described(open_table(builder.path).snapshot())
    builder.checkpoint()
    (builder.log / "_last_checkpoint").write_text(hint)
    assert described(open_table(builder.path).snapshot()) == expected


@pytest.mark.supports("Log", "damaged log checkpoint", "exact", note="while the commits are there")
@pytest.mark.parametrize(("form", "parts"), FORMS)
def test_a_damaged_checkpoint_is_passed_over_while_the_commits_are_there(
    builder: DeltaBuilder, form: str, parts: int
) -> None:
    expected = described(open_table(builder.path).snapshot())
    for file in builder.checkpoint(form, parts):
        file.write_bytes(file.read_bytes()[:-9])
    assert described(open_table(builder.path).snapshot()) == expected
    (builder.log / f"{0:020d}.json").unlink()
    with pytest.raises(MalformedLogError, match="checkpoint"):
        open_table(builder.path).snapshot()


@pytest.mark.supports("Log", "missing sidecar, the commits cleaned up", "refused")
def test_a_missing_sidecar_is_named(builder: DeltaBuilder) -> None:
    builder.checkpoint("v2-json", 2)
    next((builder.log / "_sidecars").iterdir()).unlink()
    for version in range(builder.version):
        (builder.log / f"{version:020d}.json").unlink()
    with pytest.raises(MalformedLogError, match=r"sidecar .* is missing"):
        open_table(builder.path).snapshot()


@pytest.mark.parametrize("form", ["v2-json", "v2-parquet"])
def test_a_checkpoint_that_is_cleaned_up_between_manifest_and_sidecar_gives_way_to_the_next(
    builder: DeltaBuilder, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = [*builder.checkpoint(form, 2), *(builder.log / "_sidecars").iterdir()]
    for version in range(builder.version + 1):
        (builder.log / f"{version:020d}.json").unlink()
    builder.commit([builder.data_file(ROWS, "n.parquet", {"p": "x"})])
    table = open_table(builder.path)
    opening = LocalStorage.open

    def cleaning_up(storage: LocalStorage, rel: str, end: int = 0) -> pa.NativeFile:
        if old and "_sidecars" in rel:
            builder.checkpoint(form, 2)
            while old:
                old.pop().unlink()
        return opening(storage, rel, end)

    monkeypatch.setattr(LocalStorage, "open", cleaning_up)
    assert len(list(table.snapshot().files)) == 5
    assert not old


@pytest.mark.supports("Log", "a version whose log has been cleaned up", "refused")
def test_versions_before_the_oldest_checkpoint_are_gone_by_name(builder: DeltaBuilder) -> None:
    builder.checkpoint()
    builder.commit([builder.data_file(ROWS, "n.parquet", {"p": "x"})])
    for version in range(3):
        (builder.log / f"{version:020d}.json").unlink()
    table = open_table(builder.path)
    assert table.earliest() == 4
    with pytest.raises(VersionNotFoundError, match="readable: 4 to 5"):
        table.snapshot(1)
    with pytest.raises((CommitGapError, VersionNotFoundError)):
        table.snapshot(3)


def test_a_log_without_any_base_is_a_gap(builder: DeltaBuilder) -> None:
    (builder.log / f"{0:020d}.json").unlink()
    table = open_table(builder.path)
    with pytest.raises(CommitGapError, match="commit 0 is missing"):
        table.snapshot()
    with pytest.raises(CommitGapError):
        table.earliest()


def test_statistics_are_read_even_after_the_checkpoint_is_cleaned_up(builder: DeltaBuilder) -> None:
    (file,) = builder.checkpoint()
    for version in range(builder.version):
        (builder.log / f"{version:020d}.json").unlink()
    files = open_table(builder.path).snapshot().files
    file.unlink()
    assert files.rows.to_pylist() == [10, 10, 10, 10]


def test_one_path_twice_in_a_checkpoint_is_malformed(builder: DeltaBuilder) -> None:
    builder.live["./0.parquet"] = builder.live["0.parquet"]
    builder.checkpoint()
    for version in range(builder.version):
        (builder.log / f"{version:020d}.json").unlink()
    with pytest.raises(MalformedLogError, match=r"'0\.parquet' is live twice"):
        open_table(builder.path).snapshot()


def test_a_path_that_is_not_utf8_is_refused(builder: DeltaBuilder) -> None:
    (path,) = builder.checkpoint()
    for commit in builder.log.glob("*.json"):
        commit.unlink()
    table = pq.ParquetFile(path).read()
    pq.write_table(table, path, compression="none", use_dictionary=False)
    assert len(open_table(builder.path).snapshot().files)
    name = next(iter(builder.live)).encode()
    data = path.read_bytes()
    at = data.index(name)
    path.write_bytes(data[:at] + b"\xff" + data[at + 1 :])
    with pytest.raises(MalformedLogError, match=r"(?i)utf-?8"):
        open_table(builder.path).snapshot()


def test_a_size_of_another_type_than_a_whole_number_is_refused(builder: DeltaBuilder) -> None:
    (path,) = builder.checkpoint()
    for commit in builder.log.glob("*.json"):
        commit.unlink()
    table = pq.ParquetFile(path).read()
    add = table["add"].combine_chunks()
    fields = [
        f.with_type(pa.decimal128(21, 2)) if f.name == "size" else f for f in table.schema.field("add").type
    ]
    columns = [c.cast(f.type) for c, f in zip(add.flatten(), fields, strict=True)]
    at = table.schema.get_field_index("add")
    altered = pa.StructArray.from_arrays(columns, fields=fields, mask=add.is_null())
    pq.write_table(table.set_column(at, "add", altered), path)
    with pytest.raises(MalformedLogError, match=r"size is of type decimal128\(21, 2\)"):
        open_table(builder.path).snapshot()
