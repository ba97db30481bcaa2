"""Damage of an index, by the parts that must be rebuilt; and the check whether one file of it is damaged."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence

import pyarrow as pa

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import CorruptIndexError, StorageError
from tailbit.index.kinds.files.kind import FILES
from tailbit.index.kinds.kind import Blame, Problem
from tailbit.index.kinds.ledger import LEDGER
from tailbit.index.kinds.rows import kind_of
from tailbit.index.kinds.schemas import KINDS, Kinds
from tailbit.index.kinds.settings import SETTINGS
from tailbit.index.postings.layout import NAME as POSTINGS
from tailbit.index.postings.segment import Segment
from tailbit.index.store.state import IndexState
from tailbit.tables.storage import Storage

PASSING = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EACCES, errno.EPERM, errno.ESTALE, errno.ENOTCONN}
    | {errno.ETIMEDOUT, errno.EINTR, errno.EAGAIN, errno.EBUSY, errno.EHOSTDOWN, errno.ENETDOWN}
)
"""Errors of the operating system that say nothing about the bytes of a file."""


@dataclass(frozen=True)
class Damage:
    """The damaged parts of an index.

    `files`: index files that cannot be read. `spaces`: row spaces whose postings contradict the data.
    `counts`: the value counts are wrong. `hidden`: the hidden rows are wrong. `records`: the records are not
    those of the source's files.
    """

    files: frozenset[str] = frozenset()
    spaces: frozenset[str] = frozenset()
    counts: bool = False
    hidden: bool = False
    records: bool = False

    def __bool__(self) -> bool:
        return bool(self.files or self.spaces or self.counts or self.hidden or self.records)

    def with_all(self, others: Iterable[Damage]) -> Damage:
        """Return the union of this damage and others."""
        damage = self
        for other in others:
            damage = Damage(
                damage.files | other.files,
                damage.spaces | other.spaces,
                damage.counts or other.counts,
                damage.hidden or other.hidden,
                damage.records or other.records,
            )
        return damage


def damage_named(error: CorruptIndexError) -> Damage:
    """Return the damage named by an error: a file of the index, or the counts of a data file.

    The counts of a data file are lost if the file is gone and the postings or hidden rows by which it was
    counted are gone too: then everything is counted again.
    """
    file = str(error.fields.get("file", ""))
    return Damage(files=frozenset({file})) if file.startswith("kind=") else Damage(counts=True)


def is_of_records(error: CorruptIndexError) -> bool:
    """Return whether an error names file records, ledger or settings, without which no part can be mended."""
    return kind_of(str(error.fields.get("file"))) in (FILES.name, LEDGER.name, SETTINGS.name)


def damage_of(problems: Sequence[Problem]) -> Damage:
    """Return all that the problems blame; nothing if the source is at fault."""
    return Damage().with_all(map(_damage, problems))


def _damage(problem: Problem) -> Damage:
    if problem.blame is Blame.FILE and not problem.name.startswith("kind="):
        # The counts of a data file rest on index files that are lost.
        return Damage(counts=True)
    if problem.blame is Blame.FILE:
        return Damage(files=frozenset({problem.name}))
    if problem.blame is Blame.SPACE:
        return Damage(spaces=frozenset({problem.name}))
    return Damage(
        counts=problem.blame is Blame.COUNTS,
        hidden=problem.blame is Blame.HIDDEN,
        records=problem.blame is Blame.RECORDS,
    )


def why_damaged(storage: Storage, path: str, kinds: Kinds = KINDS) -> str | None:
    """Return why a file of an index cannot be read as written, or None if it can. Cost: reads all of it.

    A file of a kind that this release does not know is skipped, because only the release that writes it can
    check it.

    Raises:
        StorageError: the store fails for a reason that says nothing about the file: no handles, no rights.
    """
    kind = kinds.of(path)
    if kind is None:
        return None
    try:
        kind.read_whole(storage, path)
    except CorruptIndexError as damage:
        _pass_on(damage.__cause__, path)
        return str(damage.fields.get("reason"))
    except (pa.ArrowException, ValueError, OSError) as damage:
        _pass_on(damage, path)
        return str(damage)
    return None


def _pass_on(cause: BaseException | None, path: str) -> None:
    if isinstance(cause, StorageError):
        raise cause
    if isinstance(cause, OSError) and cause.errno in PASSING:
        raise StorageError(path=path, reason=cause.strerror or str(cause)) from cause


def spaces_of(state: IndexState, damage: Damage) -> set[str]:
    """Return the row spaces with damaged segments or postings; a segment's file name holds its row space."""
    of_files = {Segment(state.storage, path).space for path in damage.files if kind_of(path) == POSTINGS}
    return of_files | damage.spaces
