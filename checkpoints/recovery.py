"""The point from which the stream continues, decided from the ledger, Spark's checkpoint and the source log.

One decision table serves every start and every batch. The ledger in the index decides; the Spark checkpoint
is only a cache of progress.

The index is derived. The source log is the only fact: deleting the index or the Spark checkpoint costs time,
never data, and neither indexing nor asking writes to the source table.

| situation | known by | the stream goes on |
|---|---|---|
| fresh | nothing recorded, nothing remembered | round 1 with a snapshot of the head |
| mid-build | the ledger's round is being built, its pinned version readable | inside that snapshot |
| go on | remembered position = behind the covered version | there |
| lost checkpoint | nothing remembered, covered version in the log | behind the covered version, same round |
| trim | remembered position is behind the covered version | behind the covered version, same round |
| index restored | position is ahead of the covered version | in a new round, behind that version |
| other indexer | the ledger's round is ahead of the remembered one | in the ledger's round |
| index deleted | nothing recorded, a position remembered | a new round, snapshot of the head |
| lost log tail | covered commit, next commit or pinned version is gone | a new round, snapshot of the head |
| other lineage | the covered commit is not as it was | a new round, snapshot of the head |
| taken back | a later commit rolled the covered commit back | a new round, snapshot of the head |
| settings changed | the settings ask for a round | a new round, snapshot of the head |
| not filled | the run ends by itself, and files lack a definition | a new round, snapshot of the head |

If the log cannot prove that it still holds the history that was indexed, the new round has a new lineage, and
the footer of every file that is kept is checked again. A rollback of the covered commit is such a proof: the
round after it reads only the files that came back.

The next ledger record, the progress of the index, is committed together with the work of a batch.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable

from tailbit.base.dataclass import dataclass
from tailbit.checkpoints.offset import Offset, log_start, short_fingerprint, snapshot_start
from tailbit.index.model import FileRecord, Ledger, LedgerState
from tailbit.tables.model import Fingerprint, Version, after
from tailbit.tables.table import Table


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


class Situation(enum.Enum):
    """The situation that decides from where the stream continues: a row of the decision table."""

    FRESH = "fresh"
    MID_BUILD = "mid-build"
    GO_ON = "go on"
    LOST_CHECKPOINT = "lost checkpoint"
    TRIM = "trim"
    INDEX_RESTORED = "index restored"
    OTHER_INDEXER = "other indexer"
    INDEX_DELETED = "index deleted"
    LOST_LOG_TAIL = "lost log tail"
    OTHER_LINEAGE = "other lineage"
    TAKEN_BACK = "taken back"
    SETTINGS_CHANGED = "settings changed"
    NOT_FILLED = "not filled"


@dataclass(frozen=True, slots=True)
class LogState:
    """The state of the source log now, read on demand.

    `fingerprint`: returns version and hash of a commit, None if the commit is gone. `earliest`: returns the
    first version that can be reconstructed. `follows`: tells whether the log has the commit after a version.
    `took_back`: tells whether a commit is gone because a later commit rolled it back. Each function is called
    only if the decision needs it.
    """

    head: Version
    earliest: Callable[[], Version]
    fingerprint: Callable[[Version], Fingerprint | None]
    follows: Callable[[Version], bool]
    took_back: Callable[[Fingerprint], bool] = lambda _: False

    @classmethod
    def of(cls, table: Table, head: Version) -> LogState:
        """Return the state of a table's log up to `head`."""
        return cls(head, table.earliest, table.fingerprint, table.follows, table.took_back)


@dataclass(frozen=True, slots=True)
class Resume:
    """The offset from which the stream continues, and why; never before the offset that Spark remembered."""

    situation: Situation
    offset: Offset


def lineage_holds(ledger: Ledger, log: LogState) -> bool:
    """Return whether the source log still has the commit that the ledger last covered, byte for byte.

    True also if a later commit rolled that commit back. False if that commit was cleaned up: then nothing
    proves that the files are the same. A ledger without a fingerprint, whose commit was gone before, holds
    while that commit stays gone and is not after the head.
    """
    fingerprint = ledger.fingerprint
    if fingerprint is None:
        return log.fingerprint(ledger.version) is None and ledger.version <= log.head
    is_there = fingerprint.version <= log.head and log.fingerprint(fingerprint.version) == fingerprint
    return is_there or log.took_back(fingerprint)


