"""Columns that Hudi has promoted to another type: files of the old type are read as it reads them."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import tailbit
from support.drive import Drive
from support.hudi_builder import HudiBuilder
from tailbit.index.maintenance.alter import change_definitions
from tailbit.index.model import DEFERRED
from tailbit.tables.hudi.schema import reading_mark
from tailbit.tables.open import open_table


def rates(type_: pa.DataType) -> pa.Table:
    return pa.table({"rate": pa.array([0.1, 0.5], type_)})


def commit_rates(builder: HudiBuilder, type_: pa.DataType) -> None:
    """Commit a file of its own with rates of a type."""
    requested = builder.timeline.request()
    file, _ = builder.data_file(rates(type_), requested, builder.new_group(), "")
    builder.commit(requested, [file], rates(type_).schema, "INSERT")


INTS, BEYOND_FLOAT = [7, 16_777_217, None], [7.0, 16_777_216.0, None]
LONGS, BEYOND_DOUBLE = [7, 2**53 + 1, None], [7.0, 2.0**53, None]
FLOATS, DOUBLES = [0.1, 1e-10, None], [0.1, 1e7, None]
PROMOTIONS = {
    "int to bigint": (pa.int32(), INTS, pa.int64(), INTS),
    "int to float": (pa.int32(), INTS, pa.float32(), BEYOND_FLOAT),
    "int to double": (pa.int32(), INTS, pa.float64(), [7.0, 16_777_217.0, None]),
    "int to string": (pa.int32(), INTS, pa.string(), ["7", "16777217", None]),
    "bigint to float": (pa.int64(), LONGS, pa.float32(), BEYOND_DOUBLE),
    "bigint to double": (pa.int64(), LONGS, pa.float64(), BEYOND_DOUBLE),
    "bigint to string": (pa.int64(), LONGS, pa.string(), ["7", "9007199254740993", None]),
    "float to double": (pa.float32(), FLOATS, pa.float64(), FLOATS),
    "float to string": (pa.float32(), FLOATS, pa.string(), ["0.1", "1.0E-10", None]),
    "double to string": (pa.float64(), DOUBLES, pa.string(), ["0.1", "1.0E7", None]),
    "binary to string": (pa.binary(), [b"a", b"\xc3\xa9", None], pa.string(), ["a", "é", None]),
    "string to binary": (pa.string(), ["a", "é", None], pa.binary(), [b"a", b"\xc3\xa9", None]),
}


def asked(value: object) -> str:
    """Return the condition that column v has a value."""
    if value is None:
        return "v IS NULL"
    if isinstance(value, bytes):
        return f"v = X'{value.hex()}'"
    return f"v = '{value}'" if isinstance(value, str) else f"v = {value!r}" + "D" * isinstance(value, float)


@pytest.mark.parametrize("promotion", PROMOTIONS)
def test_an_index_that_followed_a_promotion_answers_as_the_promoted_values_are(
    tmp_path: Path, promotion: str
) -> None:
    old, stored, new, promoted = PROMOTIONS[promotion]
    builder, groups = HudiBuilder(str(tmp_path / "table"), 9, random.Random(1)), ["g1-0", "g2-0"]
    before, after = pa.table({"v": pa.array(stored, old)}), pa.table({"v": pa.array(promoted, new)})
    for rows, written in ((before, groups), (after, groups[:1])):
        requested = builder.timeline.request()
        files = [builder.data_file(rows, requested, group, "")[0] for group in written]
        builder.commit(requested, files, rows.schema, "UPSERT")
        lagging = tailbit.open(str(tmp_path / "table"), tmp_path / "index") if rows is after else None
        for opened in (lagging, _followed(tmp_path)):
            if opened is not None:
                values = rows["v"].to_pylist()
                assert opened.where().facets("v") == dict.fromkeys(values, 2)
                for value in values:
                    assert opened.where(asked(value)).count() == 2, value
                assert opened.where("v IS NOT NULL").read()["v"].to_pylist() == 2 * values[:2]
    followed = _followed(tmp_path)
    assert followed.verify().sound
    assert followed.where(asked(promoted[1])).files_scanned == 0


@pytest.mark.parametrize(
    "promotion", ["int to bigint", "int to double", "float to double", "float to string"]
)
def test_an_index_of_arrays_that_followed_a_promotion_of_their_elements_is_right(
    tmp_path: Path, promotion: str
) -> None:
    old, stored, new, promoted = PROMOTIONS[promotion]
    builder, groups = HudiBuilder(str(tmp_path / "table"), 9, random.Random(1)), ["g1-0", "g2-0"]
    for values, type_, written in ((stored, old, groups), (promoted, new, groups[:1])):
        rows = pa.table({"v": pa.array([[value] for value in values], pa.list_(type_))})
        requested = builder.timeline.request()
        files = [builder.data_file(rows, requested, group, "")[0] for group in written]
        builder.commit(requested, files, rows.schema, "UPSERT")
        opened = _followed(tmp_path)
        assert opened.verify().sound
    for value in promoted[:2]:
        answer = opened.where(asked(value).replace("v =", "array_contains(v,") + ")")
        assert (answer.count(), answer.files_scanned) == (2, 0), value
    assert opened.where().read()["v"].to_pylist() == 2 * [[value] for value in promoted]


def _followed(folder: Path) -> tailbit.IndexedTable:
    Drive(folder / "table", folder / "index", ["v"]).drain()
    return tailbit.open(str(folder / "table"), folder / "index")


def test_bounds_of_numbers_are_none_of_the_texts_that_they_have_become(tmp_path: Path) -> None:
    builder = HudiBuilder(str(tmp_path), 9, random.Random(1))
    for values, type_ in (([1, 9, 20], pa.int32()), (["x"], pa.string())):
        rows, requested = pa.table({"v": pa.array(values, type_)}), builder.timeline.request()
        file, _ = builder.data_file(rows, requested, builder.new_group(), "")
        builder.commit(requested, [file], rows.schema, "INSERT")
    assert tailbit.open(str(tmp_path)).where("v = '9'").count() == 1


def test_an_index_of_a_float_that_became_a_double_is_right_about_files_that_kept_it(tmp_path: Path) -> None:
    builder = HudiBuilder(str(tmp_path / "table"), 9, random.Random(1))
    for type_ in (pa.float32(), pa.float64()):
        commit_rates(builder, type_)
        Drive(tmp_path / "table", tmp_path / "index", ["rate"]).drain()
        opened = tailbit.open(str(tmp_path / "table"), tmp_path / "index")
        assert opened.verify().sound
    answer = opened.where("rate = 0.1D")
    assert (answer.count(), answer.files_scanned) == (2, 0)
    assert opened.where().facets("rate") == {0.1: 2, 0.5: 2}


def test_only_columns_of_floats_mark_files() -> None:
    assert reading_mark('{"type": "record", "fields": [{"name": "a", "type": ["null", "double"]}]}') == 0
    nested = '{"fields": [{"name": "a", "type": {"type": "array", "items": ["null", "float"]}}]}'
    other = nested.replace('"a"', '"b"')
    assert len({reading_mark(nested), reading_mark(other), 0}) == 3
    assert reading_mark('"float" is no schema') == 0


def test_files_are_told_anew_only_where_the_float_columns_change(tmp_path: Path) -> None:
    builder = HudiBuilder(str(tmp_path), 9, random.Random(1))
    for type_ in (pa.float32(), pa.float32(), pa.float64(), pa.float64()):
        commit_rates(builder, type_)
    table = open_table(str(tmp_path))
    versions = table.versions(0, table.head())
    told = [len(table.changes(version, version).slices) for version in versions]
    assert told == [1, 1, 3, 1]
    assert len({slice_.mtime for slice_ in table.snapshot().files}) == 1


def test_a_deferred_index_of_a_column_that_is_promoted_stays_deferred(tmp_path: Path) -> None:
    builder = HudiBuilder(str(tmp_path / "table"), 9, random.Random(1))
    for type_ in (pa.float32(), pa.float64()):
        commit_rates(builder, type_)
        drive = Drive(tmp_path / "table", tmp_path / "index", ["rate"])
        (plain,) = drive.index.state.settings.definitions
        deferred = replace(plain, options={DEFERRED: "true"})
        if type_ == pa.float32():
            change_definitions(drive.index, [deferred], [])
        drive.drain()
        drive.index.refresh()
        assert [d.is_deferred for d in drive.index.state.settings.definitions] == [True]
