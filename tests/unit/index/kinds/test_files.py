from __future__ import annotations

import random

import pytest

from support.index_records import record
from tailbit.index.kinds.files import RecordedFiles, files_to_arrow
from tailbit.index.model import FileRecord


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
    assert files.claim_counts() == {"s": 1}
    files.extend([record("a", space="t", base=0, seq=1)])
    assert files.claim_counts() == {"t": 1}
    assert files.claims("s") == []


@pytest.mark.by_thirds
@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_recorded_in_whatever_way_the_newest_record_of_each_path_is_found(seed: int) -> None:
    rng = random.Random(seed)
    files, known = RecordedFiles(files_to_arrow([])), dict[str, FileRecord]()
    for seq in range(30):
        count = rng.choice((1, 3, 40, 300))
        paths = rng.sample([str(number) for number in range(900)], count)
        records = [
            record(
                path,
                space=rng.choice((None, "s", "t", f"u{seq}")),
                base=int(path),
                rows=1 + int(path) % 7,
                seq=seq,
            )
            for path in paths
        ]
        known |= {each.path: each for each in records}
        if rng.random() < 0.5:
            files.extend(records)
        else:
            files.extend_rows(files_to_arrow(records))
        if rng.random() < 0.3:
            files.table()
        check_claims(files, known)
    assert len(files) == len(known)
    assert {path: files.get(path) for path in map(str, range(900))} == dict.fromkeys(
        map(str, range(900))
    ) | known


def check_claims(files: RecordedFiles, known: dict[str, FileRecord]) -> None:
    claiming: dict[str, list[FileRecord]] = {}
    for each in sorted(known.values(), key=lambda each: each.base or 0):
        if each.space is not None:
            claiming.setdefault(each.space, []).append(each)
    assert files.claim_counts() == {space: len(claims) for space, claims in claiming.items()}
    for space in (*claiming, "none"):
        claims = claiming.get(space, [])
        assert files.claims(space) == claims
        assert files.claimed_rows(space) == sum(each.rows for each in claims)
