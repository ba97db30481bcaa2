"""Recorded value counts serve where all that they rest on holds, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.tables import LONG, eight_flights, flipped_pages, half_built, index_files, index_of
from tailbit.answer import Answer
from tailbit.index.keys import key_type_of


def served(answer: Answer, name: str = "carrier") -> dict[bytes | None, int] | None:
    """Key to number of rows, where the recorded counts of an answer serve a column."""
    column = answer._selection.schema.resolve(name)
    assert answer._recorded is not None
    counts = answer._recorded.of(answer._selection, column, key_type_of(column.type))
    return None if counts is None else dict(zip(counts[0].to_pylist(), np.asarray(counts[1]), strict=True))


@pytest.fixture
def path(table_path: str) -> str:
    eight_flights(table_path)
    return table_path


def test_they_serve_every_row_at_the_version_of_the_ledger(path: str) -> None:
    assert served(tailbit.open(path).where()) == {None: 1, b"AA": 2, b"DL": 1, b"UA": 4}
    assert served(tailbit.open(path).where("1 = 1")) is not None


def test_they_do_not_serve_while_the_first_snapshot_is_being_indexed(table_path: str) -> None:
    for carrier in ("UA", "DL"):
        write_deltalake(table_path, pa.table({"carrier": [carrier]}), mode="append")
    drive = half_built(table_path, ["carrier"])
    assert served(tailbit.open(table_path).where()) is None
    drive.drain()
    assert served(tailbit.open(table_path).where()) == {b"UA": 1, b"DL": 1}


def test_an_answer_bound_before_the_index_moved_on_is_not_served_what_came_after(path: str) -> None:
    opened = tailbit.open(path)
    before = opened.where()
    DeltaTable(path).delete("flight = 1")
    index_of(path)
    assert served(opened.where()) == {None: 1, b"AA": 2, b"DL": 1, b"UA": 3}
    assert served(before) is None
    assert before.facets("carrier") == {"UA": 4, "AA": 2, None: 1, "DL": 1}


def test_they_do_not_serve_values_that_keys_hold_in_part(table_path: str) -> None:
    write_deltalake(table_path, pa.table({"v": ["a", LONG]}))
    index_of(table_path, ["v"])
    assert served(tailbit.open(table_path).where(), "v") is None


def test_they_do_not_serve_partition_values_whose_zone_is_not_that_of_the_keys(table_path: str) -> None:
    rows = pa.table({"k": [1], "at": pa.array([0], pa.timestamp("us", "UTC"))})
    write_deltalake(table_path, rows, partition_by=["at"])
    index_of(table_path, ["at"])
    opened = tailbit.open(table_path)
    assert served(opened.where(), "at") is not None
    assert served(opened.where(partition_zone="Europe/Paris"), "at") is None


def test_damaged_counts_are_noted_and_do_not_serve(path: str) -> None:
    (file,) = index_files(path, "value_counts")
    flipped_pages(file)
    answer = tailbit.open(path).where()
    assert served(answer) is None
    assert [Path(damage.fields["file"]).name for damage in answer.damaged] == [file.name]
    assert answer.facets("carrier") == {"UA": 4, "AA": 2, None: 1, "DL": 1}
    assert len(answer.damaged) == 1


def test_an_index_of_another_table_has_none(path: str, tmp_path: Path) -> None:
    other = str(tmp_path / "other")
    write_deltalake(other, pa.table({"carrier": ["UA"]}))
    assert tailbit.open(other, index=f"{path}/_tailbit").where()._recorded is None
    assert tailbit.open(other).where()._recorded is None