def decide(
    ledger: Ledger | None,
    remembered: Offset | None,
    log: LogState,
    settings_version: int,
    *,
    lacking: bool = False,
) -> Resume:
    """Return the row of the decision table that applies. `remembered`: the offset in Spark's checkpoint.

    `lacking`: whether files lack a definition of the index that only a new round can build for them.
    Invariant: the returned offset is `remembered` or belongs to a later round.
    """
    known_round = max(0 if ledger is None else ledger.round, 0 if remembered is None else remembered.round)
    if ledger is None:
        return _unrecorded(remembered, log, known_round)
    if not lineage_holds(ledger, log):
        gone = ledger.version <= log.head and log.fingerprint(ledger.version) is None
        why = Situation.LOST_LOG_TAIL if gone else Situation.OTHER_LINEAGE
        return Resume(why, _at_head(log, known_round + 1))
    if ledger.fingerprint is not None and log.fingerprint(ledger.version) is None:
        return Resume(Situation.TAKEN_BACK, _at_head(log, known_round + 1))
    if ledger.settings_version != settings_version:
        return Resume(Situation.SETTINGS_CHANGED, _at_head(log, known_round + 1))
    if ledger.state is LedgerState.BUILDING:
        return _building(ledger, remembered, log, known_round)
    if lacking:
        return Resume(Situation.NOT_FILLED, _at_head(log, known_round + 1))
    return _covered(ledger, remembered, log, known_round)


def _unrecorded(remembered: Offset | None, log: LogState, known_round: int) -> Resume:
    if remembered is None:
        return Resume(Situation.FRESH, _at_head(log, 1))
    if (
        remembered.round == 1
        and remembered.in_snapshot
        and remembered.file == 0
        and _as_pinned(remembered, log)
    ):
        return Resume(Situation.FRESH, remembered)
    return Resume(Situation.INDEX_DELETED, _at_head(log, known_round + 1))


def _building(ledger: Ledger, remembered: Offset | None, log: LogState, known_round: int) -> Resume:
    if ledger.version < log.earliest():
        return Resume(Situation.LOST_LOG_TAIL, _at_head(log, known_round + 1))
    start = snapshot_start(ledger.round, log.fingerprint(ledger.version), ledger.version)
    if remembered is None or ledger.round > remembered.round:
        return Resume(Situation.MID_BUILD, start)
    if ledger.round == remembered.round and remembered.in_snapshot and remembered.version == ledger.version:
        return Resume(Situation.MID_BUILD, remembered)
    restart = snapshot_start(known_round + 1, log.fingerprint(log.head), log.head)
    return Resume(Situation.INDEX_RESTORED, restart)


def _covered(ledger: Ledger, remembered: Offset | None, log: LogState, known_round: int) -> Resume:
    covered = ledger.version
    if covered < log.head and not log.follows(covered):
        return Resume(Situation.LOST_LOG_TAIL, _at_head(log, known_round + 1))
    behind = log_start(ledger.round, log.fingerprint(covered), covered)
    if remembered is None:
        return Resume(Situation.LOST_CHECKPOINT, behind)
    if ledger.round > remembered.round:
        return Resume(Situation.OTHER_INDEXER, behind)
    if ledger.round == remembered.round and remembered.key == behind.key:
        return Resume(Situation.GO_ON, remembered)
    if ledger.round == remembered.round and remembered.key < behind.key:
        return Resume(Situation.TRIM, behind)
    if (
        ledger.round < remembered.round
        and not remembered.in_snapshot
        and remembered.version == after(covered)
    ):
        # The batch that was to open this round recorded nothing: what is remembered of the log here is gone.
        return Resume(Situation.LOST_LOG_TAIL, _at_head(log, known_round + 1))
    return Resume(Situation.INDEX_RESTORED, log_start(known_round + 1, log.fingerprint(covered), covered))


def _at_head(log: LogState, round_: int) -> Offset:
    return snapshot_start(round_, log.fingerprint(log.head), log.head)


