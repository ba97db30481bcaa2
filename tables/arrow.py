"""Conversions between Arrow arrays and the values of Python and numpy, without an import of pandas.

pyarrow's own conversions (`pa.array`, `pa.scalar`, `np.asarray` of an array) import pandas, if it is
installed, to check whether the argument is a pandas object: 0.2 s of a question that takes 0.5 s. `to_pylist`
of instants imports pandas to decide which class of time zones to return.
The functions here build arrays from buffers instead. Types that they do not support are left to pyarrow.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.tables import compute as pc

_NUMPY: dict[Any, Any] = {
    pa.int8(): np.int8,
    pa.int16(): np.int16,
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.uint8(): np.uint8,
    pa.uint16(): np.uint16,
    pa.uint32(): np.uint32,
    pa.uint64(): np.uint64,
    pa.float32(): np.float32,
    pa.float64(): np.float64,
}
_ARROW = {np.dtype(numpy_type): arrow_type for arrow_type, numpy_type in _NUMPY.items()}
_OFFSETS = {
    **dict.fromkeys((pa.string(), pa.binary()), np.int32),
    **dict.fromkeys((pa.large_string(), pa.large_binary()), np.int64),
}
_VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
_MOST = 50_000
"""For more values than this, importing pandas costs less than a loop in Python."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_INSTANT = pa.timestamp("us", "UTC")
_FIRST_US = (datetime.min.replace(tzinfo=timezone.utc) - _EPOCH) // _MICROSECOND
_LAST_US = (datetime.max.replace(tzinfo=timezone.utc) - _EPOCH) // _MICROSECOND


def numpy_of(values: pa.Array | pa.ChunkedArray, dtype: npt.DTypeLike | None = None) -> npt.NDArray[Any]:
    """Return the values as `np.asarray` does: a read-only view of the buffer if possible, else a copy.

    >>> numpy_of(arrow_array([True, False], pa.bool_())).tolist()
    [True, False]
    """
    if not isinstance(values, (pa.Array, pa.ChunkedArray)):
        return np.asarray(values, dtype=dtype)
    whole = in_one(values)
    if whole.null_count or not (whole.type in _NUMPY or pa.types.is_boolean(whole.type)):
        return np.asarray(values, dtype=dtype)
    plain = _bits(whole) if pa.types.is_boolean(whole.type) else _view(whole)
    return plain if dtype is None else plain.astype(dtype, copy=False)


