"""The interface of a source table: all that the layers above call, and each format implements."""

from __future__ import annotations

import functools
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import ClassVar, Concatenate, NamedTuple, ParamSpec, TypeVar

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import TailbitError, UsageError
from tailbit.tables.model import NULL_FOLDER, Changes, FileSlice, Fingerprint, Version, VersionName
from tailbit.tables.snapshot import Snapshot
from tailbit.tables.storage import Storage, StorageOptions


class FormatWords(NamedTuple):
    """The words of a table format: an error about a table uses only the words of the table's own format.

    `kind`: what a table of the format is called. `log`: the folder of the log, which marks the format.
    `cleaner`: the operation that deletes files which newer versions no longer name. `remedies`: hints in the
    format's words, by name of the error's class; an error without a hint here keeps the hint of its class.
    `sql_name`: the word before a path in a SQL statement.
    """

    kind: str
    log: str
    cleaner: str
    remedies: Mapping[str, str] = MappingProxyType({})
    sql_name: str = "delta"
    mark: str = ""

    @property
    def shown_by(self) -> str:
        """The file or folder that shows that there is a table of the format."""
        return self.mark or self.log

    def remedy_of(self, error: TailbitError) -> str:
        """Return what to do about an error: the format's hint, unless the error was raised with a hint."""
        remedy = None if error.fields.get("hint") else self.remedies.get(type(error).__name__)
        return error.hint if remedy is None else remedy


class Format(ABC):
    """A format of tables: one folder with its modules, and one line in `tables.formats`.

    `yields`: other formats may keep metadata of this format beside their own log, so that a table is one of
    this format only if there is no other log, or if it is named.
    """

    words: ClassVar[FormatWords]
    yields: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """The name of the format in options, and before a path in SQL."""
        return self.words.sql_name

    @abstractmethod
    def open(self, storage: Storage) -> Table:
        """Open a table.

        Raises:
            NotATableError: there is none of this format.
        """

    def files(self, storage: Storage) -> Storage:
        """Return the store of a table's files, by the store of its folder. Cost: no access to the store."""
        return storage

    def located(self, path: str, options: StorageOptions) -> tuple[str, StorageOptions] | None:
        """Return the root and options of a table that is not given by its root; None for a root.

        Raises:
            CatalogError, NotATableError, RequirementError: a catalog cannot be asked, or has no such table.
            UsageError: a URI that names no table of a catalog.
        """
        return None

    def named(self, names: Sequence[str], class_in_spark: str) -> str | None:
        """Return the URI of a table by its names, the first of them that of a catalog; None for other names.

        `class_in_spark`: that of Spark's catalog of that name; if it is of another format, Spark finds the
        table. Empty without Spark.
        """
        return None


class GroupOfFile(NamedTuple):
    """The partition and file group of a data file as Hudi has them; in other formats, the nearest thing.

    `partition`: in Hudi the file's folder below the root, in other formats `name=value/...` of the partition
    columns; a dot if there are no partitions. `file_id`: in Hudi the id of the file group, in other formats
    the path of the file. `base_instant`: the requested time of the instant that wrote the group's base file;
    None if there is no base file.
    """

    partition: str
    file_id: str
    base_instant: str | None


NO_PARTITION = "."
"""The partition of a file of a table without partitions, as RFC-92 of Hudi writes it."""

_ESCAPED = re.compile(r"""["#%'*/:=?\\{\[\]^\x01-\x1f\x7f]""")
"""The characters that Hive and Spark escape in the name of a partition's folder."""


