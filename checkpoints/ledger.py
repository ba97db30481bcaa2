"""The next ledger record, committed together with the work of a batch.

The ledger is the index's record of progress: how far the source log is indexed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tailbit.base.dataclass import dataclass
from tailbit.checkpoints.offset import Offset
from tailbit.index.model import FileRecord, Ledger, LedgerState
from tailbit.tables.model import Fingerprint, Version


@dataclass(frozen=True, slots=True)
class Origin:
    """The Spark query and the batch that made a commit; informs people, and no decision rests on it."""

    query_id: str = ""
    batch_id: int = -1


def next_ledger(
    previous: Ledger | None,
    end: Offset,
    fingerprint: Fingerprint | None,
    lineage: int,
    uncounted: int,
    settings_version: int,
    origin: Origin,
    committed_at: int,
) -> Ledger:
    """Return the ledger once everything before offset `end` is recorded; the commit fills in `seq`.

    Invariant: `covered` moves only when the snapshot of the round is complete. Until then `version` is the
    version of that snapshot, and `covered` keeps its value if `lineage` (the number of this unbroken history
    of the source log) is unchanged, else becomes None. `uncounted`: see `uncounted_after`.
    """
    covered: Version | None = end.stands_at
    if end.in_snapshot:
        covered = previous.covered if previous is not None and previous.lineage == lineage else None
    return Ledger(
        round=end.round,
        lineage=lineage,
        version=end.stands_at,
        state=LedgerState.BUILDING if end.in_snapshot else LedgerState.COMPLETE,
        covered=covered,
        fingerprint=fingerprint,
        uncounted=uncounted,
        settings_version=settings_version,
        query_id=origin.query_id,
        batch_id=origin.batch_id,
        committed_at=committed_at,
    )


def uncounted_after(
    before: int, records: Iterable[FileRecord], record_of: Callable[[str], FileRecord | None]
) -> int:
    """Return the number of live files missing from the value counts once `records` replace older records.

    Counts by value are served from the index only while this number is 0. Cost: one lookup per changed file.
    """
    for record in records:
        before += _uncounted(record) - _uncounted(record_of(record.path))
    return before


def _uncounted(record: FileRecord | None) -> int:
    return int(record is not None and record.left is None and not record.counted)