def in_one(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return the values as one array; a single chunk is not copied (`combine_chunks` would copy it)."""
    if isinstance(values, pa.Array):
        return values
    if values.num_chunks == 1:
        return values.chunk(0)
    return pa.concat_arrays(values.chunks) if values.num_chunks else pa.nulls(0, values.type)


def _view(values: pa.Array) -> npt.NDArray[Any]:
    """Return numbers without NULL as a view of their buffer."""
    numpy_type, buffer = _NUMPY[values.type], values.buffers()[1]
    if not len(values) or buffer is None:
        return np.empty(0, numpy_type)
    return np.frombuffer(buffer, numpy_type, len(values), values.offset * np.dtype(numpy_type).itemsize)


def _bits(values: pa.Array) -> npt.NDArray[np.bool_]:
    """Return booleans without NULL, one byte per value."""
    buffer = values.buffers()[1]
    if not len(values) or buffer is None:
        return np.empty(0, np.bool_)
    begin, skipped = divmod(values.offset, 8)
    packed = np.frombuffer(buffer, np.uint8, (skipped + len(values) + 7) // 8, begin)
    return np.unpackbits(packed, count=skipped + len(values), bitorder="little")[skipped:].view(np.bool_)


def python_of(values: pa.Array) -> list[Any]:
    """Return the values as Python's, None for NULL, as `to_pylist` does; instants are in `ZoneInfo("UTC")`.

    Raises:
        OverflowError: a date or time is outside of the years 1 to 9999.
        ValueError: as OverflowError; pyarrow raises either.

    >>> python_of(arrow_array([0], pa.int64()).view(pa.timestamp("us", "UTC")))[0].isoformat()
    '1970-01-01T00:00:00+00:00'
    """
    if values.type != _INSTANT:
        listed: list[Any] = values.to_pylist()
        return listed
    from zoneinfo import ZoneInfo

    utc, numbers = ZoneInfo("UTC"), numpy_of(filled(values.view(pa.int64()), 0))
    if len(numbers) and (numbers.min() < _FIRST_US or numbers.max() > _LAST_US):
        raise OverflowError("a time is outside of the years 1 to 9999")
    times = (time.replace(tzinfo=utc) for time in numbers.view("datetime64[us]").tolist())
    valid = pc.is_valid(values).to_pylist()
    return [time if there else None for time, there in zip(times, valid, strict=True)]


UUID_TEXT = 36
"""The bytes of a UUID's text."""
UUID_DASHES = (8, 13, 18, 23)
UUID_DIGITS = np.delete(np.arange(UUID_TEXT), UUID_DASHES)
_PAIRS = np.frombuffer(bytes(range(256)).hex().encode(), dtype=np.uint8).reshape(256, 2)


def uuid_texts(uuids: pa.FixedSizeBinaryArray) -> pa.BinaryArray:
    """Return UUIDs of sixteen bytes as texts; NULL stays NULL.

    >>> uuid_texts(pa.array([bytes(range(16)), None], pa.binary(16))).to_pylist()
    [b'00010203-0405-0607-0809-0a0b0c0d0e0f', None]
    """
    there = numpy_of(pc.is_valid(uuids))
    if not there.any():
        return pa.nulls(len(uuids), pa.binary())
    data = np.frombuffer(uuids.buffers()[1], dtype=np.uint8, count=16 * (uuids.offset + len(uuids)))
    texts = np.full((int(there.sum()), UUID_TEXT), ord("-"), dtype=np.uint8)
    texts[:, UUID_DIGITS] = _PAIRS[data.reshape(-1, 16)[uuids.offset :][there]].reshape(-1, 32)
    ends = np.concatenate([[0], np.cumsum(there * UUID_TEXT)]).astype(np.int32)
    valid = None if there.all() else _packed(there)
    data_buffers = [valid, pa.py_buffer(ends), pa.py_buffer(texts.tobytes())]
    return pa.Array.from_buffers(pa.binary(), len(uuids), data_buffers)


def nested_array(
    type_: pa.DataType,
    parts: Sequence[pa.Array],
    offsets: pa.Array | None = None,
    null: npt.NDArray[np.bool_] | None = None,
) -> pa.Array:
    """Return structs of fields, or with `offsets` (int32) lists of elements or maps of keys and items.

    `null`: True where the result is NULL. A mask given to pyarrow's own `from_arrays` imports
    `pyarrow.compute`.

    Raises:
        pyarrow.ArrowException: a part is not of its type, as `from_arrays` raises it.

    >>> numbers = arrow_array([1, 2])
    >>> nested_array(pa.struct({"a": pa.int64()}), [numbers], null=np.array([True, False])).to_pylist()
    [None, {'a': 2}]
    """
    children = list(parts)
    if pa.types.is_struct(type_):
        whole = pa.StructArray.from_arrays(children, fields=list(type_))
    elif pa.types.is_map(type_):
        whole = pa.MapArray.from_arrays(offsets, *children, type_)
        children = [pa.StructArray.from_arrays(children, fields=[type_.key_field, type_.item_field])]
    else:
        whole = pa.ListArray.from_arrays(offsets, *children, type_)
    if null is None or not null.any():
        return whole
    ends = [] if offsets is None else [pa.py_buffer(numpy_of(offsets))]
    return pa.Array.from_buffers(type_, len(whole), [_packed(~null), *ends], children=children)


def no_rows(schema: pa.Schema) -> pa.Table:
    """Return an empty table, as `schema.empty_table` does.

    >>> no_rows(pa.schema([("a", pa.int64())])).num_rows
    0
    """
    return pa.Table.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def decoded(values: pa.Array) -> pa.Array:
    """Replace dictionary codes by their values, as `dictionary_decode` does; return other arrays unchanged.

    >>> decoded(pc.dictionary_encode(arrow_array(["a", "a"]))).to_pylist()
    ['a', 'a']
    """
    return pc.take(values.dictionary, values.indices) if pa.types.is_dictionary(values.type) else values


def filled(values: pa.Array | pa.ChunkedArray, value: Any) -> pa.Array | pa.ChunkedArray:
    """Replace each NULL by `value`, as `fill_null` does.

    >>> filled(arrow_array([1, None], pa.int8()), 0).to_pylist()
    [1, 0]
    """
    return pc.coalesce(values, arrow_scalar(value, values.type)) if values.null_count else values


def arrow_array(
    values: Iterable[Any] | npt.NDArray[Any],
    type_: pa.DataType | None = None,
    mask: npt.NDArray[np.bool_] | None = None,
) -> pa.Array:
    """Return an Arrow array of values, None for NULL, as `pa.array` does.

    `mask`: True where the result is NULL, whatever the values are there. The result shares the memory of a
    numpy array: a change of one changes both.

    Raises:
        pyarrow.ArrowException: a value is not of the type, as `pa.array` raises it.

    >>> arrow_array(["a", None], pa.string()).to_pylist()
    ['a', None]
    >>> arrow_array(np.arange(3)).to_pylist()
    [0, 1, 2]
    """
    if isinstance(values, np.ndarray):
        array = _of_numpy(values, mask)
        if array is not None:
            return array if type_ is None or type_ == array.type else pc.cast(array, type_)
        return pa.array(values, type_, mask)
    values = values if isinstance(values, (list, tuple)) else list(values)
    if mask is not None:
        values = [None if null else value for value, null in zip(values, mask.tolist(), strict=True)]
    type_ = type_ or _inferred(values)
    if type_ is not None and len(values) <= _MOST and "pandas" not in sys.modules:
        try:
            array = _of_values(values, type_)
        except (TypeError, ValueError, OverflowError, AttributeError, ArithmeticError):
            array = None
        if array is not None:
            return array
    return pa.array(values, type_)


def arrow_scalar(value: Any, type_: pa.DataType | None = None) -> pa.Scalar:
    """Return an Arrow scalar of a value, as `pa.scalar` does.

    >>> arrow_scalar(3).type, arrow_scalar("a", pa.string()).as_py()
    (DataType(int64), 'a')
    """
    return arrow_array([value], type_)[0]


_INFERRED = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string(), bytes: pa.binary()}
"""The types that pyarrow infers for Python values."""


