"""A source table as everything above sees it: what each table format implements."""

from __future__ import annotations

from abc import ABC, abstractmethod

from tailbit.tables.model import Changes, Fingerprint, Version
from tailbit.tables.snapshot import Snapshot
from tailbit.tables.storage import Storage


class Table(ABC):
    """A table of any format. Reads only; nothing here ever writes below its root.

    Versions are the commits of the source log, contiguous from 0. One object serves one process, whose
    threads may share it.
    """

    storage: Storage
    """Where the table's files are; data files are read through it by the paths of their slices."""

    @property
    def root(self) -> str:
        """The absolute local path of the table."""
        return self.storage.root

    @abstractmethod
    def head(self) -> Version:
        """The newest version. Asked at every look for news: it must cost no more than a few stats.

        Raises:
            NotATableError: there is no log any more.
        """

    def moved_on(self) -> bool:
        """Whether there may be a commit after the newest one that this object has seen.

        Cost: one probe by name. Whether the past is still the same is not looked at.
        """
        return True

    @abstractmethod
    def earliest(self) -> Version:
        """The oldest version that can be rebuilt, and from which every later one can.

        Raises:
            CommitGapError: not even the head can be rebuilt.
        """

    @abstractmethod
    def snapshot(self, version: Version | None = None) -> Snapshot:
        """The state at a version, else at the head. Asked again for one version, it gives one object.

        Raises:
            VersionNotFoundError: the version is gone or not yet there.
            CommitGapError: a commit that it needs is missing.
            MalformedLogError: the log is damaged.
            UnsupportedFeatureError: the table demands a feature that is not understood.
        """

    @abstractmethod
    def changes(self, first: Version, last: Version) -> Changes:
        """The net effect of the commits `first` to `last` per path. Its cost follows what they changed.

        Raises:
            CommitGapError: one of them is missing.
            MalformedLogError: one of them is damaged.
            UnsupportedFeatureError: one of them demands a feature that is not understood.
        """

    @abstractmethod
    def commit_timestamp(self, version: Version) -> int:
        """The time of a commit in ms since 1970; times rise with versions.

        Raises:
            CommitGapError: the commit is not in the log.
        """

    @abstractmethod
    def version_at(self, timestamp_ms: int) -> Version:
        """The newest version committed at or before a time.

        Raises:
            VersionNotFoundError: the time is before the first readable commit or after the last.
        """

    @abstractmethod
    def fingerprint(self, version: Version) -> Fingerprint | None:
        """Proof of what a commit is; None where the commit is gone.

        Two histories that share a version number must differ in it: an index trusts nothing else.
        """

    @abstractmethod
    def fingerprint_stat(self, version: Version) -> object:
        """What changes at once when a commit becomes another; None where it is gone. It is only compared.

        Cost: a stat.
        """
