"""The worked example of the module: eight files judged by their log alone."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tailbit.index.predicate import truth
from tailbit.index.predicate.pruning import FileTruths, first_ruled_out
from tailbit.index.sql.bind import bind
from tailbit.tables.delta.schema import parse_schema
from tailbit.tables.delta.statistics import DeltaStatistics
from tailbit.tables.model import Column, FileSlice

FIELDS = [
    {"name": n, "type": t, "nullable": True, "metadata": {}}
    for n, t in [("region", "string"), ("x", "integer")]
]
SCHEMA = parse_schema(json.dumps({"type": "struct", "fields": FIELDS}), ("region",), {}, "test")
FILES = [
    ("EU", (0, 5)),
    ("EU", (11, 20)),
    ("EU", (5, 15)),
    (None, (0, 20)),
    ("US", (0, 5)),
    ("US", (11, 20)),
    ("EU", None),
    ("US", None),
]


def slice_of(region: str | None, bounds: tuple[int, int] | None) -> FileSlice:
    stats = None
    if bounds:
        low, high = bounds
        text = {"numRecords": 9, "minValues": {"x": low}, "maxValues": {"x": high}, "nullCount": {"x": 0}}
        stats = DeltaStatistics(json.dumps(text))
    return FileSlice("f", 1, 0, 9, {"region": region}, stats=stats)


def all_files() -> list[FileSlice]:
    return [slice_of(*file) for file in FILES]


@pytest.mark.parametrize(
    ("predicate", "all_rows", "no_row", "can_match"),
    [
        ("region = 'EU' AND x > 10", [], [3, 4, 5, 7], [1, 2, 6]),
        ("region = 'EU' OR x > 10", [0, 1, 2, 6], [], [0, 1, 2, 3, 5, 6, 7]),
    ],
)
def test_the_eight_files_of_the_docstring_are_judged_as_it_says(
    predicate: str, all_rows: list[int], no_row: list[int], can_match: list[int]
) -> None:
    truths = FileTruths(bind(predicate, SCHEMA), all_files())
    assert np.flatnonzero(truths.all_rows).tolist() == all_rows
    assert np.flatnonzero(truths.no_row).tolist() == no_row
    assert np.flatnonzero(truths.can_match).tolist() == can_match


def test_the_first_condition_that_the_log_rules_out_is_found_for_all_files_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[str] = []
    bounds = FileSlice.bounds

    def counted(slice_: FileSlice, column: Column) -> object:
        read.append(column.id)
        return bounds(slice_, column)

    monkeypatch.setattr(FileSlice, "bounds", counted)
    parts = [bind(text, SCHEMA) for text in ("x > 10", "region = 'EU'", "x < 15", "x <> 7 OR region = 'EU'")]
    assert first_ruled_out(parts, all_files()) == [
        (0, False), None, None, (1, True), (0, False), (1, True), None, (1, True),
    ]  # fmt: skip
    assert len(read) == len(FILES)
    read.clear()
    found = first_ruled_out([parts[1], parts[0]], all_files())
    assert found == [(1, False), None, None, (0, True), (0, True), (0, True), None, (0, True)]
    assert len(read) == 4
    assert first_ruled_out(parts, []) == []


def test_the_texts_of_a_partition_column_are_parsed_once_for_all_conditions_on_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed: list[str | None] = []
    before = truth.partition_array

    def counted(column: Column, text: str | None, n: int) -> object:
        parsed.append(text)
        return before(column, text, n)

    monkeypatch.setattr(truth, "partition_array", counted)
    text = " OR ".join(f"(region = 'R{n}' AND x = {n})" for n in range(100))
    truths = FileTruths(bind(f"{text} OR (upper(region) = 'US' AND x = 3)", SCHEMA), all_files())
    assert np.flatnonzero(truths.can_match).tolist() == [4, 7]
    assert sorted(parsed, key=str) == ["EU", None, "US"]
