"""Traces of a commit to the index that its log no longer has, such as a newest commit that was deleted.

What is left of the index is whole, and of an earlier version of its table: no answer is wrong, and the
indexer does the work again. Only the files that the lost commit wrote tell of it, until they are swept.
"""

from __future__ import annotations

from collections.abc import Iterator

from tailbit.base.errors import CorruptIndexError
from tailbit.index.kinds.ledger import LEDGER, ledger_from_arrow
from tailbit.index.store.state import IndexState


def ledgers_without_a_commit(index: IndexState) -> set[str]:
    """Return the ledger files on disk that are later than the index's own, and that no commit names.

    A writer in the middle of a commit has one for a moment; one that was interrupted leaves it behind. Cost:
    one listing, and a read of each unnamed file that is not older than the ledger.
    """
    folder = f"kind={LEDGER.name}"
    entries = {f"{folder}/{entry.name}": entry.mtime_ms for entry in index.storage.list(folder)}
    known = 0 if index.ledger is None else index.ledger.seq
    since = max((entries[path] for path in entries.keys() & index.files.keys()), default=0)
    later = (path for path, mtime in entries.items() if mtime >= since and path not in index.files)
    return {path for path in later if _seq(index, path) > known}


def _seq(index: IndexState, path: str) -> int:
    """Return the number of the commit that a ledger file was written for; -1 if it cannot be read."""
    try:
        ledger = ledger_from_arrow(LEDGER.read(index.storage, path))
    except CorruptIndexError:
        return -1
    return -1 if ledger is None else ledger.seq


def lost_commits(index: IndexState, before: set[str]) -> Iterator[str]:
    """Yield a note if some ledger files of `ledgers_without_a_commit` still have no commit.

    `index`: as its log says now.
    """
    if before & ledgers_without_a_commit(index):
        yield (
            "the files of a later commit are there, and the log of the index has no such commit: it was "
            "deleted, or its writer was interrupted. What is left is of an earlier version, and the indexer "
            "does the rest again; changes of columns and of indexes by name since then are lost"
        )
