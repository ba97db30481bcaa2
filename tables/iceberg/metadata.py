"""The metadata of an Iceberg table: which file is the current one, and what it says.

Each commit writes one metadata file, which says everything about the table. Tables of a Hadoop catalog number
these files; the hint is written after the commit, so greater numbers are looked for by name. Metadata names
absolute paths, and a copied table keeps those of its old location: what lies below it is looked for below the
folder that holds the metadata. Source: Iceberg specification, Table Metadata Fields, File System Tables,
Appendix C and E; HadoopTableOperations.

The versions of an Iceberg table: numbers of its snapshots that rise with commits, and their names.

A snapshot's id is random, so the number is made of what rises: from format version 2 on of the sequence
number, before of the time. Numbers are even. A head whose schema was changed after its last snapshot has the
odd number that follows, since a question of the head has the current schema, and one of the snapshot its own.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import MalformedLogError, NotATableError, UnsupportedFeatureError
from tailbit.base.once import once
from tailbit.tables.iceberg.words import CATALOG, LOG, WORDS
from tailbit.tables.model import Version
from tailbit.tables.storage import SMALL, Stat, Storage, open_storage

if TYPE_CHECKING:
    from tailbit.tables.iceberg.catalogs import CatalogTable

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):(//)?")
_ALIKE = {"s3a": "s3", "s3n": "s3"}


def plain(path: str) -> str:
    """Return a path in one spelling: without the scheme `file:`, and with one scheme per kind of store.

    >>> plain("file:///a/b"), plain("file:/a/b"), plain("s3a://bucket/a")
    ('/a/b', '/a/b', 's3://bucket/a')
    """
    match = _SCHEME.match(path)
    if match is None or (match[2] is None and match[1] != "file"):
        return path
    scheme, rest = match[1].lower(), path[match.end() :]
    return rest if scheme == "file" else f"{_ALIKE.get(scheme, scheme)}://{rest}"


def placed(location: str) -> tuple[str, str]:
    """Return the root of a table and the name of its metadata file below, by the file's location.

    >>> placed("file:///lake/t/metadata/1.metadata.json"), placed("s3a://b/meta/t/1.metadata.json")
    (('/lake/t', 'metadata/1.metadata.json'), ('s3://b/meta/t', '1.metadata.json'))
    """
    folder, _, name = plain(location).rpartition("/")
    root, _, last = folder.rpartition("/")
    return (root, f"{LOG}/{name}") if last == LOG else (folder, name)


class Location:
    """The location of a table as its metadata gives it, below which paths are relative to the root."""

    def __init__(self, location: str) -> None:
        self.text = location
        self._prefix = f"{plain(location).rstrip('/')}/"

    def all_below(self, paths: Sequence[str]) -> list[str]:
        """Return what `below` returns for each path; most are spelled as the location is."""
        prefix, size = f"{self.text.rstrip('/')}/", len(self.text.rstrip("/")) + 1
        return [
            path[size:] if path.startswith(prefix) and path[size : size + 1] != "/" else self.below(path)
            for path in paths
        ]

    def below(self, path: str) -> str:
        """Return a path relative to the root if it lies below the location, else an absolute path.

        >>> Location("file:/t").below("/t/data/a.parquet"), Location("/t").below("/u/a.parquet")
        ('data/a.parquet', '/u/a.parquet')
        """
        spelled = plain(path)
        inside = spelled.startswith(self._prefix)
        return spelled[len(self._prefix) :].lstrip("/") if inside else spelled


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
    version = content.get("format-version")
    if "view-uuid" in content or "view-version" in content:
        feature, hint = "the metadata of a view", "Give the table that the view reads."
    elif not isinstance(version, int):
        raise ValueError(f"its format version is {version!r}")
    elif not 1 <= version <= NEWEST:
        hint = f"Copy the rows into a table of format version {NEWEST}, or use a release that lists it."
        feature = f"format version {version}"
    elif content.get("encryption-keys"):
        hint = "Copy the rows into a table without encryption: no key is ever asked for."
        feature = "encryption"
    else:
        return
    now = content.get("current-snapshot-id", content.get("current-version-id", "none"))
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


HINT = f"{LOG}/version-hint.text"
_NUMBERED = re.compile(r"v([0-9]{1,18})(?:\.gz\.metadata\.json|\.metadata\.json(?:\.gz)?)")
_SUFFIXES = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz")
_OF_CATALOG = "it is a table of a catalog, and only the catalog knows which metadata file is the current one"
_GIVE_FILE = "Give its name, iceberg://catalog/namespace.table, or for a state its metadata file ({example})."


def is_metadata_file(path: str) -> bool:
    """Return whether a path is that of a metadata file."""
    return path.endswith((".metadata.json", ".metadata.json.gz"))


class Pointer:
    """The current metadata file of a table, parsed again only if it is another file.

    `given`: the name of the metadata file that was given in place of the table's folder, and stays current;
    or the URI of the table in a catalog.
    """

    def __init__(self, storage: Storage, given: str = "") -> None:
        self._storage, self._fixed = storage, given
        self._catalog: CatalogTable | None = None
        if given.startswith(CATALOG):
            from tailbit.tables.iceberg.catalogs import CatalogTable

            self._catalog = CatalogTable(given, storage.options)
        self._newest_look: tuple[Stat | None, TableMetadata] | None = None

    def look(self) -> TableMetadata:
        """Return the metadata that is current now. Cost: a few stats, or a request, if nothing has changed.

        Raises:
            NotATableError: there is no metadata file, or a catalog would have to say which is current.
            CatalogError: the catalog gives no answer.
            MalformedLogError, UnsupportedFeatureError: as `parse_metadata` does.
        """
        last_look = self._newest_look
        if self._catalog is not None:
            name = self._named_by(self._catalog)
            # A metadata file is never changed, so its name says which it is.
            if last_look is not None and name == last_look[1].file:
                return last_look[1]
        elif last_look is not None:
            stat = self._storage.stat(last_look[1].file)
            newer = None if self._fixed or stat is None else self._newer(last_look[1].file)
            if stat == last_look[0] and stat is not None and newer is None:
                return last_look[1]
            name = newer if stat is not None and newer is not None else self._find()
        else:
            name = self._find()
        while True:
            try:
                data, stat = self._storage.read_stated(name)
                break
            except FileNotFoundError:
                # A commit may delete old metadata files, so a file that is gone has successors.
                successor = self._successor()
                if successor is None or successor == name:
                    raise self._none("its metadata file is gone", "") from None
                name = successor
        metadata = parse_metadata(data, name, self._storage.root)
        self._newest_look = (stat, metadata)
        return metadata

    def _named_by(self, catalog: CatalogTable) -> str:
        """Return the name of the metadata file that a catalog names."""
        own, (root, name) = self._storage.root, placed(catalog.location())
        if own not in (root, open_storage(root, self._storage.options).root):
            hint = "Open it again: another folder is another table, with an index of its own."
            raise self._none(f"the catalog says that it now lies in {root}", hint)
        return name

    def _successor(self) -> str | None:
        """Return the name of the metadata file that followed one which is gone."""
        if self._catalog is None:
            return self._listed()
        self._catalog.forget()
        return self._named_by(self._catalog)

    def _find(self) -> str:
        """Return the name of the current metadata file."""
        if self._fixed:
            if self._storage.stat(self._fixed) is None:
                raise self._none(f"there is no file {self._fixed}", "Give the path of a metadata file.")
            return self._fixed
        try:
            hint = self._storage.read(HINT, SMALL).decode("utf-8", "replace").strip()
        except FileNotFoundError:
            hint = ""
        name = self._named(hint) if hint else None
        name = self._listed() if name is None else name
        if name is None:
            raise self._without()
        return self._newer(name) or name

    def _named(self, hint: str) -> str | None:
        """Return the metadata file that a hint names, by its number or its name; None if there is none."""
        if "/" in hint or hint.startswith(".") or not hint.isprintable():
            return None
        if hint.isdecimal():
            return self._numbered(int(hint))
        name = f"{LOG}/{hint if is_metadata_file(hint) else f'{hint}.metadata.json'}"
        return None if self._storage.stat(name) is None else name

    def _newer(self, name: str) -> str | None:
        """Return the last metadata file of those that follow a name without a gap; None if none does."""
        match, newest = _NUMBERED.fullmatch(name.rpartition("/")[2]), None
        number = 0 if match is None else int(match[1]) + 1
        while number and (following := self._numbered(number)) is not None:
            newest, number = following, number + 1
        return newest

    def _numbered(self, number: int) -> str | None:
        """Return the metadata file of a number; None if there is none. Cost: at most three stats."""
        names = [f"{LOG}/v{number}{suffix}" for suffix in _SUFFIXES]
        self._storage.look_at(names)
        return next((name for name in names if self._storage.stat(name) is not None), None)

    def _listed(self) -> str | None:
        """Return the metadata file with the greatest number. Cost: a listing."""
        matches = [m for e in self._storage.list(LOG) if (m := _NUMBERED.fullmatch(e.name))]
        newest = max(matches, key=lambda match: int(match[1]), default=None)
        return None if newest is None else f"{LOG}/{newest[0]}"

    def _without(self) -> NotATableError:
        names = [entry.name for entry in self._storage.list(LOG) if is_metadata_file(entry.name)]
        if not names:
            return self._none(f"it has no {HINT} and no numbered metadata file", "")
        example = f"{self._storage.root}/{LOG}/{names[-1]}"
        return self._none(_OF_CATALOG, _GIVE_FILE.format(example=example), is_there=True)

    def _none(self, reason: str, hint: str, is_there: bool = False) -> NotATableError:
        """Return the error for a folder without a table; `is_there`: with one that cannot be read so."""
        is_there = is_there or bool(self._fixed)
        return NotATableError(
            path=self._storage.root, reason=reason, kind=WORDS.kind, log=LOG, hint=hint, is_there=is_there
        )


_WITH_SEQUENCE = 1 << 43
"""Added to sequence numbers, so that snapshots of format version 1 are before all others."""
EMPTY: Version = 0
"""The version of a table before its first snapshot."""


class Versions:
    """The versions of one metadata file. The ancestors of the current snapshot are the table's history."""

    def __init__(self, metadata: TableMetadata) -> None:
        self.metadata = metadata
        self._numbers = _numbered(metadata)
        self._snapshots = {number: id_ for id_, number in self._numbers.items()}
        line: list[SnapshotEntry] = []
        entry = None if metadata.current is None else metadata.snapshots[metadata.current]
        seen: set[int] = set()
        while entry is not None and entry.id not in seen:
            seen.add(entry.id)
            line.append(entry)
            entry = None if entry.parent is None else metadata.snapshots.get(entry.parent)
        self.line = line[::-1]
        """The ancestors of the current snapshot that are not expired, oldest first, and the snapshot."""
        self.from_start = not line or line[-1].parent is None
        """Whether the line begins with the table's first snapshot."""
        self.numbers = [self._numbers[entry.id] for entry in self.line]
        self._positions_in_line = {number: place for place, number in enumerate(self.numbers)}

    @property
    def head(self) -> Version:
        """The newest version."""
        return self.of_branch(MAIN)

    @property
    def earliest(self) -> Version:
        """The oldest version of the line."""
        return self.numbers[0] if self.numbers else EMPTY

    def of_branch(self, name: str) -> Version:
        """Return the version of a branch, which is read with the current schema."""
        if self.metadata.current is None and name == MAIN:
            return EMPTY
        entry = self.metadata.snapshots[self.metadata.refs[name].snapshot]
        return self._numbers[entry.id] + (entry.schema not in (None, self.metadata.schema))

    def named(self, name: str) -> Version | None:
        """Return the version of a branch, a tag or the id of a snapshot; None if there is none."""
        ref = self.metadata.refs.get(name)
        if ref is not None and ref.snapshot in self._numbers:
            return self.of_branch(name) if ref.is_branch else self._numbers[ref.snapshot]
        return self._numbers.get(int(name)) if name.isdecimal() else None

    def of_id(self, id_: int) -> Version | None:
        """Return the version of a snapshot by its id; None if there is none of that id."""
        return self._numbers.get(id_)

    def entry(self, version: Version) -> SnapshotEntry | None:
        """Return the snapshot of a version; None if it is gone, or was never there."""
        id_ = self._snapshots.get(version - version % 2)
        return None if id_ is None else self.metadata.snapshots[id_]

    def is_empty(self, version: Version) -> bool:
        """Return whether a version is that before the first snapshot of the line."""
        return version == EMPTY and self.from_start

    def schema_of(self, version: Version) -> int:
        """Return the id of the schema that a version is read with."""
        entry = self.entry(version)
        own = None if entry is None or version % 2 else entry.schema
        return self.metadata.schema if own is None else own

    def place(self, version: Version) -> int | None:
        """Return the place of a version in the line; None if it is no ancestor of the head."""
        return self._positions_in_line.get(version - version % 2)

    def between(self, first: Version, last: Version) -> list[Version]:
        """Return the versions from `first` to `last`, which are bounds."""
        numbers = self.numbers[bisect_left(self.numbers, first) : bisect_right(self.numbers, last)]
        head = self.head
        if head % 2 and first <= head <= last:
            return [*numbers, head] if not numbers or numbers[-1] != head - 1 else [*numbers[:-1], head]
        if not self.numbers and first <= EMPTY <= last:
            return [EMPTY]
        return numbers

    @once
    def times(self) -> list[int]:
        """Return the time of each version of the line in ms, raised so that times strictly rise."""
        return list(accumulate((e.time_ms for e in self.line), lambda before, time: max(before + 1, time)))

    def time_of(self, version: Version) -> int | None:
        """Return the time of a version; None if it is gone."""
        place, entry = self.place(version), self.entry(version)
        if place is not None:
            return self.times[place]
        return 0 if self.is_empty(version) else None if entry is None else entry.time_ms

    def current_at(self, timestamp_ms: int) -> Version | None:
        """Return the version that was current at a time; None if that is not known any more.

        After a rollback, the log of the table names an older snapshot again.
        """
        log = self.metadata.log or [(entry.time_ms, entry.id) for entry in self.line]
        past = [id_ for time, id_ in log if time <= timestamp_ms]
        return self._numbers.get(past[-1]) if past else None

    def digest(self, version: Version) -> str | None:
        """Return a hash that identifies a version of the line; None for any other version."""
        in_line = self.place(version) is not None or self.is_empty(version)
        return self._digest(version) if in_line else None

    def took_back(self, version: Version, digest: str) -> bool:
        """Return whether a version has left the line, and values of its files are read as before.

        A path never gets other contents, but under another name mapping the values of a file may be others;
        of an expired snapshot nobody knows the mapping any more.
        """
        if self.place(version) is not None or self.is_empty(version):
            return False
        now = self._digest(version)
        return now == digest if now is not None else not self.metadata.name_mapping

    def _digest(self, version: Version) -> str | None:
        entry = self.entry(version)
        if entry is None and not self.is_empty(version):
            return None
        text = f"{entry.id} {entry.manifest_list} {entry.manifests}" if entry else "before the first snapshot"
        return hashlib.sha256(f"{text} {self.metadata.name_mapping}".encode()).hexdigest()


def _numbered(metadata: TableMetadata) -> dict[int, Version]:
    """Return the number of each snapshot by its id."""
    numbers, last = {}, 0
    for entry in metadata.snapshots.values():
        if entry.sequence:
            numbers[entry.id] = 2 * (_WITH_SEQUENCE + entry.sequence)
        else:
            last = max(last + 1, entry.time_ms)
            numbers[entry.id] = 2 * last
    return numbers
