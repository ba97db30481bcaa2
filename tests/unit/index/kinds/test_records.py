from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from support.index_records import ledger, record, settings
from tailbit.errors import CorruptIndexError, IndexFormatError
from tailbit.index.kinds import records as kinds
from tailbit.index.kinds.files.recorded import RecordedFiles
from tailbit.tables.storage import Storage


def test_a_files_record_comes_back_from_arrow_as_it_was() -> None:
    full = record(
        "a", space="s", base=5, columns=("c", "d"), partition={"p": None, "q": ""}, left=7, error="no"
    )
    bare = record("b")
    assert kinds.files_from_arrow(kinds.files_to_arrow([full, bare])) == [full, bare]


def test_a_ledger_record_comes_back_from_arrow_as_it_was() -> None:
    for wanted in (ledger(3), ledger(3, "building"), ledger(3, fingerprint=None)):
        assert kinds.ledger_from_arrow(kinds.ledger_to_arrow(wanted)) == wanted


def test_of_several_ledger_records_the_newest_counts() -> None:
    rows = pa.concat_tables([kinds.ledger_to_arrow(ledger(v, seq=v)) for v in (3, 9, 5)])
    found = kinds.ledger_from_arrow(rows)
    assert found is not None
    assert found.version == 9


def test_settings_come_back_from_arrow_as_they_were() -> None:
    wanted = settings("c", "d")
    assert kinds.settings_from_arrow(kinds.settings_to_arrow(wanted, 4), "x") == (wanted, 4)


def test_settings_of_another_format_are_refused_by_number() -> None:
    rows = kinds.settings_to_arrow(replace(settings(), format=2), 0)
    with pytest.raises(IndexFormatError, match="format 2; this tailbit reads 1"):
        kinds.settings_from_arrow(rows, "x")


def test_the_newest_record_per_path_wins_whatever_the_order_of_rows() -> None:
    rows = [
        record("a", seq=2, size=2),
        record("b", seq=1),
        record("a", seq=3, size=3),
        record("a", seq=1, size=1),
    ]
    found = kinds.files_from_arrow(kinds.newest_per_path(kinds.files_to_arrow(rows)))
    assert {(r.path, r.seq) for r in found} == {("a", 3), ("b", 1)}


def test_one_column_name_has_one_type_in_all_kinds() -> None:
    types: dict[str, pa.DataType] = {}
    for schema in kinds.SCHEMAS.values():
        for field in schema:
            assert types.setdefault(field.name, field.type) == field.type


def test_records_written_to_a_file_are_read_back(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    rows = kinds.files_to_arrow([record("a"), record("b")])
    file = kinds.write_records(storage, rows, kinds.FILES)
    assert kinds.kind_of(file.path) == kinds.FILES
    assert kinds.read_records(storage, file.path) == rows


@pytest.mark.parametrize("damage", ["truncated", "altered", "gone", "not Parquet"])
def test_a_damaged_record_file_is_a_corrupt_index_with_the_name_of_the_file(
    tmp_path: Path, damage: str
) -> None:
    storage = Storage(str(tmp_path))
    file = kinds.write_records(storage, kinds.files_to_arrow([record("a" * 50)]), kinds.FILES)
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
        kinds.read_records(storage, file.path)
    assert file.path in str(caught.value)


def test_recorded_files_say_what_was_recorded_last() -> None:
    files = RecordedFiles(kinds.files_to_arrow([record("a", seq=1), record("b", seq=1)]))
    files.extend([record("a", seq=2, size=5), record("c", seq=2)])
    assert len(files) == 3
    assert {p: files.get(p).seq for p in "abc"} == {"a": 2, "b": 1, "c": 2}  # type: ignore[union-attr]
    assert files.get("d") is None
    assert dict(zip(files.table()["path"].to_pylist(), files.table()["seq"].to_pylist(), strict=True)) == {
        "a": 2,
        "b": 1,
        "c": 2,
    }


def test_rows_older_than_what_is_recorded_change_nothing() -> None:
    files = RecordedFiles(kinds.files_to_arrow([record("a", seq=5)]))
    files.extend_rows(kinds.files_to_arrow([record("a", seq=4, size=1), record("b", seq=2)]))
    assert [files.get(p).seq for p in "ab"] == [5, 2]  # type: ignore[union-attr]


def test_claims_follow_the_records_whether_folded_or_not() -> None:
    files = RecordedFiles(kinds.files_to_arrow([record(str(i), space="s", base=10 * i) for i in range(5)]))
    assert [r.path for r in files.claims("s")] == ["0", "1", "2", "3", "4"]
    files.extend([record("1", space="t", base=0, seq=1), record("3", seq=1)])
    for _ in range(2):
        assert [r.path for r in files.claims("s")] == ["0", "2", "4"]
        assert [r.path for r in files.claims("t")] == ["1"]
        files.table()
    files.extend_rows(
        kinds.files_to_arrow([record(f"x{i}", space="t", base=10 + i, seq=2) for i in range(300)])
    )
    assert len(files.claims("t")) == 301
