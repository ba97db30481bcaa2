"""Second readings of bytes that a parser has accepted, by other code than the parser's."""

from __future__ import annotations

import datetime
import math
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tailbit.tables.delta.deletion_vectors import Z85
from tailbit.tables.model import DataType

_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d:\d\d(\.\d{6})?([+-]\d\d:\d\d)?)?", re.ASCII)
_LIMITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}


_ADD = ("path", "size", "modificationTime", "partitionValues", "deletionVector")


def adds_of_parquet(data: bytes) -> list[dict[str, Any]]:
    """The rows of a log checkpoint as Python objects, of their adds only what a reader needs."""
    file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
    read = file.read(columns=[f"add.{name}" for name in _ADD], use_threads=False)
    return [_texts(row) for row in read.to_pylist()]


def _texts(value: Any) -> Any:
    """The value with bytes as text: without its annotation a text is read as bytes."""
    if isinstance(value, dict):
        return {name: _texts(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_texts(inner) for inner in value)
    return value.decode() if isinstance(value, bytes) else value


def column_of_parquet(data: bytes, name: str) -> list[Any] | None:
    """The values of a column of whole numbers or texts (as bytes); None where there is none of that name."""
    file = pq.ParquetFile(pa.BufferReader(data))
    if name not in file.schema_arrow.names:
        return None
    read = file.read(columns=[name], use_threads=False)
    if read.num_columns != 1 or read.schema.field(0).type not in (pa.string(), pa.int64(), pa.binary()):
        return None
    column = read.column(0)
    values: list[Any] = (column.cast(pa.binary()) if column.type == pa.string() else column).to_pylist()
    return values


def z85_reading(text: str) -> bytes:
    out = b""
    for at in range(0, len(text), 5):
        places = [Z85.index(digit) * 85 ** (4 - i) for i, digit in enumerate(text[at : at + 5].encode())]
        out += sum(places).to_bytes(4, "big")
    return out


def partition_reading(type_: DataType, text: str, found: pa.Scalar) -> None:
    """A typed partition value says what Python makes of its text, as far as Python reads such texts."""
    name = type_.name
    if name in ("string", "binary"):
        assert found.as_py() == (text if name == "string" else text.encode())
    elif not text:
        assert not found.is_valid
    elif name == "boolean":
        assert found.as_py() is (text.strip().lower() == "true")
    elif name in _LIMITS:
        assert found.as_py() == int(text)
        assert -(1 << _LIMITS[name] - 1) <= int(text) < 1 << _LIMITS[name] - 1
    elif name in ("float", "double"):
        value = float(np.float32(text)) if name == "float" else float(text)
        assert found.as_py() == value or (math.isnan(value) and math.isnan(found.as_py()))
    elif name == "decimal":
        assert found.as_py() == Decimal(text.strip())
    else:
        _same_time(text.strip(), found, name)


def _same_time(text: str, found: pa.Scalar, name: str) -> None:
    if not _ISO.fullmatch(text):
        return
    moment = datetime.datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.timezone.utc)
    since = moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    micros = since // datetime.timedelta(microseconds=1)
    assert found.value == (micros // 86_400_000_000 if name == "date" else micros)
