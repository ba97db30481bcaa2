"""Thrift's compact protocol is read and written; what is no struct is refused."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailbit.tables.parquet.file import read_footer
from tailbit.tables.parquet.thrift import (
    I64,
    LIST,
    TEXT,
    read_struct,
    written_int,
    written_ints,
    written_struct,
    written_text,
)


def test_the_footer_of_a_file_is_read_to_its_end() -> None:
    sink = io.BytesIO()
    names = {f"column {n}": [n, None] for n in range(20)}
    pq.write_table(pa.table(names), sink, row_group_size=1)
    footer = read_footer(pa.BufferReader(sink.getvalue()))
    fields, end = read_struct(footer, 0)
    assert end == len(footer)
    assert fields[3] == 2
    assert [element[4].decode() for element in fields[2][1:]] == list(names)
    assert len(fields[4]) == 2


@pytest.mark.parametrize("number", [0, 1, -1, 63, 64, -64, -65, 2**31, -(2**31), 2**62])
def test_numbers_are_read_as_they_were_written(number: int) -> None:
    data = written_struct([(1, I64, written_int(number)), (3, TEXT, written_text(b"abc"))])
    assert read_struct(data, 0) == ({1: number, 3: b"abc"}, len(data))


def test_a_long_list_is_read_as_it_was_written() -> None:
    data = written_struct([(2, LIST, written_ints(range(200)))])
    assert read_struct(data, 0)[0] == {2: list(range(200))}


def test_reading_stops_before_a_field() -> None:
    start = written_struct([(1, I64, written_int(5))])[:-1]
    data = start + written_struct([(4, I64, written_int(6))], before=1)
    assert read_struct(data, 0, until=3) == ({1: 5}, len(start))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x15",
        b"\x18\x05ab",
        b"\x19\xfc\xff\xff\x03",
        b"\x1c" * 100,
        b"\x1e\x00",
        b"\x16" + b"\xff" * 12,
    ],
)
def test_what_is_no_struct_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_struct(data, 0)
