"""What is missing between recorded and wanted state, and how it is cut."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tailbit.index.model import FileRecord
from tailbit.index.write.work import (
    BuildTask,
    Enter,
    FileWork,
    Leave,
    Rehide,
    Replace,
    Repost,
    TaskLimits,
    pack,
    plan_work,
    uncounted_record,
    weight,
)
from tailbit.tables.delta.deletion_vectors import DeletionVector
from tailbit.tables.model import FileSlice

COLUMNS = ("a", "b")
SLICE = FileSlice("f", 1000, 5, 10)
RECORD = FileRecord("f", 1000, 5, 10, "hash", {}, "space", 0, COLUMNS, True, "", 1, 3, None)
DV = DeletionVector("u", "x", 1, 40, 2)


def work(slice_: FileSlice | None, record: FileRecord | None) -> FileWork | None:
    found = plan_work([("f", slice_)], lambda _: record, lambda _: COLUMNS, 1)
    return found[0] if found else None


def test_a_file_recorded_as_wanted_is_no_work() -> None:
    assert work(SLICE, RECORD) is None
    hidden = replace(SLICE, hidden=DV)
    assert work(hidden, replace(RECORD, hidden=DV.id)) is None


def test_a_new_file_is_posted_in_all_columns() -> None:
    assert work(SLICE, None) == Enter(SLICE, COLUMNS)


def test_a_file_that_could_not_be_read_claims_neither_a_row_space_nor_a_place_in_it() -> None:
    task = BuildTask("t", "i", (), (), 1, 4)
    found = uncounted_record(SLICE, task, "it is gone")
    assert (found.space, found.base, found.built, found.counted) == (None, None, (), False)
    assert (found.lineage, found.entered, found.left, found.error) == (1, 4, None, "it is gone")


def test_a_file_that_leaves_is_work_once() -> None:
    assert work(None, RECORD) == Leave(RECORD)
    assert work(None, replace(RECORD, left=7)) is None
    assert work(None, None) is None


def test_a_file_that_comes_back_is_counted_again_and_not_posted_again() -> None:
    left = replace(RECORD, left=7, counted=False)
    assert work(SLICE, left) == Rehide(SLICE, left)


def test_a_file_whose_claim_was_dropped_is_posted_anew() -> None:
    dropped = replace(RECORD, left=7, counted=False, space=None, built=())
    assert work(SLICE, dropped) == Replace(SLICE, dropped, COLUMNS)


def test_other_hidden_rows_are_work_without_posting() -> None:
    hidden = replace(SLICE, hidden=DV)
    assert work(hidden, RECORD) == Rehide(hidden, RECORD)
    shown = replace(RECORD, hidden=DV.id)
    assert work(SLICE, shown) == Rehide(SLICE, shown)


def test_a_column_not_yet_posted_is_the_only_one_posted() -> None:
    part = replace(RECORD, built=("b",))
    assert work(SLICE, part) == Repost(SLICE, part, ("a",))


def test_a_file_of_another_lineage_or_time_is_proven_again() -> None:
    foreign = replace(RECORD, lineage=0)
    assert work(SLICE, foreign) == Rehide(SLICE, foreign)
    for other in (replace(RECORD, mtime=6), replace(RECORD, size=999)):
        assert work(SLICE, other) == Replace(SLICE, other, COLUMNS)


def test_a_file_with_other_partition_values_is_replaced() -> None:
    other = replace(RECORD, partition={"p": "1"})
    assert work(SLICE, other) == Replace(SLICE, other, COLUMNS)


def test_a_file_that_failed_is_tried_again() -> None:
    failed = replace(RECORD, space=None, built=(), counted=False, error="gone")
    assert work(SLICE, failed) == Replace(SLICE, failed, COLUMNS)


def test_changed_hidden_rows_weigh_little_however_large_the_file() -> None:
    large = replace(SLICE, size=1 << 30, hidden=DV)
    assert weight(Rehide(large, replace(RECORD, size=1 << 30))) == 1 << 20
    assert weight(Enter(large, COLUMNS)) == 1 << 30


TEMPLATE = BuildTask("/t", "/i", (), (), 1, 3)
files = st.lists(st.tuples(st.integers(0, 300), st.none() | st.integers(0, 100)), min_size=0, max_size=30)


@given(files, st.integers(1, 4))
def test_every_work_is_in_exactly_one_task_and_no_row_space_overflows(
    sizes: list[tuple[int, int | None]], parallelism: int
) -> None:
    works = [Enter(FileSlice(f"f{n:02d}", size, 0, rows), COLUMNS) for n, (size, rows) in enumerate(sizes)]
    limits = TaskLimits(task_bytes=500, worth_bytes=50, parallelism=parallelism, rows=120)
    tasks = pack(works, TEMPLATE, limits)
    packed = [w for task in tasks for w in task.works]
    assert sorted(packed, key=lambda w: w.path) == works
    for task in tasks:
        slices = [w.target for w in task.works if isinstance(w, Enter)]
        laid = sum(s.size // 8 if s.rows is None else s.rows for s in slices)
        assert laid <= 120 or len(task.works) == 1


def test_tasks_are_as_many_as_there_are_cores_where_it_pays() -> None:
    works = [Enter(FileSlice(f"f{n}", 1 << 20, 0, 10), COLUMNS) for n in range(16)]
    assert len(pack(works, TEMPLATE, TaskLimits(parallelism=4))) == 4
    assert len(pack(works[:2], TEMPLATE, TaskLimits(parallelism=4))) == 1
    assert pack([], TEMPLATE, TaskLimits()) == []


def test_tasks_get_about_equal_bytes() -> None:
    works = [Enter(FileSlice(f"f{n:02d}", (n + 1) << 20, 0, 10), COLUMNS) for n in range(20)]
    weights = [
        sum(weight(w) for w in task.works) for task in pack(works, TEMPLATE, TaskLimits(parallelism=2))
    ]
    assert max(weights) - min(weights) <= 1 << 20
