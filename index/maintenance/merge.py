"""Merging of index files of one size class into one file, all kinds in one commit of removes and adds.

Each kind writes its own merged files; here they are committed. Merging drops what no retained source version
can reach. A merge that drops a file's postings drops its claim in the same commit, so that a restore of an
older version finds the file uncovered and indexes it again.

Each kind decides which of its files are due. Size classes grow by a factor of eight, so a record is rewritten
a constant number of times however long the history, and a query meets at most seven files per class.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import CommitConflictError
from tailbit.base.faults import Fault, fault_point
from tailbit.index.kinds.files import reclaimed
from tailbit.index.kinds.kind import Merged, MergeGroup
from tailbit.index.model import FileRecord, NewClaim
from tailbit.index.store.state import IndexState
from tailbit.index.store.table import MetadataTable

_ATTEMPTS = 5


@dataclass(frozen=True)
class MergePlan:
    """The work of one merge commit; files of source versions from `earliest` on keep their postings."""

    groups: tuple[MergeGroup, ...]
    earliest: int | None


def merge_due(index: IndexState, earliest_version: int | None = None) -> list[MergePlan]:
    """Return the merge that is due as a list of one plan, or an empty list.

    `earliest_version`: the earliest source version that a reader may still query; None keeps the postings of
    every file. Cost: one pass over the live index files; if that version has moved, one vectorised pass over
    the records.
    """
    groups = tuple(group for kind in index.kinds for group in kind.due(index, earliest_version))
    return [MergePlan(groups, earliest_version)] if groups else []


def run_merge(index: MetadataTable, plan: MergePlan) -> bool:
    """Write and commit a merge; return False if another writer has removed its inputs meanwhile.

    Merged files are functions of immutable inputs and of claims. So if another writer commits first, only the
    moved claims are computed again, on the reloaded state. Memory: one row group of every input.

    Raises:
        CorruptIndexError: an input fails the checks.
        StorageError: the storage refused; nothing is visible.
        CommitConflictError: other writers were first again and again.
    """
    if not _may_commit(index, plan, [None] * len(plan.groups)):
        return False
    merged = [index.kinds[group.kind].merge(index.state, group, plan.earliest) for group in plan.groups]
    fault_point(Fault.MERGE_WRITTEN)
    for attempt in range(_ATTEMPTS):
        try:
            _commit(index, plan, merged)
            break
        except CommitConflictError:
            if attempt == _ATTEMPTS - 1:
                raise
            index.refresh()
            if not _may_commit(index, plan, merged):
                return False
    fault_point(Fault.MERGE_COMMITTED)
    return True


def merge_all(index: MetadataTable, earliest_version: int | None = None) -> int:
    """Merge until nothing is due; return the number of merges committed."""
    done = 0
    while plans := merge_due(index.state, earliest_version):
        done += sum(run_merge(index, plan) for plan in plans)
    return done


def _may_commit(index: MetadataTable, plan: MergePlan, merged: Sequence[Merged | None]) -> bool:
    """Return whether every kind allows the merge in the present state of the index."""
    return all(
        index.kinds[group.kind].may_commit(index.state, group, written)
        for group, written in zip(plan.groups, merged, strict=True)
    )


def _commit(index: MetadataTable, plan: MergePlan, merged: Sequence[Merged]) -> None:
    adds = [file for written in merged for file in written.files]
    removes = [path for group in plan.groups for path in group.inputs]
    moved = [claim for written in merged for claim in written.moved]
    index.commit(list(_rebased(index, moved)), adds, None, removes=removes, data_change=False)


def _rebased(index: MetadataTable, moved: Sequence[NewClaim]) -> Iterator[FileRecord]:
    """Yield the newest records with their new claims (ranges in row spaces).

    A file that claims another range by now is skipped. Example: a record has the claim `[0, 3)` of row space
    A, and the merge moves that claim to `[5, 8)` of row space B: the record is yielded with B and 5. If an
    indexer has replaced the file meanwhile, its record claims a range of row space C, which the merge did not
    read: nothing is yielded.
    """
    now = {record.path: record for record in index.state.recorded.get_all(claim.path for claim in moved)}
    for claim in moved:
        record = now.get(claim.path)
        if record is not None and (record.space, record.base) == (claim.space, claim.base):
            yield reclaimed(record, claim.new_space, claim.new_base)
