"""The encoding of a column as `status` and `explain` say it, beside what its files hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

import tailbit
from support.tables import index_of
from tailbit.errors import CorruptIndexError
from tailbit.index.postings.encoding import encoding_of
from tailbit.index.store.table import MetadataTable
from tailbit.upkeep.status import status_of

ROWS = 40_000
COLUMNS = ("few", "many", "skewed")


@pytest.fixture
def path(table_path: str) -> str:
    rng = np.random.default_rng(5)
    skewed = np.where(rng.random(ROWS) < 0.6, 7, rng.integers(8, 20_000, ROWS))
    many = rng.permutation(ROWS)
    write_deltalake(table_path, pa.table({"few": rng.integers(0, 3, ROWS), "many": many, "skewed": skewed}))
    index_of(table_path, COLUMNS)
    return table_path


def stored(path: str, column: str) -> tuple[int, int, int]:
    """Keys, sparse keys and bytes of a column, by the rows and the column chunks of all segments."""
    keys = sparse = size = 0
    for file in Path(path, "_tailbit", "kind=bitmap_index").glob("*.parquet"):
        opened = pq.ParquetFile(file)
        for number in range(opened.num_row_groups):
            rows = opened.read_row_group(number, columns=["column", "first"])
            if rows["column"][0].as_py() != column:
                continue
            group = opened.metadata.row_group(number)
            keys += len(rows)
            sparse += len(rows) - rows["first"].null_count
            size += sum(group.column(i).total_compressed_size for i in range(group.num_columns))
    return keys, sparse, size


@pytest.mark.parametrize(("column", "form"), [("few", "roaring"), ("many", "sparse"), ("skewed", "mixed")])
def test_status_names_the_encoding_of_a_column_as_its_files_hold_it(
    path: str, column: str, form: str
) -> None:
    account = status_of(path)["encodings"][column]
    keys, sparse, size = stored(path, column)
    assert account == {
        "encoding": form,
        "keys": keys,
        "sparse_keys": sparse,
        "bytes": size,
        "bytes_a_row": round(size / ROWS, 2),
    }


def test_explain_names_the_encoding_of_the_columns_that_it_asks(path: str) -> None:
    found = tailbit.open(path).where("many = 5 AND few = 1").explain()["encodings"]
    assert {column: account["encoding"] for column, account in found.items()} == {
        "few": "roaring",
        "many": "sparse",
    }
    assert found["many"] == status_of(path)["encodings"]["many"]


def test_a_column_without_postings_has_no_encoding(table_path: str) -> None:
    write_deltalake(table_path, pa.table({"v": pa.array([], pa.int64())}))
    index_of(table_path, ["v"])
    (account,) = status_of(table_path)["encodings"].values()
    nothing: dict[str, Any] = {"encoding": None, "keys": 0, "sparse_keys": 0, "bytes": 0, "bytes_a_row": None}
    assert account == nothing


def test_two_segments_of_one_row_space_are_about_the_same_rows(path: str) -> None:
    segments = [s for some in MetadataTable.open(f"{path}/_tailbit").state.spaces.values() for s in some]
    once, twice = encoding_of(segments, "few"), encoding_of([*segments, *segments], "few")
    assert (once.rows, twice.rows) == (ROWS, ROWS)
    assert twice.keys == 2 * once.keys


def test_a_segment_whose_footer_is_damaged_is_named_by_status_and_left_out(path: str) -> None:
    (file,) = Path(path, "_tailbit", "kind=bitmap_index").glob("*.parquet")
    data = bytearray(file.read_bytes())
    data[-20] ^= 0xFF
    file.write_bytes(data)
    (segment,) = next(iter(MetadataTable.open(f"{path}/_tailbit").state.spaces.values()))
    with pytest.raises(CorruptIndexError):
        encoding_of([segment], "few")
    status = status_of(path)
    assert status["damaged_segments"] == [segment.path]
    assert {account["encoding"] for account in status["encodings"].values()} == {None}