class Table(ABC):
    """A table of any format, read-only: nothing is ever written below its root.

    Versions are the numbers of the source log's commits; they rise, but need not be contiguous. A
    process has one object per table, which its threads may share.
    """

    storage: Storage
    """The store of the table's files; data files are read from it by the paths of their slices."""

    words: ClassVar[FormatWords]
    """The words of the table's format."""

    @property
    def root(self) -> str:
        """The root of the table: an absolute local path, or a URL in an object store."""
        return self.storage.root

    @property
    def polled_by_requests(self) -> bool:
        """Whether a look for commits is a request to a server, which must not be made without a pause."""
        return self.storage.remote

    @property
    def address(self) -> str:
        """What opens the table again: its root, unless its format needs to be given more."""
        return self.root

    @abstractmethod
    def head(self) -> Version:
        """Return the newest version. Every poll for changes calls this: it must cost only a few stats.

        Raises:
            NotATableError: the log has been removed.
        """

    def moved_on(self, since: Version) -> bool:
        """Return whether there may be a commit after `since`, the head as the caller saw it last.

        True also if another user of the object has seen another head. Cost: one probe by name. Commits
        already seen are not checked again.
        """
        return True

    @abstractmethod
    def earliest(self) -> Version:
        """Return the oldest version from which every version up to the head can be rebuilt.

        Raises:
            CommitGapError: not even the head can be rebuilt.
        """

    @abstractmethod
    def snapshot(self, version: Version | None = None) -> Snapshot:
        """Return the snapshot of a version, or of the head. Repeated calls return the same object.

        Raises:
            VersionNotFoundError: the version has been cleaned up, or is not there yet.
            CommitGapError: a commit that the snapshot needs is missing.
            MalformedLogError: the log is damaged.
            UnsupportedFeatureError: the table demands a feature that this reader does not support.
        """

    @abstractmethod
    def versions(self, first: Version, last: Version, most: int | None = None) -> Sequence[Version]:
        """Return the versions from `first` to `last`, ascending; at most the first `most` of them.

        Both ends are included and need not be commits. A version whose commit is missing may be in the
        result: reading that version raises an error.

        Raises:
            CommitGapError: a version of the range may be missing, and the log does not give its number.
        """

    def name_of(self, version: Version) -> VersionName:
        """Return the name of a version for people and in JSON; unless a format overrides this, its number."""
        return version

    def version_named(self, name: str) -> Version:
        """Return the version of a name, which is the version's number unless a format overrides this.

        Raises:
            VersionNotFoundError: the table has no version of that name.
            UsageError: the text cannot be the name of a version in this format.
        """
        if not re.fullmatch(r"[0-9]{1,18}", name.strip()):
            hint = f"Versions of a {self.words.kind} are numbers, such as {self.head()}; by default the last."
            raise UsageError(reason=f"{name!r} is no version", hint=hint)
        return int(name)

    def version_numbered(self, number: int) -> Version:
        """Return the version that people mean by a number: by default the version of that number."""
        return number

    def count(self, first: Version, last: Version) -> int:
        """Return the number of versions from `first` to `last`, which are bounds.

        Raises:
            CommitGapError: as `versions` does.
        """
        return len(self.versions(first, last))

    @abstractmethod
    def follows(self, version: Version) -> bool:
        """Return whether the log still holds the commit that follows a version older than the head.

        Cost: at most one commit is read.
        """

    @abstractmethod
    def changes(self, first: Version, last: Version) -> Changes:
        """Return the net effect of the commits from `first` to `last`, which are bounds, per path.

        Cost: follows the changes of the commits, whatever the size of the table.

        Raises:
            CommitGapError: a commit of the range is missing.
            MalformedLogError: a commit of the range is damaged.
            UnsupportedFeatureError: a commit of the range demands a feature that this reader does not
                support.
        """

    @abstractmethod
    def commit_timestamp(self, version: Version) -> int:
        """Return the time of a commit in ms since 1970; times strictly increase with versions.

        Raises:
            CommitGapError: the commit is not in the log.
        """

    @abstractmethod
    def version_at(self, timestamp_ms: int) -> Version:
        """Return the newest version committed at or before a time.

        Raises:
            VersionNotFoundError: the time is before the first readable commit or after the last.
        """

    @abstractmethod
    def fingerprint(self, version: Version) -> Fingerprint | None:
        """Return the fingerprint of a commit; None if the commit is gone.

        Two histories that share a version number must differ in the fingerprint: an index trusts nothing
        else.
        """

    def took_back(self, known: Fingerprint) -> bool:
        """Return whether later commits rolled back the commit of a fingerprint, and replaced none before it.

        If so, every file that the table still shows is the same file as at that commit. A format that never
        rolls back commits returns False.
        """
        return False

    @abstractmethod
    def fingerprint_stat(self, version: Version) -> object:
        """Return a value that changes as soon as a commit is replaced, or None if the commit is gone.

        The value is only compared with earlier ones. Cost: one stat.
        """

    def group_of(self, snapshot: Snapshot, slice_: FileSlice) -> GroupOfFile:
        """Return the partition and the file group of a file of a snapshot."""
        columns = [column for column in snapshot.schema.columns if column.partition]
        values = [slice_.partition.get(column.physical[0]) for column in columns]
        named = [f"{_escaped(c.name[0])}={_escaped(v)}" for c, v in zip(columns, values, strict=True)]
        return GroupOfFile("/".join(named) or NO_PARTITION, slice_.path, None)


P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="SharedTable")


@dataclass
class SharedTable(Table):
    """A table whose object threads share; its methods are `settled`, and raise the errors of `Table`."""

    storage: Storage
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False, compare=False)
    looks: ClassVar[int] = 1
    """How often a method is tried if a file of the log is deleted meanwhile."""

    @classmethod
    def open(cls: type[S], storage: Storage) -> S:
        """Open the table below a root."""
        table = cls(storage)
        table.head()
        return table

    def look_anew(self) -> None:
        """Drop what was listed of the log, of which a file is gone."""

    def gone(self, file: FileNotFoundError) -> Exception:
        """Return the error for a file of the log that is gone at every look."""
        return file


def settled(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Serialise a method of a table, and repeat it if a file of the log was deleted meanwhile.

    Errors have the hints of the table's format.
    """

    @functools.wraps(method)
    def repeated(table: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with table.lock:
            for look in range(1, table.looks + 1):
                try:
                    return method(table, *args, **kwargs)
                except TailbitError as damage:
                    if (remedy := table.words.remedy_of(damage)) == damage.hint:
                        raise
                    raise type(damage)(**{**damage.fields, "hint": remedy}) from damage
                except FileNotFoundError as file:
                    table.look_anew()
                    if look == table.looks:
                        if (error := table.gone(file)) is file:
                            raise
                        raise error from file
            raise AssertionError("the last look returns or raises")

    return repeated


def _escaped(text: str | None) -> str:
    """Escape a name or value for the name of a partition folder; None and empty texts stand for NULL."""
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text) if text else NULL_FOLDER
