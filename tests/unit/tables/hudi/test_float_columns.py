"""A float that has become a double is read by its text, and files are posted anew where that matters."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa

import tailbit
from support.drive import Drive
from support.hudi_builder import HudiBuilder
from tailbit.tables.hudi.schema import float_mark
from tailbit.tables.open import open_table


def rates(type_: pa.DataType) -> pa.Table:
    return pa.table({"rate": pa.array([0.1, 0.5], type_)})


def test_an_index_of_a_float_that_became_a_double_is_right_about_files_that_kept_it(tmp_path: Path) -> None:
    builder = HudiBuilder(str(tmp_path / "table"), 9, random.Random(1))
    for type_ in (pa.float32(), pa.float64()):
        requested = builder.timeline.request()
        file, _ = builder.data_file(rates(type_), requested, builder.new_group(), "")
        builder.commit(requested, [file], rates(type_).schema, "INSERT")
        Drive(tmp_path / "table", tmp_path / "index", ["rate"]).drain()
        opened = tailbit.open(str(tmp_path / "table"), tmp_path / "index")
        assert opened.verify().sound
    answer = opened.where("rate = 0.1D")
    assert (answer.count(), answer.files_scanned) == (2, 0)
    assert opened.where().facets("rate") == {0.1: 2, 0.5: 2}


def test_only_columns_of_floats_mark_files() -> None:
    assert float_mark('{"type": "record", "fields": [{"name": "a", "type": ["null", "double"]}]}') == 0
    nested = '{"fields": [{"name": "a", "type": {"type": "array", "items": ["null", "float"]}}]}'
    other = nested.replace('"a"', '"b"')
    assert len({float_mark(nested), float_mark(other), 0}) == 3
    assert float_mark('"float" is no schema') == 0


def test_files_are_told_anew_only_where_the_float_columns_change(tmp_path: Path) -> None:
    builder = HudiBuilder(str(tmp_path), 9, random.Random(1))
    for type_ in (pa.float32(), pa.float32(), pa.float64(), pa.float64()):
        requested = builder.timeline.request()
        file, _ = builder.data_file(rates(type_), requested, builder.new_group(), "")
        builder.commit(requested, [file], rates(type_).schema, "INSERT")
    table = open_table(str(tmp_path))
    versions = table.versions(0, table.head())
    told = [len(table.changes(version, version).slices) for version in versions]
    assert told == [1, 1, 3, 1]
    assert len({slice_.mtime for slice_ in table.snapshot().files}) == 1
