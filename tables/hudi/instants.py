"""Instants by the names of their files, and what each says, in Avro or JSON.

Table versions 8 and 9 name a completed instant `<requested>_<completed>.<action>`; version 6 names it
`<requested>.<action>`, and its completion time is the modification time of the file. A file with the suffix
`.requested` or `.inflight` is a pending instant, unless a completed file has the same requested time. One
table may hold metadata in Avro and in JSON, so the first bytes decide; fastavro is imported only for Avro.
Source: Hudi technical specification, Timeline.
"""

from __future__ import annotations

import io
import re
import struct
import zlib
from collections.abc import Iterable
from typing import Any

import orjson

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import MalformedLogError, UnsupportedFeatureError
from tailbit.tables.hudi.properties import NEWEST
from tailbit.tables.storage import Entry

_AVRO = b"Obj\x01"
_DAMAGE = (
    *(ValueError, TypeError, LookupError, EOFError, AttributeError, ArithmeticError, MemoryError),
    *(RecursionError, AssertionError, struct.error, zlib.error),
)
"""The exceptions of Python that fastavro raises for damaged bytes."""


def damage_of_avro() -> tuple[type[Exception], ...]:
    """Return the classes of all exceptions that fastavro raises for damaged bytes."""
    from fastavro.schema import SchemaParseException, UnknownType

    return (*_DAMAGE, SchemaParseException, UnknownType)


def decode_metadata(data: bytes, file: str) -> dict[str, Any]:
    """Return the metadata of an instant by field name, from the bytes of the instant's file.

    Raises:
        MalformedLogError: the bytes are neither JSON nor an Avro file of one record. The file may be half
            written: releases before 1.1 write a file in place.
    """
    if data.startswith(_AVRO):
        return _from_avro(data, file)
    try:
        decoded = orjson.loads(data)
    except ValueError as wrong:
        reason = "it is empty" if not data else f"it is neither Avro nor JSON: {wrong}"
        raise MalformedLogError(file=file, reason=reason) from wrong
    if not isinstance(decoded, dict):
        raise MalformedLogError(file=file, reason="it is not a JSON object")
    return decoded


def _from_avro(data: bytes, file: str) -> dict[str, Any]:
    import fastavro

    try:
        records = list(zip(range(2), fastavro.reader(io.BytesIO(data)), strict=False))
    except damage_of_avro() as wrong:
        raise MalformedLogError(file=file, reason=f"it is no Avro file: {wrong!r}") from wrong
    if len(records) != 1 or not isinstance(records[0][1], dict):
        raise MalformedLogError(file=file, reason="it should hold one record of Avro")
    return records[0][1]


CHANGES = frozenset(("commit", "deltacommit", "replacecommit", "rollback", "restore"))
"""The actions that may change the rows of a table."""
DELETIONS = frozenset(("clean", "rollback", "restore"))
"""The actions that delete data files."""
ACTIONS = CHANGES | {"clean", "savepoint", "indexing"}
"""The actions that completed instants may have."""

_COMPLETED = re.compile(r"([0-9]{14}|[0-9]{17})_([0-9]{17})\.([a-z]+)")
_COMPLETED_6 = re.compile(r"([0-9]{14}|[0-9]{17})\.([a-z]+)")
_PENDING = re.compile(r"([0-9]{14}|[0-9]{17})(?:\.([a-z]+))?\.(?:requested|inflight)")


@dataclass(frozen=True, slots=True)
class Instant:
    """A completed instant.

    `requested`: 17 digits, or 14 from old releases. `completed`: 17 digits as Hudi wrote them; empty for an
    active instant of table version 6, whose completion time is `changed_ms`: ms since 1970, 0 if the instant
    is not active. `file`: the file with the metadata, relative to the root. `row`: the row in a file of the
    history, which holds many instants; -1 for a file of one instant.
    """

    requested: str
    completed: str
    action: str
    changed_ms: int
    file: str
    row: int = -1

    @property
    def key(self) -> tuple[str, str]:
        """The identity of the instant in the table: a savepoint has the requested time of its commit."""
        return self.requested, self.action


@dataclass(frozen=True, slots=True)
class ActiveInstants:
    """The instants of the active timeline: the completed ones in the order of completion, and the pending."""

    completed: tuple[Instant, ...]
    pending: frozenset[str]
    """Requested times."""
    deleting: frozenset[str]
    """The requested times of pending instants that may be deleting files: cleans, rollbacks, restores."""


def list_active(entries: Iterable[Entry], folder: str, times_in_names: bool, root: str) -> ActiveInstants:
    """Return the instants whose files are listed in the folder of the active timeline.

    Two instants that completed at one moment come in the order of their requested times.
    """
    completed, begun, deleting = [], set(), set()
    for entry in entries:
        pending = _PENDING.fullmatch(entry.name)
        if pending is not None:
            if pending[2] != "savepoint":
                begun.add(pending[1])
            if pending[2] in DELETIONS:
                deleting.add(pending[1])
            continue
        instant = _completed(entry, folder, times_in_names)
        if instant is not None:
            _check_action(instant, root)
            completed.append(instant)
    completed.sort(key=lambda of: (of.completed, 0 if times_in_names else of.changed_ms, *of.key))
    done = {instant.requested for instant in completed if instant.action != "savepoint"}
    return ActiveInstants(tuple(completed), frozenset(begun - done), frozenset(deleting - done))


def _completed(entry: Entry, folder: str, times_in_names: bool) -> Instant | None:
    """Return the completed instant that a file stands for; None for any other file."""
    name = f"{folder}/{entry.name}"
    if times_in_names:
        match = _COMPLETED.fullmatch(entry.name)
        return None if match is None else Instant(match[1], match[2], match[3], entry.mtime_ms, name)
    match = _COMPLETED_6.fullmatch(entry.name)
    return None if match is None else Instant(match[1], "", match[2], entry.mtime_ms, name)


def _check_action(instant: Instant, root: str) -> None:
    if instant.action not in ACTIONS:
        feature = f"an instant of the action {instant.action} ({instant.file})"
        raise UnsupportedFeatureError(path=root, version=NEWEST, feature=feature)
