"""Filters that Spark wrote are read to the bit, and Spark prunes by those that tailbit makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tailbit
from tailbit.index.predicate.tree import Leaf
from tailbit.index.query.scan import can_match
from tailbit.tables.model import FileSlice
from tailbit.tables.parquet.bloom import BLOCK_BYTES, Bloom, blocks_of, hashes_in_file, masks_of
from tailbit.tables.parquet.data_file import field_of, open_layout
from tailbit.tables.parquet.layout import Layout
from tailbit.tables.parquet.thrift import read_struct

pytestmark = pytest.mark.spark

FILES, ROWS = 4, 100
COLUMNS = {
    "by": ("CAST(n % 200 - 100 AS TINYINT)", "{}Y"),
    "sh": ("CAST(n - 15000 AS SMALLINT)", "{}S"),
    "i": ("CAST(n * 70000 - 1000000007 AS INT)", "{}"),
    "l": ("n * 1099511627776 - 16000000000000009", "{}L"),
    "st": ("repeat(hex(n), CAST(n % 12 AS INT))", "'{}'"),
    "bi": ("unhex(repeat(hex(n + 256), CAST(n % 9 AS INT)))", "X'{}'"),
    "d": ("date_add(DATE'1969-01-01', CAST(n AS INT))", "DATE'{}'"),
    "t": ("timestamp_micros(n * 86400000001 - 900000000000000)", "TIMESTAMP'{}'"),
    "tn": ("CAST(timestamp_micros(n * 1000003 - 15000000000) AS TIMESTAMP_NTZ)", "TIMESTAMP_NTZ'{}'"),
    "p": ("CAST((n - 15000) / 100 AS DECIMAL(9, 2))", "{}BD"),
    "pl": ("CAST((n - 15000) / 1000 AS DECIMAL(18, 3))", "{}BD"),
    "pf": (
        "CAST(CAST(n AS DECIMAL(5)) * 1000000000000000000BD - 15000000000000000000000BD AS DECIMAL(38, 4))",
        "{}BD",
    ),
    "f": ("CAST(n / 4 - 3000.125 AS FLOAT)", "CAST('{}' AS FLOAT)"),
    "g": ("n / 3 - 1000.1D", "CAST('{}' AS DOUBLE)"),
    "s.a": ("n * 5 - 70001", "{}L"),
}
"""By column the value of a number from 0 to 30,010, and how a condition has a value that was cast to text."""

CONF = {
    # A file that has dictionaries alone has no filters.
    "parquet.enable.dictionary": "false",
    **{f"parquet.bloom.filter.enabled#{name}": "true" for name in COLUMNS},
}
STAMPS = "spark.sql.parquet.outputTimestampType"


def written(spark: Any, path: str, stamps: str) -> str:
    """Write a table by Delta's own writer, whose files of a row group have a filter of each column."""
    cells = [
        f"IF(id % 50 = 3, NULL, {value}) AS {name}" for name, (value, _) in COLUMNS.items() if name != "s.a"
    ]
    cells.append(f"named_struct('a', IF(id % 50 = 3, NULL, {COLUMNS['s.a'][0]})) AS s")
    rows = spark.range(0, FILES * ROWS, 1, FILES).selectExpr("id", "id * 7919 % 30011 AS n")
    before = spark.conf.get(STAMPS)
    try:
        for key, value in (CONF | {STAMPS: stamps}).items():
            spark.conf.set(key, value)
        rows.selectExpr(*cells).write.format("delta").save(path)
    finally:
        for key in CONF:
            spark.conf.unset(key)
        spark.conf.set(STAMPS, before)
    return path


