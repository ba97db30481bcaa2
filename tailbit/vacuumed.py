"""An error for a missing data file that says from which version on the table no longer names the file.

The cleaner of a format (VACUUM in Delta) deletes the files that newer versions no longer name, so an old
version can be in the log and yet lack data. The index may still count its rows; if data must be read, the
error says which versions work.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from tailbit.base.errors import (
    CommitGapError,
    DataFileError,
    LiveTwiceError,
    StorageError,
    VacuumedFileError,
    VersionNotFoundError,
)
from tailbit.tables.model import Version, after
from tailbit.tables.table import Table

P = ParamSpec("P")
R = TypeVar("R")


class Dated(Protocol):
    """Anything that is answered from one version of a table."""

    @property
    def version(self) -> Version:
        """Return the version."""

    @property
    def _table(self) -> Table | None: ...


A = TypeVar("A", bound=Dated)


@contextmanager
def vacuumed_told(*answers: Dated) -> Iterator[None]:
    """Raise VacuumedFileError for a DataFileError about an answer's file that has left the table."""
    try:
        yield
    except DataFileError as lost:
        raise _error_of(lost, *answers) from lost.__cause__


def tells_vacuumed(method: Callable[Concatenate[A, P], R]) -> Callable[Concatenate[A, P], R]:
    """Wrap a method so that it raises VacuumedFileError if a missing file has left the table."""

    @functools.wraps(method)
    def wrapped(answer: A, /, *args: P.args, **kwargs: P.kwargs) -> R:
        # A context manager of `contextlib` costs ten times as much as the call itself.
        try:
            return method(answer, *args, **kwargs)
        except DataFileError as lost:
            raise _error_of(lost, answer) from lost.__cause__

    return wrapped


def told_rows(answer: Dated, rows: Iterator[Any]) -> Iterator[Any]:
    """Yield rows; a missing file on the way raises VacuumedFileError if it has left the table."""
    with vacuumed_told(answer):
        yield from rows


def _error_of(lost: DataFileError, *answers: Dated) -> DataFileError:
    """Return VacuumedFileError if a missing file has left the table of an answer, else `lost`.

    The hint of `lost` is replaced by the remedy in the words of the format of the table.
    """
    gone = next(filter(None, (_vacuumed(answer, lost) for answer in answers)), None)
    words = next((answer._table.words for answer in answers if answer._table is not None), None)
    if gone is not None or words is None:
        return gone or lost
    return type(lost)(**{**lost.fields, "hint": words.remedy_of(lost)})


def _vacuumed(answer: Dated, lost: DataFileError) -> VacuumedFileError | None:
    """Return the error for a missing file that the table no longer names; None for any other error."""
    table, file = answer._table, str(lost.fields.get("file"))
    if table is None or isinstance(lost, VacuumedFileError):
        return None
    try:
        if table.storage.locate(file)[1] is not None:
            return None
    except StorageError:
        # The store denies access: the original error, which names the file, is raised.
        return None
    head = table.snapshot()
    if head.files.get(file) is not None or not _was_live(table, file, answer.version):
        return None
    since_version = _version_without(table, file, answer.version, head.version)
    cleaner = table.words.cleaner
    version, since, newest = map(table.name_of, (answer.version, since_version, head.version))
    return VacuumedFileError(file=file, version=version, left=since, head=newest, cleaner=cleaner)


def _was_live(table: Table, file: str, version: Version) -> bool:
    """Return whether a version named a file; True if the version itself has been cleaned up."""
    try:
        return table.snapshot(version).files.get(file) is not None
    except VersionNotFoundError:
        return True


def _version_without(table: Table, file: str, version: Version, head: Version) -> Version:
    """Return the first version after `version` that does not name a file; the head if the log cannot say."""
    try:
        for version_after in table.versions(after(version), head):
            named = any(
                change.path == file and change.new is None
                for change in table.changes(version_after, version_after).slices
            )
            if named and table.snapshot(version_after).files.get(file) is None:
                return version_after
    except (CommitGapError, LiveTwiceError, VersionNotFoundError):
        return head
    return head
