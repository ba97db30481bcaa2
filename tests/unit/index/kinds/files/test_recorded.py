from __future__ import annotations

from support.index_records import record
from tailbit.index.kinds.files.recorded import RecordedFiles
from tailbit.index.kinds.files.rows import files_to_arrow


def test_recorded_files_say_what_was_recorded_last() -> None:
    files = RecordedFiles(files_to_arrow([record("a", seq=1), record("b", seq=1)]))
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
    files = RecordedFiles(files_to_arrow([record("a", seq=5)]))
    files.extend_rows(files_to_arrow([record("a", seq=4, size=1), record("b", seq=2)]))
    assert [files.get(p).seq for p in "ab"] == [5, 2]  # type: ignore[union-attr]


def test_claims_follow_the_records_whether_folded_or_not() -> None:
    files = RecordedFiles(files_to_arrow([record(str(i), space="s", base=10 * i) for i in range(5)]))
    assert [r.path for r in files.claims("s")] == ["0", "1", "2", "3", "4"]
    files.extend([record("1", space="t", base=0, seq=1), record("3", seq=1)])
    for _ in range(2):
        assert [r.path for r in files.claims("s")] == ["0", "2", "4"]
        assert [r.path for r in files.claims("t")] == ["1"]
        files.table()
    files.extend_rows(files_to_arrow([record(f"x{i}", space="t", base=10 + i, seq=2) for i in range(300)]))
    assert len(files.claims("t")) == 301


def test_a_row_space_that_no_file_claims_any_more_is_forgotten() -> None:
    files = RecordedFiles(files_to_arrow([record("a", space="s", base=0)]))
    assert set(files.by_space) == {"s"}
    files.extend([record("a", space="t", base=0, seq=1)])
    assert set(files.by_space) == {"t"}
    assert files.claims("s") == []