def _inferred(values: Sequence[Any]) -> pa.DataType | None:
    """Infer the Arrow type of values of a single Python type, besides None; None for mixed values."""
    types = {type(value) for value in values} - {type(None)}
    return _INFERRED.get(types.pop()) if len(types) == 1 else None


def _of_numpy(values: npt.NDArray[Any], mask: npt.NDArray[np.bool_] | None) -> pa.Array | None:
    """Return an array that shares the memory of a numpy array; None unless the values are plain numbers."""
    if values.ndim != 1:
        return None
    validity = None if mask is None or not mask.any() else _packed(~mask)
    if values.dtype == np.bool_:
        return pa.Array.from_buffers(pa.bool_(), len(values), [validity, _packed(values)])
    arrow_type = _ARROW.get(values.dtype)
    if arrow_type is None:
        return None
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(arrow_type, len(values), [validity, data])


def _packed(bits: npt.NDArray[np.bool_] | Sequence[bool]) -> pa.Buffer:
    """Pack booleans as Arrow stores them, eight per byte."""
    return pa.py_buffer(np.packbits(np.asarray(bits, dtype=np.bool_), bitorder="little"))


def _of_values(values: Sequence[Any], type_: pa.DataType) -> pa.Array | None:
    """Return an array of Python values; None for a type that is left to pyarrow."""
    validity, count = _validity(values), len(values)
    if type_ in _VIEWS:
        return pc.cast(_of_values(values, _VIEWS[type_]), type_)
    if type_ in _OFFSETS:
        parts = [b"" if value is None else _encoded(value, type_) for value in values]
        offsets = np.zeros(count + 1, _OFFSETS[type_])
        np.cumsum([len(part) for part in parts], out=offsets[1:])
        data = [pa.py_buffer(offsets), pa.py_buffer(b"".join(parts))]
        return pa.Array.from_buffers(type_, count, [validity, *data])
    if pa.types.is_null(type_):
        return pa.nulls(count) if all(value is None for value in values) else None
    if pa.types.is_list(type_) or pa.types.is_map(type_) or pa.types.is_struct(type_):
        return _nested(values, type_, validity)
    stored = _stored(values, type_)
    if stored is None:
        return None
    data = stored if isinstance(stored, pa.Buffer) else pa.py_buffer(stored)
    return pa.Array.from_buffers(type_, count, [validity, data])


