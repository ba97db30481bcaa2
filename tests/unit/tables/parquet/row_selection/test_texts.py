"""Many texts of few values are the same by number as they are decoded one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailbit.errors import DataFileError
from tailbit.tables.model import Column, DataType, FileSlice
from tailbit.tables.parquet.data_file import open_layout
from tailbit.tables.parquet.row_selection.texts import MANY, NumberedTexts, numbered, texts_of
from tailbit.tables.parquet.row_selection.ways import Way
from tailbit.tables.parquet.rows import fetch
from tailbit.tables.storage import LocalStorage

ROWS = MANY + MANY // 2
KINDS = {
    "one byte": ["A", "N", "R"],
    "two bytes": ["de", "fr"],
    "four bytes": ["MAIL", "RAIL", "SHIP"],
    "three bytes": ["AIR", "FOB"],
    "other lengths": ["DELIVER IN PERSON", "NONE", "", "COLLECT COD", "ü"],
    "one value": ["only"],
    "many": [f"value {n}" for n in range(24)],
}


def _column(type_: str = "string") -> Column:
    return Column(("k",), ("k",), DataType(type_))


def _texts(values: list[str], nulls: bool) -> pa.Array:
    rng = np.random.default_rng(5)
    # The values of each row group come in an order of their own, so that their codes differ.
    codes = np.concatenate(
        [(rng.integers(0, len(values), 10_000) + n) % len(values) for n in range(ROWS // 10_000)]
    )
    return pa.array(values).take(pa.array(codes, mask=(rng.random(len(codes)) < 0.1) if nulls else None))


def _numbered(folder: Path) -> NumberedTexts | None:
    storage = LocalStorage(str(folder))
    layout = open_layout(storage, "f.parquet")
    return numbered(storage, [(layout, "f.parquet", 0, range(layout.metadata.num_row_groups))])


def _read(folder: Path, column: Column, way: Way, step: int = 8) -> pa.Table:
    path = folder / "f.parquet"
    at = np.flatnonzero(np.arange(pq.read_metadata(path).num_rows) % step).astype(np.uint64)
    slice_ = FileSlice("f.parquet", path.stat().st_size, 0, ROWS)
    return pa.concat_tables(fetch(LocalStorage(str(folder)), slice_, [column], at, way))


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_many_texts_of_few_values_are_the_same_by_number_as_by_pages(
    tmp_path: Path, kind: str, nulls: bool
) -> None:
    table = pa.table({"k": _texts(KINDS[kind], nulls)})
    pq.write_table(table, tmp_path / "f.parquet", row_group_size=10_000, data_page_size=1)
    found = _numbered(tmp_path)
    assert found is not None
    assert set(found.values) == {value.encode() for value in KINDS[kind]}
    by_mask, by_pages = (_read(tmp_path, _column(), way) for way in (Way.MASK, Way.PAGES))
    by_mask.validate(full=True)
    assert by_mask.num_rows >= MANY
    assert by_mask.equals(by_pages)
    assert by_mask.schema == by_pages.schema


def test_many_bytes_of_few_values_and_texts_filled_up_to_a_length_are_the_same_by_number(
    tmp_path: Path,
) -> None:
    for type_, values in (
        (DataType("binary"), _texts(KINDS["three bytes"], nulls=True).cast(pa.binary())),
        (DataType("string", char_length=6), _texts(KINDS["three bytes"], nulls=True)),
    ):
        pq.write_table(pa.table({"k": values}), tmp_path / "f.parquet", row_group_size=50_000)
        column = Column(("k",), ("k",), type_)
        assert _numbered(tmp_path) is not None
        assert _read(tmp_path, column, Way.MASK).equals(_read(tmp_path, column, Way.PAGES))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", range(12))
def test_texts_are_made_of_any_number_of_rows_with_and_without_null(kind: str, rows: int) -> None:
    values = tuple(value.encode() for value in KINDS[kind])
    lengths = {len(value) for value in values}
    width = lengths.pop() if len(lengths) == 1 and lengths <= {1, 2, 4} else 0
    of = [int.from_bytes(v, "little") for v in values] if width else list(range(len(values)))
    codes = np.random.default_rng(rows).integers(0, len(values), rows + 1)
    for absent in (np.zeros(rows + 1, bool), codes % 2 == 0):
        numbers = pa.array([of[code] for code in codes], pa.int32(), mask=absent)
        expected = [None if gone else KINDS[kind][code] for code, gone in zip(codes, absent, strict=True)]
        # A part of an array begins within its bytes of marks.
        chunked = pa.chunked_array([numbers, numbers.slice(1)], pa.int32())
        found = texts_of(chunked, NumberedTexts(values, width, []), pa.string())
        found.validate(full=True)
        assert found.to_pylist() == [*expected, *expected[1:]]


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param([f"value {n}" for n in range(25)], id="many values"),
        pytest.param(["a" * 65, "b"], id="a long one"),
        pytest.param([str(n) * 9 for n in range(4000)], id="large"),
    ],
)
def test_texts_of_many_or_long_values_have_no_numbers(tmp_path: Path, texts: list[str]) -> None:
    pq.write_table(pa.table({"k": texts * 50}), tmp_path / "f.parquet")
    assert _numbered(tmp_path) is None


def test_texts_in_pages_of_values_have_no_numbers(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": ["a", "b"] * 500}), tmp_path / "f.parquet", use_dictionary=False)
    assert _numbered(tmp_path) is None


@pytest.mark.parametrize("compression", ["none", "snappy"])
@pytest.mark.parametrize("seed", range(6))
def test_a_damaged_dictionary_is_an_error_by_number_where_it_is_one_by_pages(
    tmp_path: Path, compression: str, seed: int
) -> None:
    path = tmp_path / "f.parquet"
    table = pa.table({"k": _texts(KINDS["other lengths"], nulls=False)})
    pq.write_table(table, path, compression=compression)
    chunk = pq.read_metadata(path).row_group(0).column(0)
    with path.open("r+b") as damaged:
        damaged.seek(chunk.dictionary_page_offset + 14 + 4 * seed)
        damaged.write(b"\xff\x7f")

    def read(way: Way) -> object:
        try:
            return _read(tmp_path, _column("binary"), way)["k"].to_pylist()
        except DataFileError:
            return "refused"

    assert read(Way.MASK) == read(Way.PAGES)
