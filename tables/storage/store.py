"""The interface of a store of files, and the options with which it is opened.

A name is relative to the root with `/` between parts. Every file is durable before it gets its name, so no
reader ever sees half a file. A name that does not exist raises FileNotFoundError; every other refusal of the
store is a StorageError that says what to do.

Shallow clones and views name files of another table. Such files are refused by name unless an option allows
them: whoever can write the log could let tailbit read any file that the user may read. The option is never
stored: it is given at each opening, or in the environment.
"""

from __future__ import annotations

import errno
import os
import re
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from stat import S_ISLNK
from time import monotonic
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import MalformedLogError, StorageError, UnsafePathError, UsageError

_SECRET = re.compile(r"secret|token|key|password|sas|credential|signature", re.IGNORECASE)
SCHEMES: Mapping[str, str] = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    **dict.fromkeys(("az", "azure", "abfs", "abfss"), "az"),
}
"""The schemes of URLs, and the kind of store that each means."""
TABLE_FORMAT = "table_format"
"""The option that says which of two formats in one folder is meant."""
METADATA_FILE = "metadata_file"
"""The option that names the metadata file of a table, relative to its root, in place of the current one.

It may be the URI of the table in a catalog, which knows the current one.
"""
CATALOG_PROPERTY = "catalog."
"""Begins the names of options that are properties of a catalog."""
LENT = "credentials_lent"
"""The option that names the store, as `s3://bucket`, whose credentials the table's catalog lends."""
_SHORTEST = 4
"""Shorter values are not treated as secrets: they would occur in many words."""


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """Options by name, as delta-rs names them (`AWS_ENDPOINT_URL`); the environment supplies missing ones.

    The values never appear in the object's `repr`.
    """

    items: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, given: Mapping[str, str] | None) -> StorageOptions:
        """Return the options of a mapping, sorted by name."""
        return cls(tuple(sorted((given or {}).items())))

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.items)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(name for name, _ in self.items)})"

    @property
    def table_format(self) -> str:
        """The format in which to read the table, in lower case; empty if the folder of the log decides."""
        given = next((value for name, value in self.items if name.lower() == TABLE_FORMAT), "")
        return given.lower()

    def hidden_in(self, text: str) -> str:
        """Replace in a text the values of options that may be secrets."""
        for name, value in self.items:
            if may_be_secret(name) and len(value) >= _SHORTEST:
                text = text.replace(value, "***")
        return text


def may_be_secret(name: str) -> bool:
    """Return whether the value of an option of this name may be a secret."""
    return _SECRET.search(name) is not None


NO_OPTIONS = StorageOptions()
"""No options: everything needed is in the environment."""

LENDERS: dict[str, Callable[[StorageOptions], Mapping[str, Any]]] = {}
"""Askers for credentials that a catalog lends, by the scheme of the table's URI there (in the options).

An answer has the form of obstore's credentials. It is asked for anew shortly before it expires.
"""


WHOLE, SMALL = 2 << 30, 1 << 20
"""Size limits of files that are read whole: of a commit, and of a file of a few lines."""

SPELLED = "uri:"
"""Begins the path of a data file whose log spells it in an unusual way: behind it is the URI of the log."""


def decoded(path: str) -> str:
    """Return the path of a data file as the store has it; see `SPELLED`."""
    return unquote(path[len(SPELLED) :]) if path.startswith(SPELLED) else path


def file_names(paths: Sequence[str]) -> list[str]:
    """Return the names of data files for people: decoded, but where that would give two files one name."""
    if not any(path.startswith(SPELLED) for path in paths):
        return [*paths]
    names = [decoded(path) for path in paths]
    files = Counter(dict(zip(paths, names, strict=True)).values())
    return [name if files[name] == 1 else path for path, name in zip(paths, names, strict=True)]


def refuse_oversized(rel: str, size: int, limit: int) -> None:
    """Check that a file is small enough to be read whole.

    Raises:
        MalformedLogError: the file is larger than the limit.
    """
    if size > limit:
        raise MalformedLogError(file=rel, reason=f"it has {size} bytes, and at most {limit} are read")


_OF_ONE_FILE = frozenset((errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP))


class Entry(NamedTuple):
    """One listed file: its name without the folder, size in bytes, modification time in ms since 1970."""

    name: str
    size: int
    mtime_ms: int


class Stat(NamedTuple):
    """The state of a file: size in bytes, modification time in ns, inode number.

    A store without inodes gives another number that differs between two files of the same name.
    """

    size: int
    mtime_ns: int
    inode: int


class Unfinished(ABC):
    """A file that is being written. No reader sees it before `publish` has named it."""

    sink: pa.NativeFile
    """The stream that takes the file's bytes, first to last."""

    @abstractmethod
    def written(self) -> pa.NativeFile:
        """Close the sink, make the bytes durable, and return a stream to read them back."""

    @abstractmethod
    def publish(self, name: str) -> None:
        """Name the file in the folder where it was created; the name is durable too.

        Called once, after `written`. The name must be new: the caller uses random digits.
        """


