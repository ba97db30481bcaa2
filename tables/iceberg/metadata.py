"""The metadata file of an Iceberg table: its schemas, partition specs, snapshots, branches and tags.

Each commit writes one metadata file, which says everything about the table: older ones are never read.
Source: Iceberg specification, Table Metadata Fields, and Appendix C and E for what older versions lack.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import MalformedLogError, UnsupportedFeatureError
from tailbit.base.once import once
from tailbit.tables.iceberg.paths import Location

NEWEST = 3
"""The newest format version that is read."""
MAIN = "main"
_GZIP = b"\x1f\x8b"
_FIRST_PARTITION_FIELD = 1000


class Ref(NamedTuple):
    """A branch or a tag: the id of its snapshot."""

    snapshot: int
    is_branch: bool


class SnapshotEntry(NamedTuple):
    """A snapshot in the metadata; `manifests`: paths that snapshots of format version 1 may hold themselves.

    `sequence`: 0 in format version 1. `schema`: None if the snapshot does not say.
    """

    id: int
    parent: int | None
    sequence: int
    time_ms: int
    schema: int | None
    manifest_list: str
    manifests: tuple[str, ...]
    summary: Mapping[str, str]


class PartitionField(NamedTuple):
    """A field of a partition spec: its id, the id of its source column, and its transform."""

    id: int
    source: int
    transform: str


@dataclass(frozen=True, eq=False)
class TableMetadata:
    """What one metadata file says; `schemas` and their fields are as the JSON has them."""

    file: str
    uuid: str
    location: Location
    version: int
    schemas: Mapping[int, Mapping[str, Any]]
    schema: int
    specs: Mapping[int, Sequence[PartitionField]]
    snapshots: Mapping[int, SnapshotEntry]
    current: int | None
    refs: Mapping[str, Ref]
    log: Sequence[tuple[int, int]]
    properties: Mapping[str, str]

    @once
    def identities(self) -> frozenset[int]:
        """Return the ids of the fields that are partition fields as they are, in any spec."""
        fields = (field for spec in self.specs.values() for field in spec)
        return frozenset(field.source for field in fields if field.transform == "identity")

    @property
    def name_mapping(self) -> str:
        """The JSON of the names of fields in files without field ids; empty if there is none."""
        return self.properties.get("schema.name-mapping.default", "")


def parse_metadata(data: bytes, file: str, root: str) -> TableMetadata:
    """Parse a metadata file, gzipped or not.

    Raises:
        MalformedLogError: the file is damaged.
        UnsupportedFeatureError: the table is encrypted, is a view, or has a format version that is not read.
    """
    try:
        content = orjson.loads(gzip.decompress(data) if data.startswith(_GZIP) else data)
        if not isinstance(content, dict):
            raise ValueError("it is not a JSON object")
        _check(content, root)
        return _parsed(content, file)
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, OSError, zlib.error) as wrong:
        reason = f"it lacks {wrong}" if isinstance(wrong, KeyError) else str(wrong)
        raise MalformedLogError(file=file, reason=reason) from wrong


def _check(content: Mapping[str, Any], root: str) -> None:
    """Refuse tables that are not read."""
    version, feature = content.get("format-version"), ""
    if "view-uuid" in content or "view-version" in content:
        feature, hint = "the metadata of a view", "Give the table that the view reads."
    elif not isinstance(version, int):
        raise ValueError(f"its format version is {version!r}")
    elif not 1 <= version <= NEWEST:
        feature = f"format version {version}"
        hint = (
            f"Copy the rows into a table of format version {NEWEST}, or use a tailbit release that lists it."
        )
    elif content.get("encryption-keys"):
        feature, hint = (
            "encryption",
            "Copy the rows into a table without encryption: no key is ever asked for.",
        )
    if feature:
        now = content.get("current-snapshot-id") or "of no snapshot"
        raise UnsupportedFeatureError(path=root, version=now, feature=feature, hint=hint)


def _parsed(content: Mapping[str, Any], file: str) -> TableMetadata:
    schemas = content.get("schemas") or [{"schema-id": 0, **content["schema"]}]
    specs = content.get("partition-specs") or [{"spec-id": 0, "fields": content.get("partition-spec") or []}]
    current = content.get("current-snapshot-id")
    current = None if current in (None, -1) else int(current)
    snapshots = {entry.id: entry for entry in map(_snapshot, content.get("snapshots") or ())}
    if current is not None and current not in snapshots:
        raise ValueError(f"it has no snapshot {current}, which it calls the current one")
    refs = {
        name: Ref(int(ref["snapshot-id"]), ref["type"] == "branch")
        for name, ref in (content.get("refs") or {}).items()
    }
    if current is not None:
        refs[MAIN] = Ref(current, True)
    location = str(content["location"])
    return TableMetadata(
        file=file,
        uuid=str(content.get("table-uuid") or location),
        location=Location(location),
        version=content["format-version"],
        schemas={int(schema.get("schema-id", 0)): schema for schema in schemas},
        schema=int(content.get("current-schema-id", schemas[-1].get("schema-id", 0))),
        specs={int(spec["spec-id"]): _fields(spec["fields"]) for spec in specs},
        snapshots=snapshots,
        current=current,
        refs=refs,
        log=[(int(e["timestamp-ms"]), int(e["snapshot-id"])) for e in content.get("snapshot-log") or ()],
        properties={str(key): str(value) for key, value in (content.get("properties") or {}).items()},
    )


def _snapshot(entry: Mapping[str, Any]) -> SnapshotEntry:
    parent, schema = entry.get("parent-snapshot-id"), entry.get("schema-id")
    return SnapshotEntry(
        id=int(entry["snapshot-id"]),
        parent=None if parent in (None, -1) else int(parent),
        sequence=int(entry.get("sequence-number") or 0),
        time_ms=int(entry["timestamp-ms"]),
        schema=None if schema is None else int(schema),
        manifest_list=str(entry.get("manifest-list") or ""),
        manifests=tuple(map(str, entry.get("manifests") or ())),
        summary=dict(entry.get("summary") or {}, **({"key-id": "1"} if entry.get("key-id") else {})),
    )


def _fields(fields: Sequence[Mapping[str, Any]]) -> list[PartitionField]:
    """Return the fields of a spec; format version 1 may leave their ids out, which then count from 1000."""
    return [
        PartitionField(
            int(field.get("field-id", _FIRST_PARTITION_FIELD + number)),
            int(field["source-id"] if "source-id" in field else field["source-ids"][0]),
            str(field["transform"]) if len(field.get("source-ids") or ()) < 2 else "unknown",
        )
        for number, field in enumerate(fields)
    ]
