"""Keys as people have them (values, tuples, dicts, a table of any library) as an Arrow table.

Accepted are a list of values for one key column; a list of tuples for several; a list of dicts; and any table
with Arrow's C stream interface (pyarrow, polars, pandas, DuckDB) or with `toArrow` (a Spark DataFrame).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tailbit.arguments.constants import item_of
from tailbit.arguments.values import names, wrong_type
from tailbit.base.errors import UsageError
from tailbit.tables.arrow import arrow_array

_FORMS_OF_KEYS = (
    "a list of values, of tuples or of dicts, or a table with the key columns; a condition is text"
    " or built with tailbit.col"
)


def key_table(keys: Any, on: str | Iterable[str] | None) -> tuple[list[str], pa.Table]:
    """Return the names of the key columns in the source table, and a column of keys for each.

    `on`: the names; without them, those of the columns or dicts of `keys`.
    """
    key_names = None if on is None else [on] if isinstance(on, str) else names("on", on)
    table = table_of_library(keys)
    if table is None:
        table = _of_values(_listed(keys), key_names)
    key_names = table.column_names if key_names is None else key_names
    if not key_names:
        raise UsageError(reason="no key column is named", hint="Name the columns of the key: on=...")
    check_distinct(key_names)
    lacking = [name for name in key_names if table.column_names.count(name) != 1]
    if lacking:
        reason = f"keys have no column {lacking[0]}, or two: they have {', '.join(table.column_names)}"
        raise UsageError(reason=reason, hint="Name columns that both the keys and the table have.")
    return key_names, table.select(key_names)


def check_distinct(on: Sequence[str]) -> None:
    """Check that no key column is named twice; names are equal regardless of case, as to Spark."""
    twice = [name for number, name in enumerate(on) if name.lower() in map(str.lower, on[:number])]
    if twice:
        raise UsageError(reason=f"key column {twice[0]} is named twice", hint="Name each key column once.")


def table_of_library(keys: Any) -> pa.Table | None:
    """Return a table of any library as an Arrow table; None if `keys` is no table."""
    if hasattr(type(keys), "toArrow"):
        return keys.toArrow()
    if not hasattr(keys, "__arrow_c_stream__") or isinstance(keys, pa.ChunkedArray):
        return None
    try:
        return _without_views(pa.RecordBatchReader.from_stream(keys).read_all())
    except pa.ArrowInvalid:
        if hasattr(keys, "columns"):
            raise
        return None  # a column, such as a Series of polars


def _without_views(table: pa.Table) -> pa.Table:
    """Return a table with its string and binary views converted: Arrow's rows and Spark take no views."""
    schema = pa.schema([field.with_type(_without_view(field.type)) for field in table.schema])
    return table if schema.equals(table.schema) else table.cast(schema)


def _without_view(type_: pa.DataType) -> pa.DataType:
    """Return a type with offsets in place of views, also in structs, lists and dictionaries."""
    kinds = pa.types
    if kinds.is_string_view(type_) or kinds.is_binary_view(type_):
        return pa.string() if kinds.is_string_view(type_) else pa.binary()
    if kinds.is_dictionary(type_):
        return pa.dictionary(type_.index_type, _without_view(type_.value_type), type_.ordered)
    if kinds.is_struct(type_):
        return pa.struct([field.with_type(_without_view(field.type)) for field in type_])
    if kinds.is_list(type_) or kinds.is_large_list(type_):
        field = type_.value_field.with_type(_without_view(type_.value_type))
        return pa.list_(field) if kinds.is_list(type_) else pa.large_list(field)
    return type_


def _listed(keys: Any) -> list[Any]:
    if isinstance(keys, pa.ChunkedArray) or hasattr(type(keys), "tolist"):
        # `tolist` makes plain numbers of times in nanoseconds, and of a Series of pandas its own times.
        is_of_times = (
            getattr(keys, "ndim", 0) == 1 and getattr(getattr(keys, "dtype", None), "kind", "") == "M"
        )
        listed = keys.to_pylist() if isinstance(keys, pa.ChunkedArray) else keys.tolist()
        listed = list(keys) if is_of_times and any(isinstance(value, int) for value in listed) else listed
        if not isinstance(listed, list):
            raise wrong_type("keys", keys, _FORMS_OF_KEYS)
        return listed
    if isinstance(keys, (str, bytes, Mapping)) or not isinstance(keys, Iterable):
        raise wrong_type("keys", keys, _FORMS_OF_KEYS)
    try:
        return list(keys)
    except TypeError as wrong:  # a class may say that it can be iterated, and refuse
        raise wrong_type("keys", keys, _FORMS_OF_KEYS) from wrong


def _of_values(keys: Sequence[Any], on: Sequence[str] | None) -> pa.Table:
    if keys and all(isinstance(key, Mapping) for key in keys):
        # A field that a key lacks becomes NULL, which is refused later: no key has NULL.
        fields = list(dict.fromkeys(name for key in keys for name in key))
        return _table(fields, [[key.get(name) for key in keys] for name in fields])
    if on is None:
        raise UsageError(reason="keys have no names", hint="Name the columns of the key: on=...")
    if len(on) == 1 and not any(isinstance(key, tuple) for key in keys):
        return _table(on, [keys])
    if any(not isinstance(key, (tuple, list)) or len(key) != len(on) for key in keys):
        hint = f"Give each key as a tuple of {len(on)}."
        raise UsageError(reason=f"a key has not one value for each of {', '.join(on)}", hint=hint)
    return _table(on, [[key[place] for key in keys] for place in range(len(on))])


def _table(columns: Sequence[str], values: Sequence[Sequence[Any]]) -> pa.Table:
    try:
        return pa.table([arrow_array(_without_datetime64(listed)) for listed in values], names=list(columns))
    except OverflowError as error:
        hint = "Give a number of more than 64 bits as a decimal.Decimal."
        raise UsageError(reason=f"a key is too large a number: {error}", hint=hint) from error
    except (pa.ArrowException, UnicodeEncodeError) as error:
        hint = "Give the values of a key column in one type."
        raise UsageError(reason=f"keys are of several types: {error}", hint=hint) from error


def _without_datetime64(values: Sequence[Any]) -> Sequence[Any]:
    """Return values in which numpy's single days and times, of which Arrow makes no array, are Python's."""
    if not any(type(value).__name__ == "datetime64" for value in values):
        return values
    return [item_of(value, "a key") if type(value).__name__ == "datetime64" else value for value in values]