@pytest.fixture(scope="module")
def table(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(spark, str(tmp_path_factory.mktemp("bloom") / "t"), "TIMESTAMP_MICROS")


@pytest.fixture(scope="module")
def values(spark: Any, table: str) -> dict[str, dict[str, list[str]]]:
    """By column and data file the values, as SQL writes them."""
    texts = [
        f"hex({name}) AS `{name}`" if name == "bi" else f"CAST({name} AS STRING) AS `{name}`"
        for name in COLUMNS
    ]
    told: dict[str, dict[str, list[str]]] = {name: {} for name in COLUMNS}
    rows = spark.read.format("delta").load(table)
    for row in rows.selectExpr("_metadata.file_name AS file", *texts).collect():
        for name, (_, form) in COLUMNS.items():
            if row[name] is not None:
                told[name].setdefault(row["file"], []).append(form.format(row[name]))
    return told


def filter_of(table: str, file: str, name: str, layout: Layout) -> tuple[int, int]:
    """Where the filter of a column begins and ends in a file."""
    names = [layout.metadata.schema.column(n).path for n in range(layout.metadata.num_columns)]
    offset = layout.metadata.row_group(0).column(names.index(name)).bloom_filter_offset
    header, length = read_struct(Path(table, file).read_bytes()[offset : offset + 64], 0)
    return offset + length, offset + length + header[1]


def leaf_of(table: str, condition: str) -> Leaf:
    node = tailbit.open(table).where(condition)._selection.node
    assert isinstance(node, Leaf)
    return node


def may_match(table: str, condition: str) -> int:
    """How many files may match by their filters and footers."""
    selection = tailbit.open(table).where(condition)._selection
    files = selection.snapshot.files
    slices: list[FileSlice] = [files[n] for n in range(len(files))]
    layouts = [open_layout(selection.storage, each.path, each.size) for each in slices]
    return sum(
        int(np.count_nonzero(can_match(selection.node, layout, each, selection.storage)))
        for each, layout in zip(slices, layouts, strict=True)
    )


def bits_of(table: str, file: str, name: str, listed: list[str]) -> tuple[bytes, bytes, int]:
    """The filter of a file, the filter that tailbit makes of the same values, and where it begins."""
    leaf = leaf_of(table, f"{name} IN ({', '.join(listed)})")
    storage = tailbit.open(table).where()._selection.storage
    layout = open_layout(storage, file)
    begin, end = filter_of(table, file, name, layout)
    values = leaf.true.listed(ROWS) or []
    steps = field_of(layout, leaf.column, file)
    hashes = hashes_in_file(values, leaf.column, layout, steps[-1])
    assert hashes is not None
    words = np.zeros(((end - begin) // BLOCK_BYTES, 8), dtype=np.uint32)
    np.bitwise_or.at(words, blocks_of(hashes, len(words)), masks_of(hashes))
    return Path(table, file).read_bytes()[begin:end], Bloom(words).written(), begin


@pytest.mark.parametrize("name", COLUMNS)
def test_a_filter_of_spark_is_to_the_bit_that_of_the_same_values(
    table: str, values: dict[str, dict[str, list[str]]], name: str
) -> None:
    assert len(values[name]) == FILES
    for file, listed in values[name].items():
        theirs, ours, _ = bits_of(table, file, name, sorted({*listed}))
        assert ours == theirs


@pytest.mark.parametrize("name", COLUMNS)
def test_no_filter_of_spark_says_that_a_value_is_absent_that_is_there(
    table: str, values: dict[str, dict[str, list[str]]], name: str
) -> None:
    every = [text for listed in values[name].values() for text in listed]
    opened = tailbit.open(table)
    for text in every[::37]:
        assert opened.where(f"{name} = {text}").count() == every.count(text)
    if name not in ("by", "bi"):
        # A value of one file passes the filters of the others by chance alone.
        assert sum(may_match(table, f"{name} = {text}") for text in every[5:400:40]) < 2 * FILES * 10 / 3


@pytest.mark.parametrize("name", ["i", "st", "pf", "s.a"])
def test_spark_prunes_by_a_filter_that_tailbit_makes(
    spark: Any, table: str, values: dict[str, dict[str, list[str]]], tmp_path: Path, name: str
) -> None:
    file, repeated = sorted(values[name].items())[0]
    listed = sorted({*repeated})
    _, ours, begin = bits_of(table, file, name, listed)
    _, without, _ = bits_of(table, file, name, listed[:-1])
    found = []
    for number, data in enumerate((ours, without)):
        copy = tmp_path / f"{number}.parquet"
        whole = bytearray(Path(table, file).read_bytes())
        whole[begin : begin + len(data)] = data
        copy.write_bytes(whole)
        rows = spark.read.parquet(str(copy))
        found.append([rows.where(f"{name} = {text}").count() for text in (listed[0], listed[-1])])
    assert min(found[0]) > 0
    assert found[1] == [found[0][0], 0]


def test_filters_of_times_of_twelve_bytes_are_not_asked_since_other_nanoseconds_are_the_same_time(
    spark: Any, tmp_path: Path
) -> None:
    path = written(spark, str(tmp_path / "t"), "INT96")
    opened, rows = tailbit.open(path), spark.read.format("delta").load(path).where("t IS NOT NULL")
    for (text,) in rows.selectExpr("CAST(t AS STRING)").collect()[::37]:
        assert opened.where(f"t = TIMESTAMP'{text}'").count() == 1
        assert may_match(path, f"t = TIMESTAMP'{text}'") >= 1
