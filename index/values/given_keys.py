"""Values that a person gives as keys, converted to the types in which the keys of columns are compared.

given           column         key
8 (int64)       INT            8 (int64)
'2026-01-01'    DATE           2026-01-01 (date32)
1.5 (double)    DECIMAL(9,2)   1.50 (decimal128(38, 2))
1.5 (double)    INT            refused: it is no value of the column
"""

from __future__ import annotations

import pyarrow as pa

from tailbit.base.errors import UsageError
from tailbit.index.keys import key_type_of, scale_of
from tailbit.tables import compute as pc
from tailbit.tables.model import Column, DataType


def check_no_null(name: str, values: pa.Array | pa.ChunkedArray) -> None:
    """Check that no value of a key column is NULL.

    Raises:
        UsageError: a value is NULL.
    """
    if values.null_count:
        raise UsageError(
            reason=f"a key has NULL in {name}, and no value equals NULL",
            hint="Leave such keys out; rows without a value are found with IS NULL.",
        )


def converted(column: Column, values: pa.ChunkedArray) -> pa.Array:
    """Convert key values to the Arrow type in which keys of a column are compared.

    That type is the widest of the column's kind: a long that no INT column can hold is a key without rows.

    Raises:
        UsageError: a value is NULL, or cannot be converted without loss.
    """
    key_type = key_type_of(column.type)
    plain = values.combine_chunks()
    if pa.types.is_dictionary(plain.type):
        plain = pc.cast(plain, plain.type.value_type)
    check_no_null(column.label, plain)
    if not _is_of_kind(plain.type, key_type):
        raise _unfit(column, plain.type)
    try:
        cast = pc.cast(_as_texts(plain) if key_type == "double" else plain, _compared_type(key_type))
        is_exact = _is_exact(plain, cast)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _unfit(column, plain.type) from error
    if not is_exact:
        raise _unfit(column, plain.type)
    return pc.utf8_rpad(cast, column.type.char_length) if column.type.char_length else cast


def _as_texts(values: pa.Array) -> pa.Array:
    """Convert decimals to texts, which Arrow casts to the nearest doubles; return other values unchanged."""
    return pc.cast(values, pa.string()) if pa.types.is_decimal(values.type) else values


def _is_exact(given: pa.Array, cast: pa.Array) -> bool:
    """Return whether a cast between floating-point numbers and decimals, which rounds, has lost nothing.

    A floating-point number is one decimal of a scale only below 2**53 units of that scale.
    """
    types = pa.types
    if types.is_floating(given.type) and types.is_decimal(cast.type):
        doubles = pc.cast(given, pa.float64())
        units = (pc.max(pc.abs(doubles)).as_py() or 0) * 10**cast.type.scale
        return bool(units < 1 << 53 and pc.cast(cast, pa.float64()).equals(doubles))
    if types.is_decimal(given.type) and types.is_floating(cast.type):
        return bool(pc.cast(cast, given.type).equals(given))
    return True


def _is_of_kind(given: pa.DataType, key_type: str) -> bool:
    """Return whether values of an Arrow type may be keys of a key type; texts may, if a cast parses them."""
    types = pa.types
    if types.is_null(given) or types.is_string(given) or types.is_large_string(given):
        return True
    if types.is_integer(given) or types.is_floating(given) or types.is_decimal(given):
        return key_type in ("integer", "double") or scale_of(key_type) is not None
    if types.is_timestamp(given):
        return key_type == ("timestamp_ntz" if given.tz is None else "timestamp")
    if types.is_date(given):
        return key_type in ("date", "timestamp_ntz")
    if types.is_boolean(given):
        return key_type == "boolean"
    return key_type == "binary"


def _compared_type(key_type: str) -> pa.DataType:
    """Return the Arrow type that holds every value of a key type."""
    scale = scale_of(key_type)
    if scale is not None:
        return pa.decimal128(38, scale)
    return {
        "boolean": pa.bool_(),
        "integer": pa.int64(),
        "double": pa.float64(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"),
    }.get(key_type, pa.string())


def _unfit(column: Column, given: pa.DataType) -> UsageError:
    return UsageError(
        reason=f"keys of type {given} do not fit column {column.label}, which is {column.type.sql}",
        hint=_remedy(column.type, given),
    )


def _remedy(type_: DataType, given: pa.DataType) -> str:
    """Return the hint for values of an Arrow type that do not fit."""
    if pa.types.is_timestamp(given) and type_.name == ("timestamp" if given.tz is None else "timestamp_ntz"):
        return f"Give times {'with' if given.tz is None else 'without'} a time zone."
    if isinstance(given, pa.UuidType):
        return "Give UUIDs as texts: str(key)."
    return f"Give values that are {type_} without loss."
