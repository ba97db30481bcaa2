"""Which deletes apply to which data file.

What counts is the data sequence number: a compaction may keep an older one, so that deletes which were
committed meanwhile still apply. Source: Iceberg specification, Scan Planning; DeleteFileIndex.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson
import pyarrow as pa

from tailbit.base.errors import MalformedLogError, UnsupportedFeatureError
from tailbit.tables import compute as pc
from tailbit.tables.iceberg.hidden import FIELDS, Delete
from tailbit.tables.iceberg.manifests import EQUALITY, STATS
from tailbit.tables.iceberg.metadata import TableMetadata
from tailbit.tables.iceberg.schema import fields_by_id

HIDDEN = pa.struct([(name, pa.string()) for name in FIELDS])
_PATH_ID = 2147483546
_DECISIVE = ("spec", "sequence", "partition")
"""What of the statistics of a data file decides which deletes apply to it."""
_EVERYWHERE = (-1, ())
"""The partition of equality deletes of an unpartitioned spec, which apply to files of every spec."""
Partition = tuple[int, tuple[Any, ...]]


class _Entry(NamedTuple):
    sequence: int
    delete: Delete


class Deletes:
    """The deletes of a snapshot, by what they apply to."""

    def __init__(self, entries: Iterable[Mapping[str, Any]], metadata: TableMetadata, root: str) -> None:
        self._metadata = metadata
        self._vectors: dict[str, _Entry] = {}
        self._of_file: dict[str, list[_Entry]] = {}
        self._of_partition: dict[Partition, list[_Entry]] = {}
        self._equal: dict[Partition, list[_Entry]] = {}
        for entry in entries:
            self._add(entry, root)
        fields = fields_by_id(metadata.schemas, metadata.schema) if self._equal else {}
        ids = {
            id_
            for equal in self._equal.values()
            for applied_entry in equal
            for id_ in applied_entry.delete.keys
        }
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
                version="of the table",
                feature=f"{kind} delete file in {format_} ({entry['path']})",
                hint="Compact the deletes away (CALL rewrite_data_files), or write delete files in Parquet.",
            )
        is_vector = format_ == "PUFFIN"
        added = _Entry(
            stats["sequence"],
            Delete(
                entry["path"],
                entry["rows"],
                entry["offset"] if is_vector else None,
                entry["length"] if is_vector else None,
                tuple(entry["keys"] or ()) if is_equality else (),
            ),
        )
        partition = _partition(stats)
        if is_vector:
            self._add_vector(entry, added)
        elif is_equality:
            if not added.delete.keys:
                raise MalformedLogError(file=entry["path"], reason="it is an equality delete without keys")
            everywhere = all(f["transform"] == "void" for f in stats["partition"] or ())
            self._equal.setdefault(_EVERYWHERE if everywhere else partition, []).append(added)
        else:
            path = entry["concerns"] or self._only_file(stats)
            if path is None:
                self._of_partition.setdefault(partition, []).append(added)
            else:
                self._of_file.setdefault(path, []).append(added)

    def _add_vector(self, entry: Mapping[str, Any], added: _Entry) -> None:
        path = entry["concerns"]
        if path is None or added.delete.offset is None or added.delete.length is None:
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

    def __bool__(self) -> bool:
        return bool(self._vectors or self._of_file or self._of_partition or self._equal)

    def of(self, entries: pa.Table) -> pa.Array:
        """Return the stored deletes that apply to each data file; null if there are none."""
        if not self:
            return pa.nulls(entries.num_rows, HIDDEN)
        named = [pc.struct_field(entries["stats"], [STATS.get_field_index(name)]) for name in _DECISIVE]
        stats = (dict(zip(_DECISIVE, row, strict=True)) for row in zip(*map(_listed, named), strict=True))
        rows = zip(entries["path"].to_pylist(), stats, strict=True)
        return pa.array([self._stored(path, self._applying(path, stats)) for path, stats in rows], HIDDEN)

    def _applying(self, path: str, stats: Mapping[str, Any]) -> list[Delete]:
        sequence, partition = stats["sequence"], _partition(stats)
        vector = self._vectors.get(path)
        if vector is not None and sequence <= vector.sequence:
            out = [vector.delete]
        else:
            of_rows = [*self._of_file.get(path, ()), *self._of_partition.get(partition, ())]
            out = [applied_entry.delete for applied_entry in of_rows if sequence <= applied_entry.sequence]
        equal = [*self._equal.get(partition, ()), *self._equal.get(_EVERYWHERE, ())]
        return out + [applied_entry.delete for applied_entry in equal if sequence < applied_entry.sequence]

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
            "deletes": [list(delete) for delete in deletes],
            "fields": fields,
            "mapping": self._metadata.name_mapping if keys else "",
            "identities": sorted(self._metadata.identities) if keys else [],
        }
        return {"id": hashlib.sha256(applied).hexdigest()[:32], "plan": orjson.dumps(plan).decode()}


def _listed(column: pa.ChunkedArray) -> list[Any]:
    values: list[Any] = column.to_pylist()
    return values


def _partition(stats: Mapping[str, Any]) -> Partition:
    return stats["spec"], tuple(field["value"] for field in stats["partition"] or ())
