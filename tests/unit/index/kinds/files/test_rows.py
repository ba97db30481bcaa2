from __future__ import annotations

from support.index_records import record
from tailbit.index.kinds.files.rows import files_from_arrow, files_to_arrow, newest_per_path


def test_a_files_record_comes_back_from_arrow_as_it_was() -> None:
    full = record(
        "a", space="s", base=5, built=("c", "d"), partition={"p": None, "q": ""}, left=7, error="no"
    )
    bare = record("b")
    assert files_from_arrow(files_to_arrow([full, bare])) == [full, bare]


def test_the_newest_record_per_path_wins_whatever_the_order_of_rows() -> None:
    rows = [
        record("a", seq=2, size=2),
        record("b", seq=1),
        record("a", seq=3, size=3),
        record("a", seq=1, size=1),
    ]
    found = files_from_arrow(newest_per_path(files_to_arrow(rows)))
    assert {(r.path, r.seq) for r in found} == {("a", 3), ("b", 1)}