def _nested(values: Sequence[Any], type_: pa.DataType, validity: pa.Buffer | None) -> pa.Array:
    """Return an array of lists, of maps (given as lists of pairs), or of structs (given as dictionaries)."""
    if pa.types.is_struct(type_):
        rows = [{} if value is None else value for value in values]
        children = [arrow_array([row.get(field.name) for row in rows], field.type) for field in type_]
        return pa.Array.from_buffers(type_, len(values), [validity], children=children)
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum([0 if value is None else len(value) for value in values], out=offsets[1:])
    items = [item for value in values if value is not None for item in value]
    if pa.types.is_map(type_):
        pairs = pa.struct([type_.key_field, type_.item_field])
        child = arrow_array(
            [dict(zip((type_.key_field.name, type_.item_field.name), pair, strict=True)) for pair in items],
            pairs,
        )
    else:
        child = arrow_array(items, type_.value_type)
    return pa.Array.from_buffers(type_, len(values), [validity, pa.py_buffer(offsets)], children=[child])


def _validity(values: Sequence[Any]) -> pa.Buffer | None:
    """Return the validity bitmap of values; None if no value is None."""
    there = [value is not None for value in values]
    return None if all(there) else _packed(there)


def _encoded(value: Any, type_: pa.DataType) -> bytes:
    """Encode a text as UTF-8; return bytes unchanged for a binary type."""
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, bytes):
        raise TypeError(value)
    if type_ in (pa.string(), pa.large_string()):
        value.decode()
    return value


def _stored(values: Sequence[Any], type_: pa.DataType) -> npt.NDArray[Any] | pa.Buffer | bytes | None:
    """Return the values in the layout of their type's buffer; None for unsupported types."""
    numpy_type = _NUMPY.get(type_)
    if numpy_type is not None:
        return np.array([_number(value, type_) for value in values], numpy_type)
    if pa.types.is_boolean(type_):
        bits = [_of_type(value, bool, default=False) for value in values]
        return _packed(bits)
    if pa.types.is_date32(type_):
        days = [_of_type(value, date, default=_EPOCH.date()).toordinal() for value in values]
        return np.array(days, np.int64).astype(np.int32) - np.int32(_EPOCH.toordinal())
    if pa.types.is_timestamp(type_) and type_.unit == "us":
        return np.array([_micros(value) for value in values], np.int64)
    if pa.types.is_decimal128(type_):
        return b"".join(_unscaled(value, type_).to_bytes(16, "little", signed=True) for value in values)
    return None


def _of_type(value: Any, wanted: type, default: Any) -> Any:
    """Return a value that has exactly the type `wanted`, or `default` for None."""
    if value is None:
        return default
    if type(value) is not wanted:
        raise TypeError(value)
    return value


def _number(value: Any, type_: pa.DataType) -> int | float:
    """Return a number that the type can hold; 0 for None."""
    if value is None:
        return 0
    wanted = (int, float, np.floating) if pa.types.is_floating(type_) else (int, np.integer)
    if isinstance(value, bool) or not isinstance(value, wanted):
        raise TypeError(value)
    return cast(float, value)


def _micros(value: Any) -> int:
    """Return the microseconds since 1970 of an instant or a local time; integers are microseconds already."""
    if value is None:
        return 0
    if type(value) is int:
        return value
    if type(value) is not datetime:
        raise TypeError(value)
    instant = value.replace(tzinfo=timezone.utc) if value.tzinfo is None else value
    return (instant - _EPOCH) // _MICROSECOND


def _unscaled(value: Any, type_: pa.DataType) -> int:
    """Return a decimal as an unscaled integer at the type's scale."""
    sign, digits, exponent = _of_type(value, Decimal, default=Decimal(0)).as_tuple()
    shift = exponent + type_.scale
    unscaled = int("".join(map(str, digits))) * 10**shift if shift >= 0 else 10**type_.precision
    if unscaled >= 10**type_.precision:
        raise ValueError(value)
    return int(-unscaled if sign else unscaled)
