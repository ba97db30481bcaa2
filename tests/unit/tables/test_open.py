"""A table is opened in the format that its log's folder tells; of two, in the one that is asked for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
from support.column_stats import wide_table
from support.hudi import HudiTable, unpack
from tailbit.errors import (
    MalformedLogError,
    NotATableError,
    TwoFormatsError,
    UsageError,
    VersionNotFoundError,
)
from tailbit.tables import open_table
from tailbit.tables.open import folder_of, names_folder
from tailbit.tables.storage import StorageOptions


def both(folder: Path) -> HudiTable:
    """Make a folder that holds a Delta table and a Hudi table."""
    table = unpack("cow_v9_bare", folder)
    wide_table(str(folder / "delta"), 2, 2, 1)
    shutil.copytree(folder / "delta", table.path, dirs_exist_ok=True)
    return table


@pytest.mark.parametrize("name", ["cow_v6_parts", "cow_v8_hive", "cow_v9"])
def test_a_folder_of_hudi_is_opened_as_a_hudi_table(name: str, tmp_path: Path) -> None:
    assert open_table(unpack(name, tmp_path).path).words.kind == "Hudi table"


@pytest.mark.supports_hudi("Tables", "a Delta table in the same folder", "exact", note="say --table-format")
def test_a_folder_of_two_formats_is_refused_until_one_is_named(tmp_path: Path) -> None:
    table = both(tmp_path)
    path = table.path
    with pytest.raises(TwoFormatsError, match=r"_delta_log and \.hoodie: it may be a Delta table or a Hudi"):
        open_table(path)
    for name, kind in (("delta", "Delta table"), ("hudi", "Hudi table")):
        assert open_table(path, StorageOptions.of({"table_format": name})).words.kind == kind
    assert tailbit.open(path, storage_options={"table_format": "hudi"}).count() == len(
        table.rows(table.instants[-1])
    )


@pytest.mark.parametrize("indexed", ["none", "delta", "hudi"])
def test_an_index_tells_the_format_of_a_folder_of_two_while_it_fits(indexed: str, tmp_path: Path) -> None:
    path = unpack("cow_v9_bare", tmp_path).path
    write_deltalake(path, pa.table({"x": [1, 2]}))
    if indexed != "none":
        opened = tailbit.open(path, storage_options={"table_format": indexed})
        opened.create_index("i", [opened.schema.names[-1]])
    if indexed == "delta":
        assert tailbit.open(path).where("x = 1").count() == 1
    else:
        with pytest.raises(TwoFormatsError):
            tailbit.open(path).where("x = 1").count()


def test_a_name_is_that_of_a_folder_with_a_slash_or_where_a_log_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("plain", "delta_table/_delta_log", "hudi_table/.hoodie"):
        (tmp_path / folder).mkdir(parents=True)
    folders = ["delta_table", "hudi_table", "plain/", "s3://bucket/table", "./plain"]
    others = ["plain", "main.people", "delta.`/data/people`", "Hudi.`/data/people`", "nothing"]
    assert [names_folder(name) for name in folders + others] == [True] * 5 + [False] * 5


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ("delta.`/data/people`", "/data/people"),
        ("HUDI.`s3://bucket/a.b`", "s3://bucket/a.b"),
        ("hudi.`/odd``name`", "/odd`name"),
        ("hudi.`/data`people`", None),
        ("hudi.``", None),
        ("hudi.people", None),
        ("parquet.`/data/people`", None),
        ("/data/people", None),
    ],
)
def test_a_folder_may_stand_in_backticks_behind_the_name_of_its_format(text: str, folder: str | None) -> None:
    assert folder_of(text) == folder


def test_a_format_that_is_not_known_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'parquet' is no table format"):
        open_table(str(tmp_path), StorageOptions.of({"table_format": "parquet"}))


def test_a_folder_without_the_format_that_is_asked_for_is_no_table(tmp_path: Path) -> None:
    path = unpack("cow_v9_bare", tmp_path).path
    with pytest.raises(NotATableError, match="no Delta table at"):
        open_table(path, StorageOptions.of({"table_format": "delta"}))


def test_a_hudi_table_without_a_completed_write_is_no_table_yet(tmp_path: Path) -> None:
    path = unpack("cow_v9_bare", tmp_path).path
    shutil.rmtree(Path(path, ".hoodie/timeline"))
    with pytest.raises(NotATableError, match=r"no Hudi table at .*: no write has completed") as empty:
        open_table(path)
    assert empty.value.hint == "Try again when the first write has completed."
    Path(path, ".hoodie/hoodie.properties").write_bytes(b"")
    with pytest.raises(MalformedLogError, match=r"it has no hoodie\.table\.version"):
        open_table(path)
    Path(path, ".hoodie/hoodie.properties").unlink()
    with pytest.raises(NotATableError, match=r"it has no \.hoodie/hoodie\.properties") as empty:
        open_table(path)
    assert empty.value.hint == "Give the folder of a whole table, or restore the file from a backup."


def test_a_requested_time_that_is_given_as_a_number_is_asked_for_as_a_text(tmp_path: Path) -> None:
    table = unpack("cow_v9_bare", tmp_path)
    first = table.readable[0]
    opened = tailbit.open(table.path)
    with pytest.raises(VersionNotFoundError, match=f"is a text, version='{first.requested}'"):
        opened.where(version=int(first.requested))
    assert first.completed is not None
    by_number = opened.where(version=int(first.completed)).count()
    assert by_number == opened.where(version=first.requested).count() == len(table.rows(first))


@pytest.mark.supports_hudi(
    "Histories",
    "instants rolled back, restored away or cleaned",
    "refused",
    note="the error says which",
)
@pytest.mark.parametrize(
    ("name", "instant", "reason"),
    [
        ("cow_v9_rolled_back", "20261126120721310", "the rollback 20261126120724679 took it back"),
        ("cow_v8_restored", "20261126120740514", "the restore 20261126120745496 took it back"),
        ("cow_v6_restored", "20261126120755528", "the restore 20261126120800053 took it back"),
        ("cow_v9_cleaned", "20261126120805699", "the cleaner has deleted files of it"),
        ("cow_v6_archived", "20261126120956005", "the cleaner has deleted files of it"),
        ("cow_v9_cleaned", "20261126120817970", "a clean changes no rows: name the commit before it"),
        ("cow_v9", "20301126120817970", "there is no such instant"),
        ("cow_v9", "yesterday", "there is no such instant"),
    ],
)
def test_an_instant_that_cannot_be_read_is_told_with_the_reason_and_what_can_be(
    name: str, instant: str, reason: str, tmp_path: Path
) -> None:
    table = unpack(name, tmp_path)
    with pytest.raises(VersionNotFoundError, match=f"version {instant} of .*: {reason}") as gone:
        tailbit.open(table.path).where(version=instant)
    oldest, newest = table.readable[0].requested, gone.value.fields["latest"]
    assert f"between {oldest} and {newest}" in gone.value.hint
    assert tailbit.open(table.path).where(version=newest).count() == tailbit.open(table.path).count()
