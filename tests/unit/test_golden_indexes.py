"""Indexes that older releases wrote, one of every format, answer as the values of the rows say."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyroaring import BitMap

import tailbit
from support.built import Built
from support.delta_builder import DeltaBuilder
from support.forked import command
from support.golden import ANSWERS, FILES, GONE, PLAIN, WRITERS, answers, unpack
from support.tables import index_of
from tailbit import IndexedTable
from tailbit.errors import SettingsError
from tailbit.index.kinds.schemas import KINDS
from tailbit.index.kinds.settings import FORMAT, NEWEST_FORMAT, OLDEST_FORMAT
from tailbit.index.maintenance.merge import merge_all
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.query.launch import prepare

READ = [format_ for format_ in WRITERS if format_ >= FORMAT]
SHORTENED = 256
ASKED: dict[str, list[dict[str, Any]]] = json.loads(ANSWERS.read_text(encoding="utf-8"))


@pytest.fixture(params=WRITERS)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[int, IndexedTable]:
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


@pytest.fixture(params=[1, 2])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return unpack(request.param, tmp_path)


def test_status_of_an_older_format_shows_the_columns_and_that_nothing_is_covered(old: str) -> None:
    done = command("status", old, "--json", check=True)
    told = json.loads(done.stdout)
    assert (told["columns"], told["state"], told["covered_version"]) == ([*PLAIN], "of an older format", None)
    assert told["lag"]["files"] == len(tailbit.open(old).where("TRUE").files())
    assert told["lag"]["versions"] == told["head"] + 1
    assert told["lag"]["seconds"] > 0
    assert told["lag"]["bytes"] > 0
    assert "run makes it anew" in told["remedy"]
    assert "damaged" not in done.stdout


@pytest.mark.parametrize("columns", [None, [*PLAIN]])
def test_a_run_makes_an_index_of_an_older_format_anew_with_its_columns_and_says_so(
    old: str, columns: list[str] | None
) -> None:
    told: list[str] = []
    prepared = prepare(old, columns, None, None, "1 second", tell=told.append)
    assert prepared is not None
    assert [column.label for column in prepared.index.state.settings.columns] == [*PLAIN]
    assert len(told) == 1
    assert re.search("format [12]", told[0])
    assert "made anew with its columns" in told[0]
    assert tailbit.open(old).state == "empty"


def test_an_index_of_an_older_format_is_left_alone_where_its_columns_are_not_those_asked_for(
    old: str,
) -> None:
    with pytest.raises(SettingsError):
        prepare(old, ["k"], None, None, "1 second")
    assert tailbit.open(old).state == "of an older format"


def test_a_table_replaced_at_its_place_lags_by_all_that_it_holds(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"v": ["a", "b"]}))
    index_of(path, ["v"])
    (tmp_path / "t" / "_tailbit").rename(tmp_path / "i")
    (tmp_path / "t").rename(tmp_path / "before")
    for _ in range(3):
        write_deltalake(path, pa.table({"v": ["c"]}), mode="append")
    told = json.loads(command("status", path, "--index", tmp_path / "i", "--json", check=True).stdout)
    assert (told["state"], told["covered_version"]) == ("other history", None)
    assert (told["lag"]["versions"], told["lag"]["files"]) == (3, 3)


PAGE = Path(__file__).parents[2] / "docs" / "index-format.md"
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])

Positions = Callable[[str, str, int | str | None], tuple[int, dict[str, BitMap]]]


def code() -> str:
    [found] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return str(found)


@pytest.fixture
def positions() -> Positions:
    names: dict[str, Any] = {"__name__": "reader"}
    exec(compile(code(), str(PAGE), "exec"), names)
    found: Positions = names["positions"]
    return found


def rows(first: int) -> pa.Table:
    keys = range(first, first + 30)
    return pa.table(
        {
            "k": pa.array([k % 4 - 1 for k in keys], pa.int64()),
            "v": [None if k % 7 == 0 else f"v{k % 3}" for k in keys],
        }
    )


@pytest.mark.parametrize("merged", [False, True])
def test_the_reader_in_the_page_finds_what_is_in_the_data(
    tmp_path: Path, positions: Positions, merged: bool
) -> None:
    table = DeltaBuilder(str(tmp_path / "t")).create(SCHEMA, features=["deletionVectors"])
    content = {f"f{at}": rows(at * 30) for at in range(9)}
    built: Built | None = None
    for path, data in content.items():
        table.commit([table.data_file(data, path)])
        built = built or Built(table.path, str(tmp_path / "i"), ["k", "v"])
        built.run()
    assert built is not None
    hidden = [0, 3, 29]
    (vector,) = table.stored_vectors(hidden)
    table.commit(table.hide("f2", vector))
    built.run()
    if merged:
        assert merge_all(MetadataTable.open(built.index)) > 0
    for column, values in (("k", [-1, 0, 2, 9]), ("v", ["v1", "nothing", None])):
        for value in values:
            version, found = positions(built.index, column, value)
            assert version == 10
            assert found == {
                path: BitMap(
                    r
                    for r, v in enumerate(data[column].to_pylist())
                    if v == value and not (path == "f2" and r in hidden)
                )
                for path, data in content.items()
            }


def test_the_reader_in_the_page_has_fifty_lines() -> None:
    lines = [line for line in code().splitlines() if line.strip()]
    assert len(lines) <= 50


def test_the_page_names_every_kind_and_every_column() -> None:
    page = PAGE.read_text()
    for kind in KINDS:
        assert f"`{kind.name}`" in page
        for name in kind.schema.names:
            assert f"`{name}`" in page
    assert f"number {FORMAT}" in page
