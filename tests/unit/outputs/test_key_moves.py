"""What became of the rows of keys since an older version: the same, moved, new or gone."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.tables import index_of
from tailbit.cli.main import cli
from tailbit.errors import VersionNotFoundError


def people(ids: list[int], shop: str) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "shop": [shop] * len(ids)})


@pytest.fixture
def moved(tmp_path: Path) -> str:
    """Ids in two shops: 1 stays, 2 is deleted, 3 moves to the other shop, 4 is put back; 5 is new."""
    path = str(tmp_path / "people")
    for ids, shop in (([1], "a"), ([2], "a"), ([3], "b"), ([4], "b")):
        write_deltalake(path, people(ids, shop), mode="append", partition_by=["shop"])
    index_of(path, ["id"])
    DeltaTable(path).delete("id > 1")
    write_deltalake(path, people([3, 4, 5, 5], "a"), mode="append")
    return path


def test_a_row_of_a_key_is_the_same_moved_new_or_gone(moved: str) -> None:
    table = tailbit.open(moved)
    located = table.locate([1, 2, 3, 4, 5, 6], "id", since=3)
    told = list(zip(located["id"].to_pylist(), located["change"].to_pylist(), strict=True))
    assert told == [(1, "same"), (2, "gone"), (3, "moved"), (4, "moved"), (5, "new"), (5, "new"), (6, None)]
    assert located.drop_columns("change") == table.locate([1, 2, 3, 4, 5, 6], "id")
    assert table.locate([], "id", since=3).num_rows == 0
    assert set(table.locate([1, 3], "id", since=table.where().version)["change"].to_pylist()) == {"same"}
    keys = pa.table({"id": [3], "shop": ["a"]})
    assert table.locate(keys, since=3)["change"].to_pylist() == ["new"]
    with pytest.raises(VersionNotFoundError):
        table.locate([1], "id", since=99)


@pytest.mark.parametrize("seed", range(4))
def test_changes_are_those_that_two_look_ups_show(tmp_path: Path, seed: int) -> None:
    rng, path = random.Random(seed), str(tmp_path / "t")
    for number in range(6):
        rows = people([rng.randrange(8) for _ in range(4)], f"s{rng.randrange(2)}")
        write_deltalake(path, rows, mode="append", partition_by=["shop"])
        if rng.random() < 0.6:
            DeltaTable(path).delete(f"id = {rng.randrange(8)}")
        if number == 2:
            index_of(path, ["id"])
    table, since = tailbit.open(path), rng.randrange(5)
    ids = rng.sample(range(10), 10)
    before = {(row["id"], row["path"], row["position"]) for row in table.locate(ids, "id", since).to_pylist()}
    had = {id_ for id_, path, _ in before if path is not None}
    for row in table.locate(ids, "id", since=since).to_pylist():
        if row["path"] is None:
            expected = "gone" if row["id"] in had else None
        elif (row["id"], row["path"], row["position"]) in before:
            expected = "same"
        else:
            expected = "moved" if row["id"] in had else "new"
        assert row["change"] == expected, row


def test_a_key_column_named_change_keeps_its_name(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"change": ["x"]}))
    located = tailbit.open(path).locate(["x"], "change", since=0)
    assert located.column_names == ["change", "path", "position", "_change"]
    assert located["_change"].to_pylist() == ["same"]


def test_the_command_tells_what_became_of_rows(moved: str) -> None:
    result = CliRunner().invoke(cli, ["locate", moved, "--on", "id", "--since", "3", "1", "2", "3", "5"])
    assert result.exit_code == 0
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    assert [(line[0], line[-1]) for line in lines] == [
        ("id", "change"),
        *(("1", "same"), ("2", "gone"), ("3", "moved"), ("5", "new"), ("5", "new")),
    ]
    assert "4 keys: 1 without a row, 1 with several; since version 3 1 moved, 2 new, 1 gone" in result.stderr