class Storage(ABC):
    """The files below one root. Equal objects stand for the same root."""

    root: str
    """The path or URL of the root, as users and errors name it, without a final slash."""

    options: StorageOptions = NO_OPTIONS
    """The options that opened the store; code that opens another store for the same caller passes them on."""

    remote: bool = False
    """Whether each access to a name is a network request rather than a system call."""

    def of_table(self, log: str) -> Storage:
        """Return the store of a table whose log is the folder `log`; by default the store itself."""
        return self

    @property
    @abstractmethod
    def uri(self) -> str | None:
        """The root as a path that Spark and delta-rs on this machine can open; None if they cannot."""

    @abstractmethod
    def resolve(self, path: str) -> str:
        """Return the name by which the methods below know a data file, from its path in the log.

        `path` is decoded, or `SPELLED` and a URI, and relative or absolute.

        Raises:
            UnsafePathError: the path leaves the root without permission, or has a part `..` or a NUL.
            StorageError: the path is absolute and in another store.
        """

    def is_file(self, path: str) -> bool:
        """Return whether a path of the log names a whole file, which other engines can read too."""
        return True

    def locate(self, path: str) -> tuple[str, Stat | None]:
        """Return the name that `resolve` returns for a path, and its `stat`."""
        name = self.resolve(path)
        return name, self.stat(name)

    def is_of_one_file(self, refused: StorageError) -> bool:
        """Return whether an error concerns only one file: no rights, a folder of its name, or a bad name."""
        cause = refused.__cause__
        return isinstance(cause, OSError) and cause.errno in _OF_ONE_FILE

    @abstractmethod
    def read(self, rel: str, limit: int = WHOLE) -> bytes:
        """Read all bytes of a file.

        Raises:
            MalformedLogError: the file has more than `limit` bytes; none of them is read.
        """

    def read_stated(self, rel: str, limit: int = WHOLE) -> tuple[bytes, Stat | None]:
        """Return what `read` does, and the file's stat; the stat may be older than the bytes, never newer."""
        stat = self.stat(rel)
        return self.read(rel, limit), stat

    @abstractmethod
    def read_range(self, rel: str, offset: int, length: int) -> bytes:
        """Read at most `length` bytes from `offset`; fewer if the file ends before."""

    @abstractmethod
    def contents(self) -> list[str] | None:
        """Return the names of files and folders directly below the root, sorted; None if the root is a file.

        The list is empty if nothing exists at the root.
        """

    @abstractmethod
    def walk(self, prefix_dir: str = "", skip: Collection[str] = ()) -> list[Entry]:
        """Return the files of a folder and of the folders in it, at any depth, sorted by name.

        Names are relative to the folder. `skip`: names of folders that are not looked into, wherever they
        lie. Links to folders are followed, unless the target lies in the walked folder or holds it: its files
        would have two names. The list is empty if there is no such folder.
        """

    def list_after(self, prefix_dir: str, name: str) -> list[Entry]:
        """Return the files of a folder whose names are greater than `name`, sorted by name."""
        return [entry for entry in self.list(prefix_dir) if entry.name > name]

    def list_again(self, prefix_dir: str, before: Collection[Entry]) -> list[Entry]:
        """Return what `list` returns; entries in `before` whose files still exist may be returned unchanged.

        For files that never change under their names. Cost: on local disk one listing, and a stat of each
        file that is not in `before`.
        """
        return self.list(prefix_dir)

    @abstractmethod
    def list(self, prefix_dir: str = "") -> list[Entry]:
        """Return the files (not folders) of a folder, sorted by name; empty if the folder does not exist."""

    @abstractmethod
    def stat(self, rel: str) -> Stat | None:
        """Return a file's stat, which differs between any two states of it; None if there is no file."""

    def look_at(self, names: Collection[str]) -> None:  # noqa: B027 - most stores answer at once
        """Within a look, request the stats of these names at once; later calls of `stat` have them."""

    @abstractmethod
    def exists(self, rel: str) -> bool:
        """Return whether there is a file or folder of that name."""

    @abstractmethod
    def open(self, rel: str, end: int = 0) -> pa.NativeFile:
        """Open the file for random access. The caller closes it.

        `end`: how many of the last bytes the caller will read; an object store fetches them at once.
        """

    def open_fixed(self, rel: str, end: int = 0) -> pa.NativeFile:
        """Return what `open` does, of a file that never changes under its name; its end may be cached."""
        return self.open(rel, end)

    @abstractmethod
    def create(self, folder: str, stem: str) -> AbstractContextManager[Unfinished]:
        """Return a context with a new file in a folder; a missing folder is created below the root.

        A file not published by the end of the context is removed. `stem` is unique in the folder. If the
        process is killed, a store may keep the file under a name that starts with `_` and contains the stem;
        `list` shows it.
        """

    @abstractmethod
    def put_if_absent(self, rel: str, data: bytes) -> None:
        """Write a file that must not exist; it is whole and durable when its name appears.

        An existing file with the same bytes may count as written by this call, after a lost reply: a caller
        that must know whether another writer was first makes its bytes unlike the other's.

        Raises:
            FileExistsError: another writer was first; its file is untouched.
        """

    @abstractmethod
    def put(self, rel: str, data: bytes) -> None:
        """Write or replace a file; a reader sees the old bytes or the new ones, never a part."""

    @abstractmethod
    def delete(self, rel: str) -> None:
        """Remove a file; do nothing if it is gone already."""

    def clock_ms(self) -> int:
        """Return the time in ms since 1970 by the clock that sets modification times."""
        return time.time_ns() // 1_000_000

    def make_root(self) -> None:  # noqa: B027 - most stores have no folders
        """Create the root, if the store has folders; no other method creates the root.

        A vanished root, such as a mount, may come back: nothing must be written at its path meanwhile.
        """

    def check_commits(self) -> None:  # noqa: B027 - most stores need no check
        """Check that the store tells which of two writers was first; called before an index is created.

        Raises:
            NoConditionalPutError: the store does not tell.
            StorageError: the store refuses to write.
        """


