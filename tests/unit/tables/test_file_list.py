"""Slices of a file list, many at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.column_stats import wide_table
from tailbit.tables import open_table


@pytest.mark.parametrize("step", [1, 2, 40])
def test_many_files_of_a_list_are_those_that_are_asked_for_one_by_one(tmp_path: Path, step: int) -> None:
    wide_table(str(tmp_path / "t"), 200, 2, 1)
    files = open_table(str(tmp_path / "t")).snapshot().files
    numbers = list(range(199, -1, -step))
    assert files.at(numbers) == [files[number] for number in numbers]
    assert [slice_.path for slice_ in files.at(numbers)] == [f"f{number:06}" for number in numbers]
