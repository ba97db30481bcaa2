"""The actions of one commit: parsed, checked, grouped by path.

A commit may hold no action: some writers die after they have made its file. A byte order mark before a line
is no part of it. What no answer needs (statistics, the size and the time of a file) may be missing.

The lines of a commit have no order. Per path at most one add and one remove count; both together change the
hidden rows, an add of a live file replaces its statistics. Unknown actions and fields are ignored.
Paths come out percent-decoded once. Source: Delta protocol, Actions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from tailbit.errors import MalformedLogError
from tailbit.tables.delta.deletion_vectors import DeletionVector
from tailbit.tables.delta.log.protocol import Protocol
from tailbit.tables.delta.paths import decode_path
from tailbit.tables.delta.statistics import DeltaStatistics, num_records
from tailbit.tables.model import UNKNOWN_SIZE, FileSlice

_INTEGERS = 2**31
"""Offset and size of a deletion vector are below this: Delta's type of both is integer."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

NO_COLUMNS = '{"type":"struct","fields":[]}'
"""The schema of a table whose metadata sets none."""


@dataclass(frozen=True)
class Metadata:
    """A metaData action: table id, schema text, partition columns, properties.

    The first commits of some writers (Delta Live Tables) set no schema yet: that is a table of no columns.
    """

    id: str
    schema_text: str
    partition_columns: tuple[str, ...]
    configuration: Mapping[str, str]

    @classmethod
    def parse(cls, action: Mapping[str, Any], file: str) -> Metadata:
        """The metadata of a log action.

        Raises:
            MalformedLogError: the id is missing, or the schema, partition columns or properties are
            of another type.
        """
        id_, text = action.get("id"), action.get("schemaString")
        partitions, settings = action.get("partitionColumns"), action.get("configuration")
        if isinstance(settings, list) and all(isinstance(pair, tuple) for pair in settings):
            settings = dict(settings)
        text = NO_COLUMNS if text is None else text
        if not isinstance(id_, str) or not isinstance(text, str):
            raise MalformedLogError(file=file, reason="metaData lacks an id, or its schema is not text")
        if not isinstance(partitions, list) or not all(isinstance(p, str) for p in partitions):
            raise MalformedLogError(file=file, reason="partitionColumns is not a list of names")
        if not isinstance(settings, dict):
            raise MalformedLogError(file=file, reason="configuration is not an object")
        kept = {str(k): str(v) for k, v in settings.items() if v is not None}
        return cls(id_, text, tuple(partitions), kept)


@dataclass
class Actions:
    """What one commit (or JSON manifest) says. `adds` and `removes` are by decoded path."""

    adds: dict[str, FileSlice] = field(default_factory=dict)
    removes: dict[str, FileSlice] = field(default_factory=dict)
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    info: Mapping[str, Any] = field(default_factory=dict)
    sidecars: list[str] = field(default_factory=list)
    blank: bool = False
    """Whether there is no action at all, not even an unknown one."""
    unvalued: str = ""
    """The path of an add without partition values, which only a table without partitions may have."""

    def outcome(self) -> dict[str, FileSlice | None]:
        """Per path that the commit names, its slice afterwards, None where it is gone.

        An add wins over a remove of the same path.
        """
        return {**dict.fromkeys(self.removes), **self.adds}

    @property
    def operation(self) -> str:
        """What the writer says it did, e.g. WRITE; empty where it says nothing."""
        found = self.info.get("operation")
        return found if isinstance(found, str) else ""

    @property
    def in_commit_timestamp(self) -> int | None:
        """The commit's own time in ms, where it carries one."""
        found = self.info.get("inCommitTimestamp")
        return found if isinstance(found, int) and not isinstance(found, bool) else None


def parse_actions(data: bytes, file: str) -> Actions:
    """The actions of a commit's bytes. Cost: one JSON parse a line; statistics stay text.

    Raises:
        MalformedLogError: a line that is no JSON object, or a known action with impossible fields.
    """
    out = Actions(blank=True)
    for name, action in _lines(data, file):
        out.blank = False
        if name == "add":
            _put(out.adds, parse_add(action, file), file)
            if action.get("partitionValues") is None:
                out.unvalued = action["path"]
        elif name == "remove":
            _put(out.removes, parse_remove(action, file), file)
        elif name == "protocol":
            out.protocol = Protocol.parse(action, file)
        elif name == "metaData":
            out.metadata = Metadata.parse(action, file)
            _check_objects(action, file)
        elif name == "commitInfo":
            out.info = action
        elif name == "sidecar":
            out.sidecars.append(_text(action, "path", file))
    for path in out.adds.keys() & out.removes.keys():
        if out.adds[path].hidden_id == out.removes[path].hidden_id:
            raise MalformedLogError(
                file=file, reason=f"it adds and removes {path!r} with the same hidden rows"
            )
    return out


def _check_objects(action: Mapping[str, Any], file: str) -> None:
    """Refuse a metaData without properties or format, as Spark and delta-kernel do.

    Neither reads the format's provider: data files are Parquet.
    """
    found = action.get("format")
    if not isinstance(action.get("configuration"), dict):
        raise MalformedLogError(file=file, reason="configuration is not an object")
    if not isinstance(found, dict) or not isinstance(found.get("options"), dict):
        raise MalformedLogError(file=file, reason=f"format {found!r} is not an object with options")