OPTION, VARIABLE = "allow_outside", "TAILBIT_ALLOW_OUTSIDE"
"""The storage option, and the environment variable that replaces it if it is not given."""

_HINT = (
    "Shallow clones and views of `to_delta` name files of another table. Where you trust who writes the log,"
    f" allow it: --storage-option {OPTION}=true, storage_options={{'{OPTION}': 'true'}} or {VARIABLE}=true."
)
_KEPT_S, _KEPT_FOLDERS = 1.0, 10_000
_PLAIN: dict[tuple[str, str], float] = {}
"""Pairs of root and folder with no symbolic link between them, each valid until a time of `monotonic`."""
_MEANINGS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False, "": False}


def refuse_outside(path: str, root: str, options: StorageOptions) -> None:
    """Check that the options, or else the environment, allow a path outside of a root.

    Raises:
        UnsafePathError: neither options nor environment allow the path.
        UsageError: the option is not a boolean.
    """
    if not _is_allowed(options):
        raise UnsafePathError(file=path, path=root, reason="it lies outside of the table's root", hint=_HINT)


def stat_inside(path: str, target: str, root: str, options: StorageOptions) -> os.stat_result | None:
    """Return the stat of an absolute local `target` that lies below a root, also after symbolic links.

    The result is None if there is no such file. The root itself may lie behind links. Cost: one system call.
    Results for folders are cached for `_KEPT_S` seconds: a folder replaced by a link is noticed after that
    time, a file at once.

    Raises:
        UnsafePathError: the target is outside of the root without permission.
        UsageError: the option is not a boolean.
        OSError: the target cannot be inspected.
    """
    state = _state(target, links=False)
    if state is None or S_ISLNK(state.st_mode) or not _is_plainly_below(root, target):
        if not (_is_allowed(options) or _is_really_below(root, target)):
            refuse_outside(path, root, options)
        return _state(target, links=True)
    return state


def refuse_parts(path: str, name: str, root: str) -> None:
    """Check that a path has no part that leads upwards; an absolute path may pass.

    `name`: the path without its scheme, which is what is checked. The error names `path` and `root`.

    Raises:
        UnsafePathError: the path is empty, or holds `..` or a NUL.
    """
    if not name or "\0" in name:
        raise UnsafePathError(file=path, path=root, reason="it is empty or holds a NUL")
    if ".." in name and ".." in name.replace(os.sep, "/").split("/"):
        raise UnsafePathError(file=path, path=root, reason="it holds `..`")


def _is_allowed(options: StorageOptions) -> bool:
    given = next((value for name, value in options if name.lower() == OPTION), None)
    text = os.environ.get(VARIABLE, "") if given is None else given
    if text.lower() not in _MEANINGS:
        name = VARIABLE if given is None else OPTION
        raise UsageError(reason=f"{name} is neither true nor false", hint="Give it as true.")
    return _MEANINGS[text.lower()]


def _is_plainly_below(root: str, target: str) -> bool:
    """Return whether the folder of a path is the root or below it, without symbolic links below the root."""
    folder = os.path.dirname(target)
    if _PLAIN.get((root, folder), 0.0) < monotonic():
        if not _is_plain_folder(root, folder):
            return False
        if len(_PLAIN) >= _KEPT_FOLDERS:
            _PLAIN.clear()
        _PLAIN[root, folder] = monotonic() + _KEPT_S
    return True


def _is_plain_folder(root: str, folder: str) -> bool:
    while len(folder) > len(root):
        state = _state(folder, links=False)
        if state is None or S_ISLNK(state.st_mode):
            return False
        folder = os.path.dirname(folder)
    return folder == root


def _state(path: str, links: bool) -> os.stat_result | None:
    """Return the stat of a path, following a symbolic link if `links`; None if there is no such file."""
    try:
        return os.stat(path) if links else os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _is_really_below(root: str, target: str) -> bool:
    real = os.path.realpath(root)
    return os.path.realpath(target).startswith(real if real.endswith(os.sep) else real + os.sep)
