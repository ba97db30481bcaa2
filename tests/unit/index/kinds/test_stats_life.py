"""A definition of column statistics beside a stream: made, kept, verified, repaired, merged and dropped."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

import tailbit
from support.column_stats import column, definition
from support.delta_builder import DeltaBuilder
from support.drive import Drive
from support.tables import flipped_pages, gone, index_files, rewrite
from tailbit.cli.main import cli
from tailbit.index.kinds.column_stats import COLUMN_STATS
from tailbit.index.maintenance.alter import alter
from tailbit.index.model import Definition
from tailbit.index.store.table import MetadataTable

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string()), ("n", pa.struct([("a", pa.int64())]))])


def rows(number: int) -> pa.Table:
    """Ten rows whose values belong to one file alone."""
    numbers = [number * 10 + n for n in range(10)]
    structs = [{"a": -n} for n in numbers]
    return pa.table({"k": numbers, "s": [f"v{n:03}" for n in numbers], "n": structs}, schema=SCHEMA)


class Life:
    """A table of one file a commit, and an index of `s` with column statistics."""

    def __init__(self, folder: Path, made: Definition) -> None:
        self.builder = DeltaBuilder(str(folder / "t")).create(SCHEMA)
        self.path, self.index = self.builder.path, str(folder / "t" / "_tailbit")
        for number in range(3):
            self.append(number)
        Drive(self.path, self.index, ["s"]).drain()
        alter(MetadataTable.open(self.index), [made], [])
        self.drain()

    def append(self, number: int) -> None:
        self.builder.commit([self.builder.data_file(rows(number), f"f{number}.parquet")])

    def drain(self) -> None:
        drive = Drive(self.path, self.index)
        drive.drain()

    @property
    def table(self) -> MetadataTable:
        return MetadataTable.open(self.index)

    def footers(self) -> set[str]:
        return {record.footer for record in self.table.state.recorded.live()}

    def known(self) -> set[str]:
        return set(self.table.state.reader(COLUMN_STATS).row_groups.footers.to_pylist())

    def sound(self) -> bool:
        return bool(tailbit.open(self.path).verify().sound)


@pytest.fixture
def life(tmp_path: Path) -> Life:
    return Life(tmp_path, definition(column("k"), column("n", "long", "a")))


def test_files_that_are_indexed_already_get_statistics_from_their_footers_alone(life: Life) -> None:
    assert life.known() == life.footers()
    assert all("#57a75000" in record.built for record in life.table.state.recorded.live())
    stats = life.table.state.reader(COLUMN_STATS)
    assert [len(stats.cells(name)) for name in ("k", "n.a", "s")] == [1, 1, 0]
    assert len(index_files(life.path, "bitmap_index")) == 1
    assert life.sound()


def test_statistics_of_all_columns_need_no_names(tmp_path: Path) -> None:
    life = Life(tmp_path, definition())
    stats = life.table.state.reader(COLUMN_STATS)
    assert [len(stats.cells(name)) for name in ("k", "n.a", "s", "n")] == [1, 1, 1, 0]
    assert life.sound()


def test_a_file_put_at_the_path_of_another_has_statistics_of_its_own(life: Life) -> None:
    before = life.footers()
    life.builder.commit([life.builder.remove("f1.parquet")])
    life.drain()
    Path(life.path, "f1.parquet").unlink()
    life.builder.commit([life.builder.data_file(rows(7), "f1.parquet")])
    life.drain()
    assert len(life.footers() - before) == 1
    assert life.footers() <= life.known()
    assert life.sound()


def wrong_bounds(table: pa.Table) -> pa.Table:
    at = table.column_names.index("low")
    return table.set_column(at, "low", pa.array([4] * len(table), pa.int64()))


def without_directory(table: pa.Table) -> pa.Table:
    return table.slice(0, 0)


@pytest.mark.parametrize("what", ["missing", "flipped", "wrong", "empty"])
def test_verify_finds_wrong_or_missing_statistics_and_repair_builds_them_again(life: Life, what: str) -> None:
    (file,) = index_files(life.path, "column_stats")
    if what == "missing":
        gone(file)
    elif what == "flipped":
        flipped_pages(file)
    else:
        rewrite(life.path, COLUMN_STATS, wrong_bounds if what == "wrong" else without_directory)
    assert not life.sound()
    assert tailbit.open(life.path).where("k = 15").count() == 1
    repaired = CliRunner().invoke(cli, ["repair", life.path])
    assert repaired.exit_code == 0, repaired.output
    life.drain()
    assert life.known() == life.footers()
    assert life.sound()


def test_a_dropped_definition_leaves_no_file_built_for_it_and_can_be_made_again(life: Life) -> None:
    alter(life.table, [], ["#57a75000"])
    assert not any("#57a75000" in record.built for record in life.table.state.recorded.live())
    alter(life.table, [definition(column("s", "string"), id_="#0000aaaa")], [])
    life.drain()
    assert life.table.state.reader(COLUMN_STATS).cells("s")
    assert life.sound()
