"""The actions of one commit: parsed, checked, grouped by logical file.

A commit may be empty: some writers die after they create its file. A byte order mark before a line is
skipped. Fields that no answer needs (statistics, size and time of a file) may be missing.

A logical file is a path and a deletion vector, or none. The lines of a commit have no order: a commit adds or
removes a logical file, not both. A remove and an add of one path with different vectors change the hidden
rows, and an add of a live file replaces the file's statistics. Unknown actions and fields are ignored.
Source: Delta protocol, Actions and Action Reconciliation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, NamedTuple

import orjson

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import MalformedLogError
from tailbit.tables.delta.deletion_vectors import DeletionVector
from tailbit.tables.delta.paths import file_path
from tailbit.tables.delta.protocol import Protocol
from tailbit.tables.delta.statistics import DeltaStatistics, num_records
from tailbit.tables.model import UNKNOWN_SIZE, FileSlice, HiddenRows

LogicalFile = str
"""The key of file actions; see `logical_file`."""

_INTEGERS = 2**31
"""Exclusive limit of the offset and size of a deletion vector, which Delta types as integer."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

NO_COLUMNS = '{"type":"struct","fields":[]}'
"""The schema of a table whose metadata sets no schema."""


class Metadata(NamedTuple):
    """A metaData action: table id, schema text, partition columns, properties.

    The first commits of some writers (Delta Live Tables) set no schema yet: such a table has no columns.
    """

    id: str
    schema_text: str
    partition_columns: tuple[str, ...]
    configuration: Mapping[str, str]

    @classmethod
    def parse(cls, action: Mapping[str, Any], file: str) -> Metadata:
        """Parse a metaData action.

        Raises:
            MalformedLogError: the id is missing, or the schema, partition columns or properties have the
                wrong type.
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
        set_values = {str(k): str(v) for k, v in settings.items() if v is not None}
        return cls(id_, text, tuple(partitions), set_values)


def logical_file(path: str, hidden: HiddenRows | None) -> LogicalFile:
    """Return the key of a file: its path, with the identity of its deletion vector behind a NUL."""
    return path if hidden is None else f"{path}\0{hidden.id}"


def path_of(file: LogicalFile) -> str:
    """Return the path of a logical file."""
    return file.partition("\0")[0]


@dataclass
class Actions:
    """The actions of one commit (or JSON manifest). `adds` and `removes` are keyed by logical file."""

    adds: dict[LogicalFile, FileSlice] = field(default_factory=dict)
    removes: dict[LogicalFile, FileSlice] = field(default_factory=dict)
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    info: Mapping[str, Any] = field(default_factory=dict)
    sidecars: list[str] = field(default_factory=list)
    blank: bool = False
    """Whether the commit holds no action at all, not even an unknown one."""
    unvalued: str = ""
    """The path of an add without partitionValues, which is valid only in an unpartitioned table."""

    def outcome(self) -> dict[LogicalFile, FileSlice | None]:
        """Return the slice after the commit for each logical file that the commit names; None if removed."""
        return {**dict.fromkeys(self.removes), **self.adds}

    @property
    def operation(self) -> str:
        """The operation that the writer recorded, e.g. WRITE; empty if the writer recorded none."""
        name = self.info.get("operation")
        return name if isinstance(name, str) else ""

    @property
    def in_commit_timestamp(self) -> int | None:
        """The in-commit timestamp in ms, or None if the commit carries none."""
        stamp = self.info.get("inCommitTimestamp")
        return stamp if isinstance(stamp, int) and not isinstance(stamp, bool) else None


def parse_actions(data: bytes, file: str) -> Actions:
    """Parse the actions of a commit. Cost: one JSON parse per line; statistics stay text.

    Raises:
        MalformedLogError: a line is not a JSON object, or a known action has impossible fields.
    """
    out = Actions(blank=True)
    for name, action in _lines(data, file):
        out.blank = False
        if name == "add":
            added = parse_add(action, file)
            out.adds[logical_file(added.path, added.hidden)] = added
            if action.get("partitionValues") is None:
                out.unvalued = action["path"]
        elif name == "remove":
            removed = parse_remove(action, file)
            out.removes[logical_file(removed.path, removed.hidden)] = removed
        elif name == "protocol":
            out.protocol = Protocol.parse(action, file)
        elif name == "metaData":
            out.metadata = Metadata.parse(action, file)
            _check_objects(action, file)
        elif name == "commitInfo":
            out.info = action
        elif name == "sidecar":
            out.sidecars.append(_text(action, "path", file))
    for key in out.adds.keys() & out.removes.keys():
        reason = f"it adds and removes {out.adds[key].path!r} with the same hidden rows"
        raise MalformedLogError(file=file, reason=reason)
    return out


def _check_objects(action: Mapping[str, Any], file: str) -> None:
    """Refuse a metaData action without properties or format, as Spark and delta-kernel do.

    Like Spark and delta-kernel, this does not check the format's provider: data files are Parquet.
    """
    format_ = action.get("format")
    if not isinstance(action.get("configuration"), dict):
        raise MalformedLogError(file=file, reason="configuration is not an object")
    if not isinstance(format_, dict) or not isinstance(format_.get("options"), dict):
        raise MalformedLogError(file=file, reason=f"format {format_!r} is not an object with options")


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


def parse_add(action: Mapping[str, Any], file: str) -> FileSlice:
    """Return the file slice of an add action. Statistics of another type than text become unreadable text."""
    stats = action.get("stats")
    if stats is not None and not isinstance(stats, str):
        stats = f"no text: {stats!r}"
    return FileSlice(
        path=file_path(_text(action, "path", file), file),
        size=max(UNKNOWN_SIZE, _whole(action, "size", file)),
        mtime=_whole(action, "modificationTime", file),
        rows=num_records(stats),
        partition=_partition(action.get("partitionValues"), file),
        hidden=parse_deletion_vector(action.get("deletionVector"), file),
        stats=DeltaStatistics(stats) if stats else None,
    )


def parse_remove(action: Mapping[str, Any], file: str) -> FileSlice:
    """Return the file slice of a remove action: size 0 and no partition values if the writer omitted them."""
    size = action.get("size")
    return FileSlice(
        path=file_path(_text(action, "path", file), file),
        size=size if isinstance(size, int) else 0,
        mtime=0,
        rows=None,
        partition=_partition(action.get("partitionValues"), file),
        hidden=parse_deletion_vector(action.get("deletionVector"), file),
    )


def parse_deletion_vector(descriptor: Any, file: str) -> DeletionVector | None:
    """Return the descriptor in an add or remove; None if it is missing or, as some writers leave it, empty.

    Raises:
        MalformedLogError: a field is missing, or the storage type is not u, p or i.
    """
    if not descriptor:
        return None
    if not isinstance(descriptor, dict):
        raise MalformedLogError(file=file, reason="a deletion vector is not an object")
    kind = descriptor.get("storageType")
    if not kind:
        return None
    offset = descriptor.get("offset")
    if kind not in ("u", "p", "i"):
        raise MalformedLogError(file=file, reason=f"deletion vector storage type {kind!r} is unknown")
    if offset is not None and not (type(offset) is int and 0 <= offset < _INTEGERS):
        raise MalformedLogError(file=file, reason=f"deletion vector offset {offset!r} is not a position")
    size = _number(descriptor, "sizeInBytes", file)
    if size >= _INTEGERS:
        raise MalformedLogError(file=file, reason=f"a deletion vector of {size} bytes is none")
    return DeletionVector(
        storage_type=kind,
        path_or_inline=_text(descriptor, "pathOrInlineDv", file),
        offset=offset,
        size=size,
        cardinality=_number(descriptor, "cardinality", file),
    )


def _partition(values: Any, file: str) -> Mapping[str, str | None]:
    """Return partition values as text. Whole numbers and booleans become their JSON text."""
    if values is None:
        return {}
    if not isinstance(values, dict) or not all(isinstance(v, _PARTITION_TEXTS) for v in values.values()):
        raise MalformedLogError(file=file, reason="partitionValues is not an object of texts")
    if all(v is None or isinstance(v, str) for v in values.values()):
        return values
    import json

    return {k: v if v is None or isinstance(v, str) else json.dumps(v) for k, v in values.items()}


_PARTITION_TEXTS = (str, int, type(None))


def _text(action: Mapping[str, Any], key: str, file: str) -> str:
    value = action.get(key)
    if not isinstance(value, str):
        raise MalformedLogError(file=file, reason=f"{key} is {value!r}, not text")
    return value


def _whole(action: Mapping[str, Any], key: str, file: str) -> int:
    """Return a number that no answer needs: 0 if missing, else any signed 64-bit number."""
    value = action.get(key)
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**63) <= value < 2**63:
        raise MalformedLogError(file=file, reason=f"{key} is {value!r}, not a whole number of 64 bits")
    return value


def _number(action: Mapping[str, Any], key: str, file: str) -> int:
    value = action.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise MalformedLogError(file=file, reason=f"{key} is {value!r}, not a count")
    return value