def _as_pinned(offset: Offset, log: LogState) -> bool:
    """Return whether an offset's snapshot version can still be read and is the same commit."""
    if not log.earliest() <= offset.version <= log.head:
        return False
    pinned = log.fingerprint(offset.version)
    return short_fingerprint(pinned) == offset.fp


class Verdict(enum.Enum):
    """What a batch has to do, given its target and the recorded state."""

    APPLY = "apply"
    REPLAY = "replay"
    SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The work that a batch really has to do.

    APPLY: read the snapshot of the target version if `first` is None, else the log from `first` to the
    target. REPLAY: all of the batch is recorded already. SUPERSEDED: the ledger no longer leads to this batch
    (index deleted or restored, another indexer, another history of the source log), or the log no longer
    holds the commits that the batch would read; the batch records nothing, and the planner decides again.
    """

    verdict: Verdict
    lineage: int = 0
    first: Version | None = None


def decide_batch(ledger: Ledger | None, start: Offset, end: Offset, log: LogState) -> BatchPlan:
    """Return the work that is missing between the recorded state and the end of a batch.

    First run, replay and overlap are no separate cases: only the recorded state and the batch's end count.
    """
    if not _as_read(end, log) or _is_cleaned(start, end, log):
        return BatchPlan(Verdict.SUPERSEDED)
    if ledger is None:
        return BatchPlan(Verdict.APPLY, 1) if _reads_snapshot(start, end) else BatchPlan(Verdict.SUPERSEDED)
    if ledger.round > end.round:
        return BatchPlan(Verdict.SUPERSEDED)
    is_same_log = lineage_holds(ledger, log)
    is_new = ledger.version < end.stands_at or ledger.round < end.round
    if is_new and not _reads_snapshot(start, end) and not _is_followed(ledger, log):
        return BatchPlan(Verdict.SUPERSEDED)
    if ledger.round < end.round:
        return _opening(ledger, end, is_same_log)
    if not is_same_log:
        return BatchPlan(Verdict.SUPERSEDED)
    if ledger.state is LedgerState.BUILDING:
        same = _reads_snapshot(start, end) and end.stands_at == ledger.version
        return BatchPlan(Verdict.APPLY, ledger.lineage) if same else BatchPlan(Verdict.SUPERSEDED)
    if ledger.version >= end.stands_at:
        return BatchPlan(Verdict.REPLAY, ledger.lineage)
    if end.in_snapshot:
        return BatchPlan(Verdict.SUPERSEDED)
    return BatchPlan(Verdict.APPLY, ledger.lineage, after(ledger.version))


def _reads_snapshot(start: Offset, end: Offset) -> bool:
    """Return whether a batch reads files of a pinned snapshot; also true for the last such batch."""
    return end.in_snapshot or (start.in_snapshot and start.version == end.stands_at)


def _is_cleaned(start: Offset, end: Offset, log: LogState) -> bool:
    """Return whether a batch reads files of a pinned snapshot that can no longer be rebuilt."""
    return _reads_snapshot(start, end) and end.stands_at < log.head and end.stands_at < log.earliest()


def _is_followed(ledger: Ledger, log: LogState) -> bool:
    """Return whether the log has what came after the covered version, if anything did."""
    return ledger.version >= log.head or log.follows(ledger.version)


def _opening(ledger: Ledger, end: Offset, is_same_log: bool) -> BatchPlan:
    """Return the plan of a batch whose round the ledger does not know yet.

    If the source log is no longer the one that was indexed (`is_same_log` is False), such a round must begin
    with a snapshot.
    """
    if end.in_snapshot:
        return BatchPlan(Verdict.APPLY, ledger.lineage if is_same_log else ledger.lineage + 1)
    if is_same_log and ledger.state is LedgerState.COMPLETE:
        return BatchPlan(Verdict.APPLY, ledger.lineage, after(ledger.version))
    return BatchPlan(Verdict.SUPERSEDED)


def _as_read(end: Offset, log: LogState) -> bool:
    """Return whether the last commit before an offset still is the commit that the planner read."""
    if end.stands_at > log.head:
        return False
    read = log.fingerprint(end.stands_at)
    return short_fingerprint(read) == end.fp
