"""Which deletes apply to a data file, and the rows that they hide, as descriptors for workers.

A deletion vector is a part of a Puffin file; position delete files name rows by path and position; equality
delete files hide the rows whose key columns equal one of theirs, where NULL equals NULL. What counts is the
data sequence number: a compaction may keep an older one, so that deletes which were committed meanwhile still
apply. Source: Iceberg specification, Row-level Deletes, Scan Planning; Puffin; DeleteFileIndex.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import DataFileError, HiddenRowsError, MalformedLogError, UnsupportedFeatureError
from tailbit.tables import compute as pc
from tailbit.tables.arrow import in_one, numpy_of
from tailbit.tables.cache import Cache, share
from tailbit.tables.iceberg.avro import rows_equal
from tailbit.tables.iceberg.manifests import EQUALITY, STATS
from tailbit.tables.iceberg.metadata import Location, TableMetadata
from tailbit.tables.iceberg.schema import SchemaReader, fields_by_id, key_columns
from tailbit.tables.model import Column, DataType
from tailbit.tables.parquet.data_file import open_data_file, read_columns
from tailbit.tables.positions import FRAME, PORTABLE_MAGIC, checked_vector, most_bytes, portable, read_frame
from tailbit.tables.storage import Storage

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
    `keys`: field ids of an equality delete file, else empty. `sequence`: its data sequence number.
    """

    path: str
    rows: int
    offset: int | None
    length: int | None
    keys: tuple[int, ...]
    sequence: int = 0


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
        return [Delete(path, rows, start, size, tuple(keys)) for path, rows, start, size, keys in listed]

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

    def read() -> BitMap:
        payload = read_frame(storage, *storage.locate(delete.path), offset, length - FRAME)
        if struct.unpack_from("<i", payload) != (PORTABLE_MAGIC,):
            raise ValueError("its magic number is unknown")
        return portable(payload)

    return checked_vector(storage, delete.path, offset, delete.rows, read)


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
    """Read columns of a delete file."""
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


HIDDEN = pa.struct([(name, pa.string()) for name in FIELDS])
_DECISIVE = ("spec", "sequence", "partition")
"""What of the statistics of a data file decides which deletes apply to it."""
_EVERYWHERE = (-1, ())
"""The partition of equality deletes of an unpartitioned spec, which apply to files of every spec."""
Partition = tuple[int, tuple[Any, ...]]


