"""Bitmaps without value counts: answers are those with counts, whatever happens to the rows."""

from __future__ import annotations

import uuid
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.tables import gone, index_files, index_of, with_vectors
from tailbit.api import IndexedTable
from tailbit.cli.main import cli
from tailbit.errors import StatementError
from tailbit.index.kinds.kind import NAMED_FORMAT
from tailbit.index.kinds.settings import FORMAT

ROWS = 40_000


def rows(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "key": [str(uuid.UUID(bytes=rng.bytes(16))) for _ in range(ROWS)],
            "often": rng.integers(0, 9, ROWS),
        }
    )


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "keys")
    for seed in (1, 2):
        write_deltalake(path, rows(seed), mode="append")
    return path


def few(tmp_path: Path, values: list[str | None]) -> IndexedTable:
    path = str(tmp_path / "few")
    write_deltalake(path, pa.table({"k": values, "n": range(len(values))}))
    return tailbit.open(path)


def counted_ids(table: IndexedTable) -> list[str]:
    index = table._needed()
    ids = [definition.id for definition in index.state.settings.definitions]
    return [id_ for id_ in ids if any(True for _ in index.state.stored_counts(id_))]


def check(table: IndexedTable, column: str) -> None:
    """The values are those of the data as deltalake reads it."""
    values = DeltaTable(table.path).to_pyarrow_table()[column].to_pylist()
    everything = table.where()
    assert everything.facets(column) == Counter(values)
    assert everything.count_distinct(column) == len(set(values) - {None})
    assert sum(everything.top(column, 3).values()) == sum(n for _, n in Counter(values).most_common(3))
    assert table.verify(samples=20).problems == []


def test_a_new_index_of_a_nearly_distinct_column_has_no_counts_and_says_why(path: str) -> None:
    table = tailbit.open(path)
    table.create_index("keys", "key")
    table.create_index("often", "often")
    keys, often = table.describe_index("keys"), table.describe_index("often")
    assert (keys.options, keys.counts_reason) == ({"counts": "off"}, "nearly distinct: 1.00 keys a row")
    assert (often.options, often.counts_reason) == ({}, "")
    assert counted_ids(table) == ["often"]
    assert table.where().count_distinct("key") == 2 * ROWS
    check(table, "often")


def test_columns_of_run_and_of_alter_have_counts_by_the_same_rule(path: str) -> None:
    run = CliRunner().invoke(cli, ["run", path, "--columns", "key", "--once"], catch_exceptions=False)
    assert run.exit_code == 0, run.output
    table = tailbit.open(path)
    assert table.indexes()[0].counts_reason == "nearly distinct: 1.00 keys a row"
    table.alter(add=["often"], drop=["key"])
    table.alter(add=["key"])
    assert {index.name: index.options for index in table.indexes()} == {
        "often": {},
        "key": {"counts": "off"},
    }
    table.repair()
    check(table, "often")


def test_the_option_overrides_the_rule(path: str) -> None:
    table = tailbit.open(path)
    table.create_index("keys", "key", options={"counts": "on"})
    table.create_index("often", "often", options={"counts": "off"})
    assert counted_ids(table) == ["key"]
    assert table.describe_index("keys").options == {"counts": "on"}
    check(table, "often")


def test_counts_is_auto_on_or_off(path: str) -> None:
    with pytest.raises(StatementError, match="auto, on, off"):
        tailbit.open(path).create_index("keys", "key", options={"counts": "some"})
    assert tailbit.open(path).indexes() == []


def test_a_small_table_is_not_sampled_and_its_values_are_counted(tmp_path: Path) -> None:
    table = few(tmp_path, [f"k{n}" for n in range(50)])
    table.create_index("k", "k")
    assert table.describe_index("k").options == {}
    assert table._needed().state.settings.format == FORMAT


def test_an_older_release_refuses_an_index_without_counts(tmp_path: Path) -> None:
    table = few(tmp_path, ["a", "b"])
    table.create_index("k", "k", options={"counts": "off"})
    assert table._needed().state.settings.format == NAMED_FORMAT


@pytest.mark.parametrize("on", ["k", "lower(k)", "k, n"])
def test_without_counts_rows_come_and_go_and_every_answer_is_right(tmp_path: Path, on: str) -> None:
    table = few(tmp_path, ["a", "A", None, "b", "b"])
    table.create_index("some", on.split(", "), options={"counts": "off"})
    table.create_index("n", "n")
    assert counted_ids(table) == ["n"]
    write_deltalake(table.path, pa.table({"k": ["b", "c"], "n": [7, 8]}), mode="append")
    DeltaTable(table.path).delete("n = 3")
    index_of(table.path)
    check(table, "k")
    check(table, "n")
    assert counted_ids(table) == ["n"]
    assert table.drop_index("some")
    assert table.verify().problems == []


def test_rows_that_become_hidden_are_left_out_of_what_is_not_counted(tmp_path: Path) -> None:
    builder = with_vectors(str(tmp_path / "t"), columns=("k",))
    table = tailbit.open(builder.path)
    table.create_index("some", "v", options={"counts": "off"})
    (vector,) = builder.stored_vectors([1, 3])
    builder.commit(builder.hide("f1.parquet", vector))
    index_of(builder.path)
    visible = [k for k in range(20) if k not in (0, 4, 11, 13)]
    assert table.where().facets("v") == Counter(f"v{k % 3}" for k in visible)
    assert table.where().facets("k") == Counter(visible)
    assert table.verify().problems == []


def test_value_counts_that_are_lost_are_counted_again_without_those_that_are_off(tmp_path: Path) -> None:
    table = few(tmp_path, ["a", None, "b"])
    table.create_index("n", "n")
    table.create_index("some", "k", options={"counts": "off"})
    for file in index_files(table.path, "value_counts"):
        gone(file)
    assert table.repair().problems
    assert counted_ids(table) == ["n"]
    check(table, "k")
    check(table, "n")


def test_values_of_ten_rows_each_in_one_row_group_are_counted(tmp_path: Path) -> None:
    """In any block of it alone, most values are met once."""
    path = str(tmp_path / "one")
    keys = np.random.default_rng(1).integers(0, 60_000, 600_000) * 7919
    write_deltalake(path, pa.table({"k": keys}))
    table = tailbit.open(path)
    table.create_index("k", "k")
    assert table.describe_index("k").options == {}
    assert len(table.where().facets("k")) == len(set(keys.tolist()))
