"""Indexes that older releases wrote, one of every format, answer as the values of the rows say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tailbit
from support.golden import ANSWERS, FILES, GONE, WRITERS, answers, unpack
from tailbit import IndexedTable
from tailbit.index.kinds.schemas import KINDS
from tailbit.index.kinds.settings import FORMAT, NEWEST_FORMAT, OLDEST_FORMAT
from tailbit.index.store.table import MetadataTable

READ = [format_ for format_ in WRITERS if format_ >= FORMAT]
SHORTENED = 256
ASKED: dict[str, list[dict[str, Any]]] = json.loads(ANSWERS.read_text(encoding="utf-8"))


@pytest.fixture(params=WRITERS)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[int, IndexedTable]:
    """A format, and the table whose index is of it."""
    return request.param, tailbit.open(unpack(request.param, tmp_path))


def _positions(table: IndexedTable, condition: str) -> dict[str, list[int]]:
    return {path: rows.tolist() for path, rows in table.where(condition).positions().items()}


def test_there_is_a_golden_index_of_every_format() -> None:
    assert list(WRITERS) == list(range(OLDEST_FORMAT, NEWEST_FORMAT + 1))


def test_the_newest_golden_index_has_files_of_every_kind(tmp_path: Path) -> None:
    index = MetadataTable.open(f"{unpack(NEWEST_FORMAT, tmp_path)}/_tailbit")
    assert [kind.name for kind in KINDS if not index.state.files_of(kind)] == []


def test_what_is_recorded_are_the_answers_of_the_values() -> None:
    assert json.loads(json.dumps(answers())) == ASKED


def test_the_positions_of_a_golden_index_are_those_of_the_values(golden: tuple[int, IndexedTable]) -> None:
    _, table = golden
    found = {asked["where"]: _positions(table, asked["where"]) for asked in ASKED["positions"]}
    assert found == {asked["where"]: asked["rows"] for asked in ASKED["positions"]}


def test_the_facets_of_a_golden_index_are_those_of_the_values(golden: tuple[int, IndexedTable]) -> None:
    _, table = golden
    for asked in ASKED["facets"]:
        counts = table.where(asked["where"]).facets(asked["facets"])
        shown = {str(key) if hasattr(key, "year") else key: count for key, count in counts.items()}
        assert shown == dict(asked["counts"])


@pytest.mark.parametrize("format_", READ)
def test_a_golden_index_serves_what_its_format_knows(format_: int, tmp_path: Path) -> None:
    table = tailbit.open(unpack(format_, tmp_path))
    assert table.state == "complete"
    scanned = {
        asked["where"]: table.where(asked["where"]).files_scanned
        for asked in ASKED["positions"]
        if asked["since"] <= format_
    }
    # Keys of more than 256 bytes are shortened, and a filter finds no row: such rows are read.
    read = [where for where in scanned if len(where) > SHORTENED or where.startswith("word")]
    assert [where for where, files in scanned.items() if files] == read
    assert all(scanned[where] < len(FILES) - 1 for where in read if where.startswith("word"))


@pytest.mark.parametrize("format_", READ)
def test_a_golden_index_is_sound(format_: int, tmp_path: Path) -> None:
    report = tailbit.open(unpack(format_, tmp_path)).verify()
    assert report.sound, report.problems


def test_the_rows_of_a_removed_file_are_in_no_answer() -> None:
    assert [asked["where"] for asked in ASKED["positions"] if GONE in asked["rows"]] == []