class Deletes:
    """The deletes of a snapshot, by what they apply to."""

    def __init__(
        self, entries: Iterable[Mapping[str, Any]], metadata: TableMetadata, root: str, snapshot: object
    ) -> None:
        self._metadata, self._snapshot = metadata, snapshot
        self._vectors: dict[str, Delete] = {}
        self._of_file: dict[str, list[Delete]] = {}
        self._of_partition: dict[Partition, list[Delete]] = {}
        self._equal: dict[Partition, list[Delete]] = {}
        for entry in entries:
            self._add(entry, root)
        fields = fields_by_id(metadata.schemas, metadata.schema) if self._equal else {}
        ids = {id_ for equal in self._equal.values() for delete in equal for id_ in delete.keys}
        for id_ in ids - fields.keys():
            raise MalformedLogError(file=metadata.file, reason=f"no schema has field {id_}, a key of deletes")
        self._fields = {str(id_): fields[id_] for id_ in sorted(ids)}

    def _add(self, entry: Mapping[str, Any], root: str) -> None:
        stats, format_ = entry["stats"], str(entry["format"]).upper()
        is_equality = entry["content"] == EQUALITY
        if format_ not in (("PARQUET",) if is_equality else ("PARQUET", "PUFFIN")):
            kind = "an equality" if is_equality else "a position"
            raise UnsupportedFeatureError(
                path=root,
                version=self._snapshot,
                feature=f"{kind} delete file in {format_} ({entry['path']})",
                hint="Compact the deletes away (CALL rewrite_data_files), or write delete files in Parquet.",
            )
        is_vector = format_ == "PUFFIN"
        offset, length = (entry["offset"], entry["length"]) if is_vector else (None, None)
        keys = tuple(entry["keys"] or ()) if is_equality else ()
        added = Delete(entry["path"], entry["rows"], offset, length, keys, stats["sequence"])
        partition = _partition(stats)
        if is_vector:
            self._add_vector(entry, added)
        elif is_equality:
            if not keys:
                raise MalformedLogError(file=entry["path"], reason="it is an equality delete without keys")
            everywhere = all(f["transform"] == "void" for f in stats["partition"] or ())
            self._equal.setdefault(_EVERYWHERE if everywhere else partition, []).append(added)
        else:
            path = entry["concerns"] or self._only_file(stats)
            if path is None:
                self._of_partition.setdefault(partition, []).append(added)
            else:
                self._of_file.setdefault(path, []).append(added)

    def _add_vector(self, entry: Mapping[str, Any], added: Delete) -> None:
        path = entry["concerns"]
        if path is None or added.offset is None or added.length is None:
            raise MalformedLogError(file=entry["path"], reason="a deletion vector of it has no file or place")
        if path in self._vectors:
            raise MalformedLogError(file=entry["path"], reason=f"{path} has two deletion vectors")
        self._vectors[path] = added

    def _only_file(self, stats: Mapping[str, Any]) -> str | None:
        """Return the data file that all rows of a position delete file name, by its bounds."""
        low, high = (
            next((bound["value"] for bound in stats[end] or () if bound["key"] == _PATH_ID), None)
            for end in ("lower", "upper")
        )
        return self._metadata.location.below(low.decode()) if low is not None and low == high else None

    def of(self, entries: pa.Table) -> pa.Array:
        """Return the stored deletes that apply to each data file; null if there are none."""
        if not (self._vectors or self._of_file or self._of_partition or self._equal):
            return pa.nulls(entries.num_rows, HIDDEN)
        fields = (pc.struct_field(entries["stats"], [STATS.get_field_index(name)]) for name in _DECISIVE)
        decisive = zip(*(column.to_pylist() for column in fields), strict=True)
        stats = (dict(zip(_DECISIVE, row, strict=True)) for row in decisive)
        rows = zip(entries["path"].to_pylist(), stats, strict=True)
        return pa.array([self._stored(path, self._applying(path, stats)) for path, stats in rows], HIDDEN)

    def _applying(self, path: str, stats: Mapping[str, Any]) -> list[Delete]:
        sequence, partition = stats["sequence"], _partition(stats)
        vector = self._vectors.get(path)
        if vector is not None and sequence <= vector.sequence:
            out = [vector]
        else:
            of_rows = [*self._of_file.get(path, ()), *self._of_partition.get(partition, ())]
            out = [delete for delete in of_rows if sequence <= delete.sequence]
        equal = [*self._equal.get(partition, ()), *self._equal.get(_EVERYWHERE, ())]
        return out + [delete for delete in equal if sequence < delete.sequence]

    def _stored(self, path: str, deletes: Sequence[Delete]) -> dict[str, str] | None:
        if not deletes:
            return None
        deletes = sorted(deletes, key=lambda delete: (delete.path, delete.offset or 0))
        keys = {str(id_) for delete in deletes for id_ in delete.keys}
        fields = {id_: field for id_, field in self._fields.items() if id_ in keys}
        applied = orjson.dumps([path, *((delete.path, delete.offset) for delete in deletes)])
        plan = {
            "path": path,
            "location": self._metadata.location.text,
            "deletes": [list(delete[:-1]) for delete in deletes],
            "fields": fields,
            "mapping": self._metadata.name_mapping if keys else "",
            "identities": sorted(self._metadata.identities) if keys else [],
        }
        return {"id": hashlib.sha256(applied).hexdigest()[:32], "plan": orjson.dumps(plan).decode()}


def _partition(stats: Mapping[str, Any]) -> Partition:
    return stats["spec"], tuple(field["value"] for field in stats["partition"] or ())
