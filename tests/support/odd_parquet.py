"""One table of every kind of column, and the ways in which a writer may lay it out in a Parquet file."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pyarrow as pa

from tailbit.tables.model import Column, DataType

ROWS = 3000
RNG = np.random.default_rng(7)


def _with_nulls(values: list[Any]) -> list[Any]:
    return [None if number % 11 == 3 else value for number, value in enumerate(values)]


def _every_type() -> pa.Table:
    numbers = RNG.integers(-(2**31), 2**31, ROWS)
    day = datetime.date(1999, 1, 1)
    moment = datetime.datetime(1999, 1, 1, tzinfo=datetime.timezone.utc)
    few = ["", "AIR", "RAIL", "a longer text than the others"]
    return pa.table(
        {
            "few": pa.array(_with_nulls([few[n % 4] for n in numbers.tolist()])),
            "many": pa.array([f"text {n}" for n in numbers.tolist()]),
            "long": pa.array(_with_nulls(numbers.tolist()), pa.int64()),
            "short": pa.array((numbers % 1000).tolist(), pa.int16()),
            "double": pa.array(_with_nulls((numbers / 7).tolist()), pa.float64()),
            "flag": pa.array(_with_nulls((numbers % 2 == 0).tolist())),
            "price": pa.array([decimal.Decimal(n) / 100 for n in numbers.tolist()], pa.decimal128(15, 2)),
            "day": pa.array(_with_nulls([day + datetime.timedelta(n % 900) for n in numbers.tolist()])),
            "moment": pa.array(
                [moment + datetime.timedelta(microseconds=n) for n in numbers.tolist()],
                pa.timestamp("us", "UTC"),
            ),
            "bytes": pa.array(_with_nulls([n.to_bytes(8, "big", signed=True) for n in numbers.tolist()])),
            "tiny": pa.array(_with_nulls((numbers % 100).tolist()), pa.int8()),
            "float": pa.array(_with_nulls((numbers % 64 / 8).tolist()), pa.float32()),
            "wide": pa.array(
                _with_nulls([decimal.Decimal(n).scaleb(20) / 7 for n in numbers.tolist()]),
                pa.decimal128(38, 5),
            ),
            "small": pa.array(
                _with_nulls([decimal.Decimal(n % 1000) / 10 for n in numbers.tolist()]), pa.decimal128(5, 1)
            ),
            "local": pa.array(_with_nulls((numbers * 1_000_003).tolist()), pa.timestamp("us")),
            "viewed": pa.array(_with_nulls([few[n % 3] for n in numbers.tolist()]), pa.string_view()),
            "large": pa.array([f"{n % 50}" for n in numbers.tolist()], pa.large_string()),
            "coded": pa.array([few[n % 4] for n in numbers.tolist()]).dictionary_encode(),
            "point": pa.array([{"x": n, "y": None if n % 3 else str(n)} for n in numbers.tolist()]),
            "list": pa.array(_with_nulls([list(range(n % 4)) for n in numbers.tolist()])),
        }
    )


TABLE = _every_type()
_NAMES = {
    pa.string(): "string",
    pa.int64(): "long",
    pa.int16(): "short",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.binary(): "binary",
    pa.int8(): "byte",
    pa.float32(): "float",
    pa.timestamp("us"): "timestamp_ntz",
    pa.string_view(): "string",
    pa.large_string(): "string",
    pa.dictionary(pa.int32(), pa.string()): "string",
}


def _column(name: str, type_: pa.DataType, above: tuple[str, ...] = ()) -> Column:
    path = (*above, name)
    if pa.types.is_struct(type_):
        inner = tuple(_column(field.name, field.type, path) for field in type_)
        return Column(path, path, DataType("struct", fields=inner))
    if pa.types.is_list(type_):
        return Column(path, path, DataType("array", fields=(_column("element", type_.value_type, path),)))
    if pa.types.is_decimal(type_):
        return Column(path, path, DataType("decimal", type_.precision, type_.scale))
    return Column(path, path, DataType(_NAMES[type_]))


COLUMNS = [_column(field.name, field.type) for field in TABLE.schema]
LAYOUTS: dict[str, dict[str, Any]] = {
    "pages of 100 rows": {"data_page_size": 1, "write_batch_size": 100},
    "pages of the second version": {
        "data_page_version": "2.0",
        "data_page_size": 1,
        "write_batch_size": 70,
        "compression": "zstd",
    },
    "no dictionary": {
        "use_dictionary": False,
        "data_page_size": 1,
        "write_batch_size": 90,
        "compression": "gzip",
    },
    "dictionaries that are given up": {
        "dictionary_pagesize_limit": 2000,
        "data_page_size": 500,
        "write_batch_size": 64,
    },
    "delta encodings": {
        "use_dictionary": False,
        "data_page_size": 1,
        "write_batch_size": 128,
        "column_encoding": {
            "long": "DELTA_BINARY_PACKED",
            "many": "DELTA_BYTE_ARRAY",
            "few": "DELTA_LENGTH_BYTE_ARRAY",
            "double": "BYTE_STREAM_SPLIT",
        },
    },
    "a codec of two names": {"compression": "lz4", "data_page_size": 1, "write_batch_size": 100},
    "row groups of a page": {"row_group_size": 130},
    "decimals as integers": {"store_decimal_as_integer": True, "data_page_size": 1, "write_batch_size": 100},
    "page checksums, a page index, no compression": {
        "compression": "none",
        "write_page_checksum": True,
        "write_page_index": True,
        "data_page_size": 1,
        "write_batch_size": 100,
    },
}
