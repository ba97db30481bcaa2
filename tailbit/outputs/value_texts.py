"""Values as texts, as Spark's CAST AS STRING writes them in the time zone UTC."""

from __future__ import annotations

import pyarrow as pa

from tailbit.index.functions.casting import cast
from tailbit.index.functions.tree import Call
from tailbit.index.keys import decode_keys, is_textual, key_type_of
from tailbit.index.values.literals import FLOATING, Literal
from tailbit.tables.model import Column, DataType
from tailbit.tables.parquet.decode import float_texts

_TEXT = DataType("string")


def texts_of_keys(keys: pa.BinaryArray, column: Column) -> pa.StringArray:
    """Return the texts of the values that keys of a column stand for; NULL stays null.

    A key of a text holds all of the text, however long the text is.
    """
    key_type = key_type_of(column.type)
    if is_textual(key_type):
        return keys.view(pa.string())
    values = decode_keys(keys, key_type, column.type)
    if column.type.name in FLOATING:
        return float_texts(values)
    call = Call("cast", (Literal(column.type, None),), _TEXT, ("UTC",))
    return cast(call, [values]).values
