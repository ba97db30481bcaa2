"""What a store must be able to do, for the source and the index to lie in it.

A name is relative to the root with `/` between parts. Everything written is durable before it gets its name,
so no reader ever sees half a file. A name that does not exist raises FileNotFoundError; every other refusal
of the store is a StorageError that says what to do.
"""

from __future__ import annotations

import errno
import time
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import NamedTuple

import pyarrow as pa

from tailbit.errors import MalformedLogError, StorageError
from tailbit.tables.storage.options import NO_OPTIONS, StorageOptions

WHOLE, SMALL = 2 << 30, 1 << 20
"""The most bytes of a file that is read as a whole: of a commit, and of what is written in a few lines."""


def refuse_oversized(rel: str, size: int, limit: int) -> None:
    """Pass a file of a size that may be read as a whole.

    Raises:
        MalformedLogError: it is larger.
    """
    if size > limit:
        raise MalformedLogError(file=rel, reason=f"it has {size} bytes, and at most {limit} are read")


_OF_ONE_FILE = frozenset((errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP))


class Entry(NamedTuple):
    """One listed file: its name without folder, size in bytes, modification time in ms since 1970."""

    name: str
    size: int
    mtime_ms: int


class Stat(NamedTuple):
    """What tells one state of a file from another: bytes, modification time in ns, inode number.

    A store without inodes gives another number that differs between two files of one name.
    """

    size: int
    mtime_ns: int
    inode: int


class Unfinished(ABC):
    """A file that is being written. No reader sees it before `publish` has named it."""

    sink: pa.NativeFile
    """Where its bytes go, from the first to the last."""

    @abstractmethod
    def written(self) -> pa.NativeFile:
        """Close the sink and make the bytes durable; they can be read back from what this returns."""

    @abstractmethod
    def publish(self, name: str) -> None:
        """Give the file its name in the folder where it was created; the name is durable too.

        Called once, after `written`. The name must be new: the caller makes it of random digits.
        """


class Storage(ABC):
    """The files below one root. Values that are equal stand for the same root."""

    root: str
    """What people and errors call the place; without a slash at its end."""

    options: StorageOptions = NO_OPTIONS
    """What the store was opened with; whoever opens another place for the same caller hands it on."""

    remote: bool = False
    """Whether each look at a name is a request over a network, and not a call of the system."""

    @property
    @abstractmethod
    def uri(self) -> str | None:
        """How delta-rs names the root; None where only this process can reach the store."""

    @abstractmethod
    def resolve(self, path: str) -> str:
        """The name under which the methods below take a data file, from its path in the log.

        `path` is decoded, and relative or absolute.

        Raises:
            UnsafePathError: a path that leaves the root and is not allowed to; one with `..` or a NUL.
            StorageError: an absolute path in another store.
        """

    def locate(self, path: str) -> tuple[str, Stat | None]:
        """`resolve`, and `stat` of what it gives."""
        name = self.resolve(path)
        return name, self.stat(name)

    def is_of_one_file(self, refused: StorageError) -> bool:
        """Whether what was refused is one file: no rights to it, a folder in its place, no possible name."""
        cause = refused.__cause__
        return isinstance(cause, OSError) and cause.errno in _OF_ONE_FILE

    @abstractmethod
    def read(self, rel: str, limit: int = WHOLE) -> bytes:
        """All bytes of a file.

        Raises:
            MalformedLogError: it has more than `limit`; none of them is read.
        """

    @abstractmethod
    def read_range(self, rel: str, offset: int, length: int) -> bytes:
        """At most `length` bytes from `offset`; fewer where the file ends before."""

    @abstractmethod
    def contents(self) -> list[str] | None:
        """The names of files and folders right below the root, sorted; None where the root is a file.

        Empty where there is nothing at the root.
        """

    def list_after(self, prefix_dir: str, name: str) -> list[Entry]:
        """The files of a folder whose names follow `name`, sorted by name."""
        return [entry for entry in self.list(prefix_dir) if entry.name > name]

    @abstractmethod
    def list(self, prefix_dir: str = "") -> list[Entry]:
        """The files (not folders) of a folder, sorted by name; empty where the folder does not exist."""

    @abstractmethod
    def stat(self, rel: str) -> Stat | None:
        """What tells the present state of a file from any other; None where there is no such file."""

    @abstractmethod
    def exists(self, rel: str) -> bool:
        """Whether there is a file or folder of that name."""

    @abstractmethod
    def open(self, rel: str) -> pa.NativeFile:
        """The file for random access. Whoever opens it closes it."""

    @abstractmethod
    def create(self, folder: str, stem: str) -> AbstractContextManager[Unfinished]:
        """A new file in a folder, which is made below the root.

        What is not published by the end of the context is removed.
        `stem` is unique in the folder. Where the process is killed, a store may keep what was written under a
        name that starts with `_`, made of the stem; `list` shows it.

        Raises:
            StorageError: the store refuses, at any moment of the context.
        """

    @abstractmethod
    def put_if_absent(self, rel: str, data: bytes) -> None:
        """Write a file that must not exist; it is whole and durable when its name appears.

        Bytes that are already there may be taken for those of a put whose reply was lost: whoever must know
        that another was first makes them unlike the other's.

        Raises:
            FileExistsError: another writer was first; its file is untouched.
        """

    @abstractmethod
    def put(self, rel: str, data: bytes) -> None:
        """Write or replace a file; a reader sees the old bytes or the new, never a part."""

    @abstractmethod
    def delete(self, rel: str) -> None:
        """Remove a file; nothing happens where it is gone already."""

    def clock_ms(self) -> int:
        """The time in ms since 1970 by the clock that modification times are told by."""
        return time.time_ns() // 1_000_000

    def make_root(self) -> None:  # noqa: B027 - most stores have no folders
        """Make the root, where the store has folders; no other method does.

        A root that has vanished may come back: what is written meanwhile must not stand in its place.

        Raises:
            StorageError: the store refuses.
        """

    def check_commits(self) -> None:  # noqa: B027 - most stores need no check
        """Pass if of two writers of one name the store tells who was first; asked before an index is made.

        Raises:
            NoConditionalPutError: it does not.
            StorageError: the store refuses to write.
        """
