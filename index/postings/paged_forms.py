"""The forms in which keys of a paged row group are stored: all keys of a row group have one form.

Keys of eight bytes are stored as integers of the same order. Texts that are all UUIDs, in the usual form with
small letters, are stored as the sixteen bytes of their digits, which sort as the texts do. Other keys are
stored unchanged.

    text     6f9619ff-8b86-d011-b42d-00c04fc964ff
    bytes    6f9619ff 8b86 d011 b42d 00c04fc964ff
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.arrays import Mask
from tailbit.index.keys import bytes_of, encode_array, is_textual, ordered_of
from tailbit.index.postings.layout import NUMBER, UUID, UUID_BYTES, is_numbered
from tailbit.tables import compute as pc
from tailbit.tables.arrow import UUID_DASHES, UUID_DIGITS, UUID_TEXT, uuid_texts

if TYPE_CHECKING:
    import pyarrow.parquet as pq

Sixteen: TypeAlias = npt.NDArray[np.bytes_]
"""Texts of sixteen bytes (dtype S16), which compare as their bytes do."""

_NO_DIGIT = 0xFF
_VALUES = np.full(256, _NO_DIGIT, dtype=np.uint8)
_VALUES[np.frombuffer(b"0123456789abcdef", dtype=np.uint8)] = np.arange(16)


class Form(enum.Enum):
    """The forms of keys; the value is the column that holds them."""

    NUMBER = NUMBER
    UUID = UUID
    TEXT = "key"


def form_of(leaves: Mapping[str, pq.ColumnChunkMetaData], key_type: str) -> Form:
    """Return the form of the keys in a row group; `leaves`: its columns, by name."""
    if is_numbered(key_type):
        return Form.NUMBER
    uuids = leaves[UUID].statistics if UUID in leaves else None
    return Form.UUID if uuids is not None and uuids.has_min_max else Form.TEXT


def stored(rows: pa.Table, packs: bool) -> pa.Table:
    """Return rows of one row group with their keys in the form in which they are stored.

    `packs`: whether UUIDs may be stored as sixteen bytes, which an index of an older format must not have.
    """
    keys, key_type = rows["key"].combine_chunks(), rows["key_type"][0].as_py()
    numbers = ordered_of(keys) if is_numbered(key_type) else None
    uuids = _all_uuids(keys) if packs and is_textual(key_type) else None
    if numbers is not None or uuids is not None:
        column = rows.schema.get_field_index("key")
        rows = rows.set_column(column, "key", pa.nulls(len(rows), pa.binary()))
    rows = rows.append_column(NUMBER, pa.nulls(len(rows), pa.int64()) if numbers is None else numbers)
    if not packs:
        return rows
    return rows.append_column(UUID, pa.nulls(len(rows), pa.binary(UUID_BYTES)) if uuids is None else uuids)


def _all_uuids(keys: pa.BinaryArray) -> pa.FixedSizeBinaryArray | None:
    """Return keys as sixteen bytes each, null staying null; None if one is no UUID, or all are null."""
    begin = keys.null_count
    if begin == len(keys) or begin > 1:
        return None
    packed, are = sixteen_of(keys.slice(begin))
    if not are.all():
        return None
    alone = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(UUID_BYTES), len(packed), [None, pa.py_buffer(packed)]
    )
    return pa.concat_arrays([pa.nulls(begin, alone.type), alone]) if begin else alone


def sixteen_of(keys: pa.BinaryArray) -> tuple[Sixteen, Mask]:
    """Return keys as sixteen bytes each, and which of them are UUIDs; others become any bytes."""
    ends, data = bytes_of(keys)
    are = np.diff(ends) == UUID_TEXT
    out = np.zeros(len(keys), dtype=f"S{UUID_BYTES}")
    if not are.any():
        return out, are
    if are.all():
        texts = data.reshape(-1, UUID_TEXT)
    else:
        texts = data[ends[:-1][are][:, None] + np.arange(UUID_TEXT)]
    digits = _VALUES[texts[:, UUID_DIGITS]]
    is_uuid = (digits != _NO_DIGIT).all(axis=1) & (texts[:, UUID_DASHES] == ord("-")).all(axis=1)
    packed = digits[:, ::2] << 4 | digits[:, 1::2]
    out[are] = np.ascontiguousarray(packed).view(out.dtype)[:, 0]
    are[are] = is_uuid
    return out, are


def uuid_text(packed: bytes) -> bytes:
    """Return the text of a UUID of sixteen bytes.

    >>> uuid_text(bytes(range(16)))
    b'00010203-0405-0607-0809-0a0b0c0d0e0f'
    """
    digits = packed.hex().encode()
    return b"-".join(digits[low:high] for low, high in pairwise((0, 8, 12, 16, 20, 32)))


def values_of(column: pa.Array) -> Sixteen:
    """Return values of sixteen bytes, none null."""
    data = np.frombuffer(column.buffers()[1], dtype=f"S{UUID_BYTES}")
    return data[column.offset : column.offset + len(column)]


def with_keys(rows: pa.Table) -> pa.Table:
    """Return rows of a paged segment with their keys in bytes, without the columns of other forms."""
    column = rows.schema.get_field_index("key")
    for name in (NUMBER, UUID):
        if name in rows.column_names:
            values, rows = rows[name].combine_chunks(), rows.drop_columns([name])
            if values.null_count < len(values):
                keys = encode_array(values, "integer") if name == NUMBER else uuid_texts(values)
                texts = rows["key"].combine_chunks()
                whole = keys if texts.null_count == len(texts) else pc.coalesce(texts, keys)
                rows = rows.set_column(column, "key", whole)
    return rows
