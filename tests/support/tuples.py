"""Indexes of several terms together, and their keys as tuples of values."""

from __future__ import annotations

import pyarrow as pa

from support.tables import index_of
from tailbit.index.keys import decode_keys, encode_array
from tailbit.index.maintenance.alter import alter
from tailbit.index.model import BITMAP, Definition, new_id
from tailbit.index.sql.terms import term_of
from tailbit.index.store.table import MetadataTable
from tailbit.index.tuple_keys import join_parts, split_parts, types_of
from tailbit.tables.model import DataType
from tailbit.tables.open import open_table


def define_tuples(path: str, *terms: str) -> Definition:
    """Add an index of some terms together to the index of a table, and build it."""
    schema = open_table(path).snapshot().schema
    definition = Definition(new_id(), "+".join(terms), BITMAP, tuple(term_of(term, schema) for term in terms))
    alter(MetadataTable.open(f"{path}/_tailbit"), [definition], [])
    index_of(path)
    return definition


def encode_tuples(values: pa.StructArray, key_type: str) -> pa.BinaryArray:
    """The keys of tuples, one field per part. A NULL in place of a tuple is a tuple of NULLs."""
    pairs = zip(values.flatten(), types_of(key_type), strict=True)
    return join_parts([encode_array(part, type_) for part, type_ in pairs], key_type)


def decode_tuples(keys: pa.BinaryArray, key_type: str, type_: DataType) -> pa.StructArray:
    """The tuples of keys, one field per part, of a logical type of that key type.

    Raises:
        ValueError: a part is truncated and does not hold its value.
    """
    parts = zip(split_parts(keys, key_type), types_of(key_type), type_.fields, strict=True)
    values = [decode_keys(part, part_type, field.type) for part, part_type, field in parts]
    return pa.StructArray.from_arrays(values, [field.name[0] for field in type_.fields])
