"""Spark's checkpoint is a cache of progress: an unusable one is reset, since the index records the progress.

Spark reads the newest offset, the one before it and the newest commit; an empty or torn file of these, or a
gap in a folder, ends a query. A complete checkpoint of another table, or an old one, is for the planner to
judge: the ledger of the index decides (`checkpoints.recovery`).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import orjson

from tailbit.base.errors import StorageError, UsageError
from tailbit.checkpoints import signs
from tailbit.checkpoints.offset import Offset
from tailbit.tables.storage import SMALL, local_name

_PARTS = ("metadata", "offsets", "commits", "sources", "state")
"""Files and folders of a Spark checkpoint; nothing else in the folder is touched."""

_BLAMED = re.compile(
    r"Incomplete log file|MISSING_METADATA_FILE|CONCURRENT_STREAM_LOG_UPDATE|Multiple streaming queries"
    r"|INVALID_LOG_VERSION|MALFORMED_LOG_FILE|offset log|commit log|(?:offsets|commits)/\.*\d+|/\.metadata\."
    r"|Concurrent update to the log|batch \d+ (?:doesn't|does not) exist"
    r"|Mkdirs failed to create \S*/(?:offsets|commits|sources|state)\b",
    re.IGNORECASE,
)
"""Spark's messages about a checkpoint that it cannot continue from."""


_HEARTBEAT = re.compile(rf"{signs.NAME}|\.{signs.NAME}\.[0-9a-f]+\.tmp")
"""The names of a heartbeat file: complete, and half written."""

_TRIES = 3

_TABLES = "tables"
"""The key of the tables in the offset of a query of many tables."""

_METADATA = re.compile(rb'(\{("(i(d("(:("[0-9a-f-]*("\}?\n?)?)?)?)?)?)?)?)?')
"""The query id as Spark writes it into the metadata of a checkpoint, or a prefix of that text."""


def blames_checkpoint(message: str) -> bool:
    """Return whether Spark's message says that it ended a query because of its checkpoint."""
    return _BLAMED.search(message) is not None


def why_unusable(checkpoint: str) -> str | None:
    """Return why Spark cannot continue from a local checkpoint; None if it can, or if it is remote."""
    folder = _local(checkpoint)
    if folder is None or not folder.is_dir():
        return None
    try:
        return _wrong(folder)
    except OSError as refused:
        return f"{refused.strerror or refused}"


def reset(checkpoint: str, reason: str, tell: Callable[[str], None]) -> bool:
    """Remove Spark's files from a checkpoint and report it in one line; return False if it is remote.

    Raises:
        UsageError: the checkpoint is not tailbit's; nothing of it is touched.
        StorageError: the operating system refuses the removal, as on a read-only disk.
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
    """Remove what Spark created in place of vanished folders above a checkpoint.

    `roots`: the vanished folders. Folders between the checkpoint and the outermost root are removed too, with
    a heartbeat file that was still written into them; a folder that holds anything else stays with all
    folders above it, and so does a folder in an object store.
    """
    folder = _local(checkpoint)
    if folder is None:
        return
    with suppress(OSError, UsageError):
        _take_away(folder)
    above = {root for root in map(_local, roots) if root is not None}.intersection(folder.parents)
    outermost = min(above, key=lambda root: len(root.parts), default=folder)
    removed = False
    for path in (folder, *folder.parents):
        if path.is_dir():
            if not (removed or path == folder or _beats(path)) or not _emptied(path):
                return
            removed = True
        if path == outermost:
            return


def _emptied(folder: Path) -> bool:
    """Remove a folder that holds only a heartbeat file.

    Return whether the folder was removed; another process may still be writing the heartbeat.
    """
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
    """Return the heartbeat files in a folder, complete or half written; none if it holds anything else."""
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
    """Return why a checkpoint cannot be that of a tailbit query; None if it can be.

    A tailbit query keeps no state, so a checkpoint with files in a state folder is another query's.
    """
    metadata = folder / "metadata"
    verdicts = set(map(_is_ours, _batches(folder / "offsets").values()))
    if False in verdicts:
        return "its offsets are of another source"
    if metadata.is_dir() or (metadata.exists() and True not in verdicts and not _is_of_spark(metadata)):
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
    """Return whether a metadata file holds a query id in Spark's form, even if the file is torn."""
    return _METADATA.fullmatch(_bytes_of(metadata)) is not None


def _is_ours(offset: Path) -> bool | None:
    """Return whether an offset is of a tailbit query; None if torn. A source without offset writes `-`."""
    lines = _bytes_of(offset).split(b"\n")
    try:
        settings, *ends = [None if line == b"-" else orjson.loads(line) for line in lines[1:]]
    except ValueError:
        return None
    if lines[0] != b"v1" or not isinstance(settings, dict) or not ends:
        return None
    return isinstance(ends[0], dict) and ({"round", "version"} <= ends[0].keys() or _TABLES in ends[0])


def _local(checkpoint: str) -> Path | None:
    try:
        return Path(local_name(checkpoint))
    except StorageError:
        return None


def _wrong(folder: Path) -> str | None:
    offsets, commits = _batches(folder / "offsets"), _batches(folder / "commits")
    if not offsets and not commits:
        return None if not (folder / "metadata").exists() else _in_metadata(folder / "metadata")
    problem = _in_metadata(folder / "metadata")
    if problem is not None:
        return problem
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
    """Return whether a file has a version, the settings of the batch, and the end of the batch."""
    lines = _bytes_of(file).split(b"\n")
    try:
        end = orjson.loads(lines[2])
        for offset in end[_TABLES].values() if _TABLES in end else [end]:
            Offset.from_json(offset)
        return lines[0] == b"v1" and isinstance(orjson.loads(lines[1]), dict) and len(lines) == 3
    except (IndexError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _is_commit(file: Path) -> bool:
    version, _, rest = _bytes_of(file).partition(b"\n")
    try:
        return version == b"v1" and isinstance(orjson.loads(rest), dict)
    except ValueError:
        return False


def _bytes_of(file: Path) -> bytes:
    """Return the bytes of a short file; nothing if it is longer than any such file."""
    return file.read_bytes() if file.stat().st_size <= SMALL else b""