def _lines(data: bytes, file: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, text in enumerate(data.split(b"\n"), 1):
        line = text.removeprefix(_BYTE_ORDER_MARK).strip()
        if not line:
            continue
        try:
            action = orjson.loads(line)
        except ValueError as wrong:
            raise MalformedLogError(file=file, reason=f"line {number} is not JSON: {wrong}") from wrong
        if not isinstance(action, dict):
            raise MalformedLogError(file=file, reason=f"line {number} is not a JSON object")
        for name, body in action.items():
            if isinstance(body, dict):
                yield name, body
            elif body is not None and name in ("add", "remove", "protocol", "metaData"):
                raise MalformedLogError(file=file, reason=f"line {number}: {name} is not an object")


def _put(into: dict[str, FileSlice], slice_: FileSlice, file: str) -> None:
    before = into.setdefault(slice_.path, slice_)
    if before.hidden_id != slice_.hidden_id:
        raise MalformedLogError(
            file=file, reason=f"path {slice_.path!r} occurs twice with other deletion vectors"
        )
    into[slice_.path] = slice_


def parse_add(action: Mapping[str, Any], file: str) -> FileSlice:
    """Return the file slice of an add action. Statistics that are no text are set aside, under some text."""
    stats = action.get("stats")
    if stats is not None and not isinstance(stats, str):
        stats = f"no text: {stats!r}"
    return FileSlice(
        path=decode_path(_text(action, "path", file), file),
        size=max(UNKNOWN_SIZE, _whole(action, "size", file)),
        mtime=_whole(action, "modificationTime", file),
        rows=num_records(stats),
        partition=_partition(action.get("partitionValues"), file),
        hidden=parse_deletion_vector(action.get("deletionVector"), file),
        stats=DeltaStatistics(stats) if stats else None,
    )


def parse_remove(action: Mapping[str, Any], file: str) -> FileSlice:
    """The file slice of a remove action: size 0 and no partition where an old writer left them out."""
    size = action.get("size")
    return FileSlice(
        path=decode_path(_text(action, "path", file), file),
        size=size if isinstance(size, int) else 0,
        mtime=0,
        rows=None,
        partition=_partition(action.get("partitionValues"), file),
        hidden=parse_deletion_vector(action.get("deletionVector"), file),
    )


def parse_deletion_vector(found: Any, file: str) -> DeletionVector | None:
    """The descriptor of an add or remove; None where there is none (some writers leave empty ones).

    Raises:
        MalformedLogError: fields are missing, or a storage type other than u, p and i.
    """
    if not found:
        return None
    if not isinstance(found, dict):
        raise MalformedLogError(file=file, reason="a deletion vector is not an object")
    kind = found.get("storageType")
    if not kind:
        return None
    offset = found.get("offset")
    if kind not in ("u", "p", "i"):
        raise MalformedLogError(file=file, reason=f"deletion vector storage type {kind!r} is unknown")
    if offset is not None and not (type(offset) is int and 0 <= offset < _INTEGERS):
        raise MalformedLogError(file=file, reason=f"deletion vector offset {offset!r} is not a position")
    size = _number(found, "sizeInBytes", file)
    if size >= _INTEGERS:
        raise MalformedLogError(file=file, reason=f"a deletion vector of {size} bytes is none")
    return DeletionVector(
        storage_type=kind,
        path_or_inline=_text(found, "pathOrInlineDv", file),
        offset=offset,
        size=size,
        cardinality=_number(found, "cardinality", file),
    )


def _partition(found: Any, file: str) -> Mapping[str, str | None]:
    """Return partition values as texts. A whole number or a truth value is taken for its JSON text."""
    if found is None:
        return {}
    if not isinstance(found, dict) or not all(isinstance(v, _PARTITION_TEXTS) for v in found.values()):
        raise MalformedLogError(file=file, reason="partitionValues is not an object of texts")
    if all(v is None or isinstance(v, str) for v in found.values()):
        return found
    return {k: v if v is None or isinstance(v, str) else json.dumps(v) for k, v in found.items()}


_PARTITION_TEXTS = (str, int, type(None))


def _text(action: Mapping[str, Any], key: str, file: str) -> str:
    found = action.get(key)
    if not isinstance(found, str):
        raise MalformedLogError(file=file, reason=f"{key} is {found!r}, not text")
    return found


def _whole(action: Mapping[str, Any], key: str, file: str) -> int:
    """Return a number that no answer needs: 0 where it is missing, of any sign where it is there."""
    found = action.get(key)
    if found is None:
        return 0
    if not isinstance(found, int) or isinstance(found, bool) or not -(2**63) <= found < 2**63:
        raise MalformedLogError(file=file, reason=f"{key} is {found!r}, not a whole number of 64 bits")
    return found


def _number(action: Mapping[str, Any], key: str, file: str) -> int:
    found = action.get(key)
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found < 2**63:
        raise MalformedLogError(file=file, reason=f"{key} is {found!r}, not a count")
    return found
