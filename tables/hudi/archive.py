"""Archived instants: in Avro blocks (table version 6), or in Parquet files of a manifest (8 and 9).

The archive of version 6 is of files in the format of log files, whose records each have one state of an
instant. In the history of 8 and 9, `_version_` holds the number of the manifest, and the manifest names the
files. Writers merge files and write a new manifest; a reader that finds a file missing reads the new one.
The metadata of an instant are the bytes of the instant's own file before archiving. Source: Hudi technical
specification, Log format and LSM timeline; HoodieArchivedMetaEntry.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from typing import Any

import orjson
import pyarrow as pa

from tailbit.base.errors import CommitGapError, LogBlockError, MalformedLogError, UnsafePathError
from tailbit.tables.hudi.instants import Instant, damage_of_avro
from tailbit.tables.hudi.log_files.blocks import BlockType, Header, blocks_in
from tailbit.tables.hudi.log_files.records import records_in
from tailbit.tables.parquet.file import open_parquet
from tailbit.tables.storage import Storage

_FILE = re.compile(r"\.commits_\.archive\.([0-9]+)(?:_[0-9-]+)?")


def list_archive(storage: Storage, folder: str) -> list[Instant]:
    """Return the completed instants of the archive, in the order of completion; empty without an archive.

    Instants archived by a release that did not record completion times have an empty `completed` and come
    first.
    """
    numbered = [(int(m[1]), e.name) for e in storage.list(folder) if (m := _FILE.fullmatch(e.name))]
    instants: dict[tuple[str, str], Instant] = {}
    for _, name in sorted(numbered):
        file = f"{folder}/{name}"
        for row, record in enumerate(_records(storage, file)):
            if record.get("actionState") != "COMPLETED":
                continue
            requested, action = record.get("commitTime"), record.get("actionType")
            if not (isinstance(requested, str) and isinstance(action, str)):
                raise MalformedLogError(file=file, reason="a completed instant lacks a time or an action")
            instant = Instant(requested, record.get("stateTransitionTime") or "", action, 0, file, row)
            instants[instant.key] = instant
    return sorted(instants.values(), key=lambda instant: (instant.completed, *instant.key))


def read_archived_record(storage: Storage, instant: Instant) -> dict[str, Any] | None:
    """Return the metadata of an archived instant, by field name; None if its record has no metadata."""
    records = _records(storage, instant.file)
    record = next((record for row, record in enumerate(records) if row == instant.row), {})
    if (record.get("commitTime"), record.get("actionType")) != instant.key:
        raise MalformedLogError(file=instant.file, reason=f"it has no metadata of {instant.requested}")
    return next((value for value in record.values() if isinstance(value, dict)), None)


def _records(storage: Storage, file: str) -> Iterator[dict[str, Any]]:
    """Yield the records of all blocks of a file."""
    import fastavro

    damages: tuple[type[Exception], ...] = (*damage_of_avro(), LogBlockError)
    data = storage.read(file)
    try:
        for block in blocks_in(storage, file, data):
            if block.type is not BlockType.AVRO:
                raise ValueError(block.damage or f"a block has the type {block.type.name}")
            schema = fastavro.parse_schema(orjson.loads(block.places[Header.SCHEMA].of(data)))
            for record in records_in(block.content.of(data)):
                entry = fastavro.schemaless_reader(io.BytesIO(record), schema, None)
                if not isinstance(entry, dict):
                    raise ValueError("a record is no entry of an archive")
                yield entry
    except damages as wrong:
        raise MalformedLogError(file=file, reason=f"it is no archive: {wrong}") from wrong


_SMALL = 16 << 20
_LOOKS = 5
"""How often a reader starts anew because writers replaced the manifest meanwhile."""
_NAMES = ("instantTime", "completionTime", "action")
_METADATA = "metadata"
MANIFEST_NUMBER = "_version_"
"""The file that holds the number of the manifest."""
_MANIFEST = re.compile(r"manifest_([0-9]{1,9})")


def list_history(storage: Storage, folder: str) -> list[Instant]:
    """Return the instants of the history, sorted by completion; empty if there is no history yet.

    Cost: three columns of every file of the history.

    Raises:
        CommitGapError: a file that the manifest names is missing.
        MalformedLogError: the manifest or a file of the history is damaged.
        UnsafePathError: the manifest names a file outside of the history.
    """
    for look in range(_LOOKS):
        number = _manifest_number(storage, folder)
        if number is None:
            return []
        try:
            instants = [i for file in _files(storage, folder, number) for i in _instants(storage, file)]
        except FileNotFoundError as missing:
            if look + 1 < _LOOKS and _manifest_number(storage, folder) != number:
                continue
            raise CommitGapError(
                version="in the history",
                path=storage.root,
                found=f"manifest_{number}, but not {missing}",
                hint="Restore the file from a backup: no question is answered without it.",
            ) from missing
        return sorted(instants, key=lambda instant: (instant.completed, *instant.key))
    raise AssertionError("the last look returns or raises")


def read_archived(storage: Storage, instant: Instant) -> bytes:
    """Return the metadata of an instant of the history, as the bytes of its own file before archiving."""
    cell = _read(storage, instant.file, (_METADATA,))[_METADATA]
    if instant.row >= len(cell) or not isinstance(cell[instant.row], bytes):
        raise MalformedLogError(file=instant.file, reason=f"it has no metadata of {instant.requested}")
    return bytes(cell[instant.row])


def _manifest_number(storage: Storage, folder: str) -> int | None:
    """Return the number of the manifest; None if there is no history.

    A writer deletes the file of the number and creates it again. While the file is missing, or holds no
    number, the newest manifest counts, as for Hudi's own readers.
    """
    name = f"{folder}/{MANIFEST_NUMBER}"
    try:
        text = storage.read(name, _SMALL)
    except FileNotFoundError:
        text = None
    if text is not None and re.fullmatch(rb"\s*[0-9]{1,9}\s*", text):
        return int(text)
    manifests = [_MANIFEST.fullmatch(entry.name) for entry in storage.list(folder)]
    newest = max((int(match[1]) for match in manifests if match is not None), default=None)
    if newest is None and text is not None:
        raise MalformedLogError(file=name, reason=f"it should hold a number, and holds {text[:40]!r}")
    return newest


def _files(storage: Storage, folder: str, number: int) -> Sequence[str]:
    """Return the paths of the files that a manifest names, relative to the root."""
    name = f"{folder}/manifest_{number}"
    try:
        content = orjson.loads(storage.read(name, _SMALL))
        files = [file["fileName"] for file in content["files"]]
    except (ValueError, TypeError, LookupError) as wrong:
        raise MalformedLogError(file=name, reason=f"it names no files: {wrong!r}") from wrong
    for file in files:
        if not isinstance(file, str) or not re.fullmatch(r"[0-9A-Za-z_.-]+\.parquet", file):
            raise UnsafePathError(file=file, path=storage.root, reason=f"{name} may name files of {folder}")
    return [f"{folder}/{file}" for file in files]


def _instants(storage: Storage, file: str) -> list[Instant]:
    columns = _read(storage, file, _NAMES)
    rows = list(zip(*(columns[name] for name in _NAMES), strict=True))
    for values in rows:
        if not all(isinstance(value, str) and value for value in values):
            raise MalformedLogError(file=file, reason=f"an instant lacks a time or an action: {values!r}")
    return [
        Instant(requested, completed, action, 0, file, row)
        for row, (requested, completed, action) in enumerate(rows)
    ]


def _read(storage: Storage, file: str, names: Sequence[str]) -> dict[str, list[Any]]:
    """Return the values of columns by name."""
    try:
        with storage.open(file) as source:
            table = open_parquet(source).read(columns=list(names))
            return {name: table.column(name).to_pylist() for name in names}
    except FileNotFoundError:
        raise FileNotFoundError(file) from None
    except (pa.ArrowException, ValueError, KeyError, OSError) as wrong:
        raise MalformedLogError(file=file, reason=f"it is no file of a history: {wrong}") from wrong
