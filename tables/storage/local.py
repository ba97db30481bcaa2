"""The store on local or mounted disk. Every file is flushed to disk before it gets its name.

The file system must support hard links and atomic replacement of a name.
"""

from __future__ import annotations

import errno
import os
import re
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import field
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import StorageError, UnusableStorageError
from tailbit.tables.storage.store import (
    NO_OPTIONS,
    SPELLED,
    WHOLE,
    Entry,
    Stat,
    Storage,
    StorageOptions,
    Unfinished,
    decoded,
    refuse_oversized,
    refuse_parts,
    stat_inside,
)

_GONE, _A_FILE = "the folder is gone", "there is a file where a folder must be"

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.\-]+):")


@dataclass(frozen=True)
class LocalStorage(Storage):
    """The files below one root on local disk; `root` is a path or a `file:` URI.

    Raises:
        StorageError: the root has another scheme than `file:`.
    """

    root: str
    options: StorageOptions = field(default=NO_OPTIONS, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", os.path.abspath(local_name(self.root)))

    @property
    def uri(self) -> str:
        """The root itself."""
        return self.root

    def local_path(self, rel: str) -> str:
        """Return the absolute local path of a name below the root; an absolute name is returned as it is."""
        return os.path.join(self.root, rel)

    def resolve(self, path: str) -> str:
        """Return the absolute local path of a data file as the log names it (decoded)."""
        return self.locate(path)[0]

    def locate(self, path: str) -> tuple[str, Stat | None]:
        """Resolve a path and stat the file in one system call."""
        name = path
        if ":" in path:
            name = decoded(path) if path.startswith(SPELLED) else local_name(path)
        refuse_parts(path, name, self.root)
        target = os.path.join(self.root, name)
        try:
            stat = stat_inside(path, target, self.root, self.options)
        except OSError as refused:
            raise _refusal(target, refused) from refused
        return target, None if stat is None else Stat(stat.st_size, stat.st_mtime_ns, stat.st_ino)

    def read(self, rel: str, limit: int = WHOLE) -> bytes:
        with _named(self.local_path(rel)), open(self.local_path(rel), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            refuse_oversized(rel, size, limit)
            return file.read(size)

    def read_range(self, rel: str, offset: int, length: int) -> bytes:
        with _named(self.local_path(rel)), open(self.local_path(rel), "rb") as file:
            file.seek(offset)
            return file.read(length)

    def contents(self) -> list[str] | None:
        """Return the names of files and folders in the root, sorted; None if the root is a file."""
        with _named(self.root):
            if os.path.isfile(self.root):
                return None
            return sorted(os.listdir(self.root)) if os.path.isdir(self.root) else []

    def walk(self, prefix_dir: str = "", skip: Collection[str] = ()) -> list[Entry]:
        """Return the files of a folder and of the folders in it, sorted. Cost: a listing per folder."""
        folder = self.local_path(prefix_dir)
        with _named(folder):
            return sorted(_walked(folder, "", skip, (os.path.realpath(folder),)))

    def list_again(self, prefix_dir: str, before: Collection[Entry]) -> list[Entry]:
        folder, by_name = self.local_path(prefix_dir), {entry.name: entry for entry in before}
        with _named(folder):
            try:
                items = list(os.scandir(folder))
            except (FileNotFoundError, NotADirectoryError):
                return []
            entries = (by_name.get(item.name) or _entry(item) for item in items)
            return sorted(entry for entry in entries if entry is not None)

    def list(self, prefix_dir: str = "") -> list[Entry]:
        return self.list_again(prefix_dir, ())

    def stat(self, rel: str) -> Stat | None:
        """Return size, modification time and inode; None if there is no such file."""
        # Every question probes here: a context manager would cost as much as the system call.
        try:
            stat = os.stat(self.local_path(rel))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as refused:
            raise _refusal(self.local_path(rel), refused) from refused
        return Stat(stat.st_size, stat.st_mtime_ns, stat.st_ino)

    def clock_ms(self) -> int:
        """Return the time in ms since 1970 by the clock of the file system, which may be a server's.

        If nothing can be written, the time is that of this machine.
        """
        try:
            import tempfile

            with tempfile.TemporaryFile(prefix="_clock-", dir=self.root) as probe:
                return os.fstat(probe.fileno()).st_mtime_ns // 1_000_000
        except OSError:
            return super().clock_ms()

    def exists(self, rel: str) -> bool:
        return self.stat(rel) is not None

    def open(self, rel: str, end: int = 0) -> pa.NativeFile:
        """Open the file for random access without mapping: truncation while open is an error, not a crash."""
        with _named(self.local_path(rel)):
            return pa.OSFile(self.local_path(rel), mode="rb")

    @contextmanager
    def create(self, folder: str, stem: str) -> Iterator[Unfinished]:
        """Yield a new file in a folder, named `_<stem>.tmp` until it is published."""
        where = self.local_path(folder)
        temp = os.path.join(where, f"_{stem}.tmp")
        try:
            self._make_folder(where)
            with pa.OSFile(temp, mode="wb") as sink:
                yield _UnfinishedFile(sink, where, temp)
        except OSError as refused:
            raise StorageError(path=where, reason=refused.strerror or str(refused)) from refused
        finally:
            with suppress(OSError):
                os.unlink(temp)

    def put_if_absent(self, rel: str, data: bytes) -> None:
        self._write(rel, data, os.link)

    def put(self, rel: str, data: bytes) -> None:
        self._write(rel, data, os.replace)

    def make_root(self) -> None:
        """Create the folder of the root, and the folders above it."""
        try:
            os.makedirs(self.root, exist_ok=True)
        except FileExistsError as there:
            raise StorageError(path=self.root, reason=_A_FILE) from there
        except OSError as refused:
            raise _refusal(self.root, refused) from refused

    def delete(self, rel: str) -> None:
        with _named(self.local_path(rel)):
            Path(self.local_path(rel)).unlink(missing_ok=True)

    def _write(self, rel: str, data: bytes, publish: Callable[[str, str], None]) -> None:
        target = self.local_path(rel)
        temp = os.path.join(
            os.path.dirname(target), f".{os.path.basename(target)}.{uuid.uuid4().hex[:8]}.tmp"
        )
        with _named(self.local_path(rel)):
            self._make_folder(os.path.dirname(target))
            try:
                with open(temp, "xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                publish(temp, target)
                sync_folder(os.path.dirname(target))
            except FileNotFoundError as gone:
                raise StorageError(path=self.root, reason=_GONE) from gone
            finally:
                Path(temp).unlink(missing_ok=True)

    def _make_folder(self, path: str) -> None:
        """Create a folder below the root, never the root itself."""
        missing = []
        while path != self.root and not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        if path == self.root and not os.path.isdir(path):
            raise StorageError(path=self.root, reason=_GONE)
        for folder in reversed(missing):
            try:
                os.mkdir(folder)
            except FileExistsError as there:
                if not os.path.isdir(folder):
                    raise StorageError(path=folder, reason=_A_FILE) from there


class _UnfinishedFile(Unfinished):
    """A file on disk under a temporary name that no reader opens."""

    def __init__(self, sink: pa.NativeFile, folder: str, temp: str) -> None:
        self.sink, self._folder, self._temp = sink, folder, temp

    def written(self) -> pa.NativeFile:
        self.sink.close()
        with open(self._temp, "rb") as file:
            os.fsync(file.fileno())
        return pa.OSFile(self._temp, mode="rb")

    def publish(self, name: str) -> None:
        os.replace(self._temp, os.path.join(self._folder, name))
        sync_folder(self._folder)


def local_name(path: str) -> str:
    """Strip the scheme `file:` from a path; percent-decode the path only if it is a URI.

    Raises:
        StorageError: the path has another scheme.
    """
    if path.startswith("file:"):
        return unquote("/" + path[5:].lstrip("/"))
    scheme = _SCHEME.match(path)
    if scheme and path.startswith("//", scheme.end()):
        raise UnusableStorageError(
            path=path,
            reason=f"the scheme {scheme.group(1)}: is not supported",
            hint="Give a path on a local or mounted file system, or one of s3://, gs:// and abfss://.",
        )
    return path


def sync_folder(path: str) -> None:
    """Flush the entries of a folder, so that a file's name survives a power cut as its bytes do."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _entry(item: os.DirEntry[str]) -> Entry | None:
    """Return the entry of a listed item; None for folders and for files that have vanished since."""
    try:
        if not item.is_file():
            return None
        stat = item.stat()
    except FileNotFoundError:
        return None
    return Entry(item.name, stat.st_size, stat.st_mtime_ns // 1_000_000)


def _walked(folder: str, name: str, skip: Collection[str], above: tuple[str, ...]) -> Iterator[Entry]:
    """Yield the files of a local folder and of the folders in it, at any depth.

    `name`: the prefix of the files' names in the entries, empty or ending with `/`. `above`: the real paths
    of the folders from the start of the walk to this one, which is the last.
    """
    with suppress(FileNotFoundError), os.scandir(folder) as items:
        for item in items:
            if item.is_dir():
                if item.name not in skip:
                    linked = item.is_symlink()
                    real = os.path.realpath(item.path) if linked else os.path.join(above[-1], item.name)
                    if real not in above and not (linked and _overlap(real, above[0])):
                        yield from _walked(item.path, f"{name}{item.name}/", skip, (*above, real))
            elif (entry := _entry(item)) is not None:
                yield entry._replace(name=f"{name}{entry.name}")


def _overlap(folder: str, other: str) -> bool:
    """Return whether one of two real paths of folders is, or lies below, the other."""
    return os.path.commonpath((folder, other)) in (folder, other)


@contextmanager
def _named(rel: str) -> Iterator[None]:
    """Turn errors of the operating system into StorageError, except those for missing and existing files.

    Below a file nothing exists.
    """
    try:
        yield
    except (FileNotFoundError, FileExistsError):
        raise
    except NotADirectoryError as below:
        raise FileNotFoundError(below.errno, below.strerror, below.filename) from below
    except OSError as refused:
        raise _refusal(rel, refused) from refused


def _refusal(path: str, refused: OSError) -> StorageError:
    if refused.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageError(path=path, reason="the disk is full", hint=_FULL)
    hint = _RIGHTS if refused.errno in (errno.EACCES, errno.EPERM, errno.EROFS) else None
    return StorageError(path=path, reason=refused.strerror or str(refused), hint=hint)


_FULL = "Free space, then start again: nothing half-written is visible."
_RIGHTS = (
    "Give this user the right to it, and to the folders above it: `ls -ld` shows whose they are. Where an"
    " index may not lie beside its table, --index PATH puts it elsewhere."
)
