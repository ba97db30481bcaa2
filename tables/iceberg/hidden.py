"""The rows that deletes hide from a data file, as a descriptor that travels to workers.

A deletion vector is a part of a Puffin file; position delete files name rows by path and position; equality
delete files hide the rows whose key columns equal one of theirs, where NULL equals NULL. Source: Iceberg
specification, Row-level Deletes; Puffin specification.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import DeletionVectorError, HiddenRowsError, MalformedLogError, StorageError
from tailbit.tables import compute as pc
from tailbit.tables.arrow import in_one, numpy_of
from tailbit.tables.cache import Cache, share
from tailbit.tables.iceberg.by_polars import rows_equal
from tailbit.tables.iceberg.paths import Location
from tailbit.tables.iceberg.schema import SchemaReader, key_columns
from tailbit.tables.model import Column, DataType
from tailbit.tables.parquet.data_file import open_data_file, read_columns
from tailbit.tables.positions import most_bytes
from tailbit.tables.storage import Storage
from tailbit.tables.vector_frame import FRAME, PORTABLE_MAGIC, portable, read_frame

FIELDS = ("id", "plan")
_PATH_ID, _POSITION_ID = 2147483546, 2147483545
_PATH = Column(("file_path",), ("file_path",), DataType("string"), field_ids=(_PATH_ID,))
_POSITION = Column(("pos",), ("pos",), DataType("long"), field_ids=(_POSITION_ID,))
_NAN_BITS = np.float64("nan").view(np.int64)
_LARGEST_ROW = (1 << 32) - 1

_POSITIONS: Cache[tuple[Storage, str, str], Mapping[str, BitMap]] = Cache(share(1 / 128))
"""Positions by path of data file, by storage, location of the table and path of the position delete file."""
_EQUAL: Cache[tuple[Storage, str], tuple[frozenset[str], BitMap]] = Cache(share(1 / 128))
"""The rows that equality delete files hide, by storage and data file: a later question adds to them."""


class Delete(NamedTuple):
    """A delete that applies to a data file.

    `rows`: row count of the delete file or vector. `offset`, `length`: the place of a vector, else None.
    `keys`: field ids of an equality delete file, else empty.
    """

    path: str
    rows: int
    offset: int | None
    length: int | None
    keys: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DeletedRows:
    """The rows of one data file that deletes hide.

    `id`: a hash of the data file's path and of the deletes that apply. `plan`: JSON of the data file's path,
    the table's location, the deletes, and the schema's fields that are keys of equality deletes.
    """

    id: str
    plan: str = field(compare=False, repr=False)

    @property
    def stored(self) -> dict[str, str]:
        """The descriptor by field name."""
        return {"id": self.id, "plan": self.plan}

    def _deletes(self) -> list[Delete]:
        listed = orjson.loads(self.plan)["deletes"]
        return [
            Delete(path, rows, offset, length, tuple(keys)) for path, rows, offset, length, keys in listed
        ]

    @property
    def cardinality(self) -> int | None:
        """The number of hidden rows if a deletion vector alone hides them."""
        deletes = self._deletes()
        return deletes[0].rows if len(deletes) == 1 and deletes[0].offset is not None else None

    def concerns(self, file: str, offset: object) -> bool:
        """Return whether an error that names a file and an offset is about one of the deletes."""
        return any((delete.path, delete.offset or 0) == (file, offset) for delete in self._deletes())

    def read(self, storage: Storage) -> BitMap:
        """Return the hidden rows.

        Cost: a range read per vector; a position delete file is read once per process; for equality deletes
        the key columns of the data file are read.

        Raises:
            HiddenRowsError: a delete file is missing, damaged, or does not fit the metadata.
        """
        plan, rows = orjson.loads(self.plan), BitMap()
        equality = []
        for delete in self._deletes():
            if delete.keys:
                equality.append(delete)
            elif delete.offset is not None:
                rows |= _vector(storage, delete)
            else:
                rows |= _positions(storage, delete, plan["location"]).get(plan["path"], BitMap())
        return rows | _equal_rows(storage, plan, equality) if equality else rows


def _vector(storage: Storage, delete: Delete) -> BitMap:
    offset, length = delete.offset or 0, delete.length or 0
    try:
        path, stat = storage.locate(delete.path)
        payload = read_frame(storage, path, stat, offset, length - FRAME)
        if struct.unpack_from("<i", payload) != (PORTABLE_MAGIC,):
            raise ValueError("its magic number is unknown")
        rows = portable(payload)
    except (ValueError, struct.error, EOFError, IndexError, MalformedLogError, FileNotFoundError) as wrong:
        gone = isinstance(wrong, FileNotFoundError)
        raise DeletionVectorError(file=delete.path, offset=offset, reason=str(wrong), gone=gone) from wrong
    except StorageError as refused:
        if storage.is_of_one_file(refused):
            reason = f"it cannot be read: {refused.fields.get('reason')}"
            raise DeletionVectorError(file=delete.path, offset=offset, reason=reason) from refused
        raise
    if len(rows) != delete.rows:
        reason = f"it hides {len(rows)} rows, the manifest says {delete.rows}"
        raise DeletionVectorError(file=delete.path, offset=offset, reason=reason)
    return rows


def _positions(storage: Storage, delete: Delete, location: str) -> Mapping[str, BitMap]:
    """Return the positions of a position delete file by path of data file; cached in the process."""

    def load() -> tuple[Mapping[str, BitMap], int]:
        table = _columns(storage, delete, (_PATH, _POSITION))
        paths, table_location = in_one(table[_PATH.id]).dictionary_encode(), Location(location)
        numbers, codes = numpy_of(in_one(table[_POSITION.id])), numpy_of(paths.indices)
        if len(numbers) and (numbers.min() < 0 or numbers.max() > _LARGEST_ROW):
            raise HiddenRowsError(file=delete.path, offset=0, reason="it has a position beyond 32 bits")
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], np.arange(len(paths.dictionary) + 1))
        out: dict[str, BitMap] = {}
        for number, path in enumerate(paths.dictionary.to_pylist()):
            chosen = numbers[order[ends[number] : ends[number + 1]]].astype(np.uint32)
            name = table_location.below(path)
            out[name] = out.get(name, BitMap()) | BitMap(chosen)
        return out, sum(map(most_bytes, out.values()))

    return _POSITIONS.get((storage, location, delete.path), load)


def _columns(storage: Storage, delete: Delete, columns: Sequence[Column]) -> pa.Table:
    """Read columns of a delete file.

    Raises:
        HiddenRowsError: the file is missing, damaged, or has another number of rows than the manifest says.
    """
    from tailbit.base.errors import DataFileError

    try:
        file = open_data_file(storage, delete.path)
        table = read_columns(file, columns)
    except DataFileError as wrong:
        gone = "missing" in str(wrong)
        reason = str(wrong.fields.get("reason"))
        raise HiddenRowsError(file=delete.path, offset=0, reason=reason, gone=gone) from wrong
    if table.num_rows != delete.rows:
        reason = f"it has {table.num_rows} rows, the manifest says {delete.rows}"
        raise HiddenRowsError(file=delete.path, offset=0, reason=reason)
    return table


def _equal_rows(storage: Storage, plan: Mapping[str, Any], deletes: Sequence[Delete]) -> BitMap:
    """Return the rows of a data file whose keys equal a row of a delete file.

    The rows that some of the delete files hide may be evaluated already; the others are added to them.
    """
    key, names = (storage, plan["path"]), frozenset(delete.path for delete in deletes)
    evaluated = _EQUAL.take(key)
    done, rows = evaluated if evaluated is not None and evaluated[0] <= names else (frozenset(), BitMap())
    path, reader = plan["path"], SchemaReader(plan["mapping"], plan["identities"])
    by_keys: dict[tuple[int, ...], list[Delete]] = {}
    for delete in deletes:
        if delete.path not in done:
            by_keys.setdefault(tuple(sorted(delete.keys)), []).append(delete)
    for ids, alike in by_keys.items():
        columns = key_columns(plan["fields"], ids, reader)
        key_rows = pa.concat_tables([_keys(_columns(storage, delete, columns)) for delete in alike])
        numbers = rows_equal(_keys(read_columns(open_data_file(storage, path), columns)), key_rows)
        rows = rows | BitMap(numbers)
    _EQUAL.hold(key, (names, rows), most_bytes(rows))
    return rows.copy()


def _keys(table: pa.Table) -> pa.Table:
    """Return key columns as values that are equal where Java takes them to be equal.

    A float is its bits, and every NaN has the same bits; a decimal is its text.
    """
    return pa.table([_comparable(in_one(column)) for column in table.columns], names=table.column_names)


def _comparable(values: pa.Array) -> pa.Array:
    if pa.types.is_floating(values.type):
        doubles = pc.cast(values, pa.float64())
        bits = numpy_of(pc.fill_null(doubles, 0.0)).view(np.int64).copy()
        bits[numpy_of(pc.fill_null(pc.is_nan(doubles), False), dtype=bool)] = _NAN_BITS
        return pa.array(bits, mask=numpy_of(pc.is_null(values), dtype=bool))
    return pc.cast(values, pa.string()) if pa.types.is_decimal(values.type) else values
