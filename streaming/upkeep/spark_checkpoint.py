"""Spark's checkpoint is a cache of progress: one that cannot be used is reset, and the index says the rest.

Spark reads of it the newest offset, the one before and the newest commit; a file of these that is empty or
torn, or a folder with gaps, ends a query. A checkpoint that is whole, but of another table or of yesterday,
is the planner's to judge: the ledger of the index decides (`checkpoints.recovery`).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import orjson

from tailbit.checkpoints import heartbeat
from tailbit.checkpoints.offset import Offset
from tailbit.errors import StorageError, UsageError
from tailbit.tables.storage import SMALL, local_name

_PARTS = ("metadata", "offsets", "commits", "sources", "state")
"""What Spark keeps in a checkpoint; nothing else in the folder is touched."""

_BLAMED = re.compile(
    r"Incomplete log file|MISSING_METADATA_FILE|CONCURRENT_STREAM_LOG_UPDATE|Multiple streaming queries"
    r"|INVALID_LOG_VERSION|MALFORMED_LOG_FILE|offset log|commit log|(?:offsets|commits)/\.?\d+|/\.metadata\."
    r"|Concurrent update to the log|batch \d+ (?:doesn't|does not) exist"
    r"|Mkdirs failed to create \S*/(?:offsets|commits|sources|state)\b",
    re.IGNORECASE,
)
"""What Spark says of a checkpoint that it cannot go on from."""


_HEARTBEAT = re.compile(rf"{heartbeat.NAME}|\.{heartbeat.NAME}\.[0-9a-f]+\.tmp")
"""The names of a heartbeat: written, and half written."""

_TRIES = 3

_METADATA = re.compile(rb'(\{("(i(d("(:("[0-9a-f-]*("\}?\n?)?)?)?)?)?)?)?)?')
"""The id of a query as Spark writes it into the metadata of a checkpoint, or its first bytes."""


def blames_checkpoint(message: str) -> bool:
    """Whether Spark ended a query because of its checkpoint, by what it says."""
    return _BLAMED.search(message) is not None


def why_unusable(checkpoint: str) -> str | None:
    """Why Spark could not go on from a checkpoint; None where it can, or where it is not on local disk."""
    folder = _local(checkpoint)
    if folder is None or not folder.is_dir():
        return None
    try:
        return _wrong(folder)
    except OSError as refused:
        return f"{refused.strerror or refused}"


def reset(checkpoint: str, reason: str, tell: Callable[[str], None]) -> bool:
    """Take away what Spark keeps in a checkpoint, with one line of notice; False where it is out of reach.

    Raises:
        UsageError: it is not tailbit's; nothing of it is touched.
        StorageError: the operating system does not let it go, as on a read-only disk.
    """
    folder = _local(checkpoint)
    if folder is None:
        return False
    try:
        _take_away(folder)
    except OSError as refused:
        raise StorageError(path=checkpoint, reason=refused.strerror or str(refused)) from refused
    tell(f"the Spark checkpoint {checkpoint} is reset: {reason}; the index itself says where to go on")
    return True


def make_way(checkpoint: str, *roots: str) -> None:
    """Where the folders above a checkpoint have vanished, take away what Spark has made in their place since.

    `roots`: those folders. What lies between the checkpoint and the outermost goes too, and the heartbeat
    that beat on into it; a folder that holds anything else stays with all above it, as does one in a store.
    """
    folder = _local(checkpoint)
    if folder is None:
        return
    with suppress(OSError, UsageError):
        _take_away(folder)
    above = {root for root in map(_local, roots) if root is not None}.intersection(folder.parents)
    outermost = min(above, key=lambda root: len(root.parts), default=folder)
    made = False
    for path in (folder, *folder.parents):
        if path.is_dir():
            if not (made or path == folder or _beats(path)) or not _emptied(path):
                return
            made = True
        if path == outermost:
            return


def _emptied(folder: Path) -> bool:
    """Whether a folder that held no more than a heartbeat has been removed; that may beat on meanwhile."""
    for _ in range(_TRIES):
        try:
            for file in _beats(folder):
                file.unlink(missing_ok=True)
            folder.rmdir()
            return True
        except OSError:
            continue
    return not folder.exists()


def _beats(folder: Path) -> list[Path]:
    """The heartbeat of a folder, whole or half written, where that is all that the folder holds."""
    files = list(folder.iterdir())
    return files if all(_HEARTBEAT.fullmatch(file.name) for file in files) else []


def _take_away(folder: Path) -> None:
    foreign = _foreign(folder)
    if foreign is not None:
        reason = f"{folder} is no Spark checkpoint of tailbit: {foreign}"
        raise UsageError(reason=reason, hint="Give another --checkpoint. Nothing there was touched.")
    for name in _PARTS:
        with suppress(FileNotFoundError, NotADirectoryError):
            shutil.rmtree(folder / name)
        for file in (folder / name, folder / f".{name}.crc"):
            if not file.is_dir():
                file.unlink(missing_ok=True)


def _foreign(folder: Path) -> str | None:
    """What would go with a checkpoint, and is of no query of ours, which keep no state; None for nothing."""
    metadata = folder / "metadata"
    known = set(map(_is_ours, _batches(folder / "offsets").values()))
    if False in known:
        return "its offsets are of another source"
    if metadata.is_dir() or (metadata.exists() and True not in known and not _is_of_spark(metadata)):
        return "its metadata is not Spark's"
    for name in ("sources", "state"):
        if any(not path.is_dir() for path in (folder / name).rglob("*")):
            return f"it holds files in {name}"
    for name in ("offsets", "commits"):
        files = (folder / name).iterdir() if (folder / name).is_dir() else ()
        if any(not file.name.startswith(".") and not file.name.isdecimal() for file in files):
            return f"it holds other files than Spark's in {name}"
    return None


def _is_of_spark(metadata: Path) -> bool:
    """Whether metadata names a query as Spark does, be it torn."""
    return _METADATA.fullmatch(_bytes_of(metadata)) is not None


def _is_ours(offset: Path) -> bool | None:
    """Whether an offset says what ours say; None where it is torn. A source that has none yet says `-`."""
    lines = _bytes_of(offset).split(b"\n")
    try:
        held, *ends = [None if line == b"-" else orjson.loads(line) for line in lines[1:]]
    except ValueError:
        return None
    if lines[0] != b"v1" or not isinstance(held, dict) or not ends:
        return None
    return isinstance(ends[0], dict) and {"round", "version"} <= ends[0].keys()


def _local(checkpoint: str) -> Path | None:
    try:
        return Path(local_name(checkpoint))
    except StorageError:
        return None


def _wrong(folder: Path) -> str | None:
    offsets, commits = _batches(folder / "offsets"), _batches(folder / "commits")
    if not offsets and not commits:
        return None if not (folder / "metadata").exists() else _in_metadata(folder / "metadata")
    found = _in_metadata(folder / "metadata")
    if found is not None:
        return found
    last, done = max(offsets, default=-1), max(commits, default=-1)
    if not last - 1 <= done <= last:
        return f"its last offset is that of batch {last}, its last commit that of batch {done}"
    if last > 0 and last - 1 not in offsets:
        return f"offset {last - 1} is missing"
    for number in (last, last - 1):
        if number >= 0 and not _is_offset(offsets[number]):
            return f"offset {number} is torn"
    if done >= 0 and not _is_commit(commits[done]):
        return f"commit {done} is torn"
    return None


def _batches(folder: Path) -> dict[int, Path]:
    files = folder.iterdir() if folder.is_dir() else ()
    return {int(file.name): file for file in files if file.name.isdecimal()}


def _in_metadata(file: Path) -> str | None:
    if not file.exists():
        return "its metadata is missing"
    try:
        return None if orjson.loads(_bytes_of(file))["id"] else "its metadata names no query"
    except (ValueError, KeyError, TypeError):
        return "its metadata is torn"


def _is_offset(file: Path) -> bool:
    """Whether a file says a version, what held for the batch, and where the batch ends."""
    lines = _bytes_of(file).split(b"\n")
    try:
        Offset.from_json(orjson.loads(lines[2]))
        return lines[0] == b"v1" and isinstance(orjson.loads(lines[1]), dict) and len(lines) == 3
    except (IndexError, ValueError, KeyError, TypeError):
        return False


def _is_commit(file: Path) -> bool:
    version, _, rest = _bytes_of(file).partition(b"\n")
    try:
        return version == b"v1" and isinstance(orjson.loads(rest), dict)
    except ValueError:
        return False


def _bytes_of(file: Path) -> bytes:
    """What a file of a few lines says; nothing where it is longer than any such file."""
    return file.read_bytes() if file.stat().st_size <= SMALL else b""
