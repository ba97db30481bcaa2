"""The operations of a hand-made MERGE_ON_READ table: writes into logs, late ones, compaction, rollback."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from support.fuzzer.hudi import TYPES, WIDER
from support.fuzzer.hudi_merged import FIXED, Draft, Effect, MergedHistory, Pending
from support.fuzzer.merging import Log
from support.hudi_logs import rollback_block


def insert(history: MergedHistory) -> bool:
    """Insert into a new base file; now and then it has a key twice."""
    rows = history.rows(history.rng.randint(1, 10))
    if history.rng.random() < 0.2:
        rows = pa.concat_tables([rows, history.rows(1, rows["key"].to_pylist()[:1])])
    return history.commit(bases=[(history.new_group(), rows)])


def insert_logs_alone(history: MergedHistory) -> bool:
    """Insert into a log file without a base file."""
    draft = Draft(history.new_group(), [("rows", history.rows(history.rng.randint(1, 6)))])
    return history.commit(drafts=[draft])


def draft_of(history: MergedHistory, group: str) -> Draft:
    """Draw blocks for a group: updates, insertions, deletions of keys that are there or are not."""
    rng, draft = history.rng, Draft(group)
    known = sorted({*history.shown(history.groups()[group])["key"].to_pylist()})
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        keys = sorted(rng.sample(known, rng.randint(0, min(5, len(known)))))
        if rng.random() < 0.35:
            keys += [rng.randint(0, 30)]
            orderings = [rng.choice((None, rng.randint(-2, 6))) for _ in keys]
            draft.parts.append(("deletes", list(zip(map(str, keys), orderings, strict=True))))
            continue
        rows = history.rows(len(keys), keys)
        if rng.random() < 0.3:
            rows = pa.concat_tables([rows, history.rows(rng.randint(1, 3))])
        if rng.random() < 0.2 and keys:
            rows = pa.concat_tables([rows, history.rows(1, keys[:1])])
        draft.parts.append(("rows", rows))
    return draft


def write(history: MergedHistory) -> bool:
    """Write log files into some file groups."""
    free = history.free()
    chosen = history.rng.sample(free, min(len(free), history.rng.randint(1, 2)))
    return bool(chosen) and history.commit(drafts=[draft_of(history, group) for group in chosen])


def begin(history: MergedHistory) -> bool:
    """Request a write and write its log files; it completes later, or fails.

    From table version 8 on others may write into the same groups meanwhile.
    """
    free = history.free()
    if not free or len(history.pending) > 2:
        return False
    group = history.rng.choice(free)
    requested = history.builder.timeline.request("deltacommit")
    logs = (history.write_log(requested, draft_of(history, group)),)
    history.pending.append(Pending(requested, logs=logs))
    return True


def finish(history: MergedHistory) -> bool:
    """Complete a write or a compaction that is pending."""
    if not history.pending:
        return False
    write = history.pending.pop(history.rng.randrange(len(history.pending)))
    history.complete(write.requested, "commit" if write.bases else "deltacommit", write.bases, write.logs)
    return True


def fail(history: MergedHistory) -> bool:
    """Leave a write that never completes, with a block that is cut off; its files stay."""
    able = [write for write in history.pending if write.logs]
    if not able:
        return False
    write = history.rng.choice(able)
    for log in write.logs:
        file = Path(history.path) / log.path
        data = file.read_bytes()
        if history.version >= 8 or history.rng.random() < 0.5:
            file.write_bytes(data[: history.rng.randint(min(60, len(data)), len(data))])
    history.pending.remove(write)
    return True


def schedule_compaction(history: MergedHistory) -> bool:
    """Request a compaction of a group that has logs, and write its base file; it completes later."""
    groups = history.groups()
    able = [group for group in history.free() if groups[group].logs]
    if not able:
        return False
    group = history.rng.choice(able)
    requested = history.builder.timeline.request("compaction")
    base = history.write_base(requested, group, history.shown(groups[group]))
    history.pending.append(Pending(requested, bases=(base,)))
    return True


def write_beside(history: MergedHistory) -> bool:
    """Write into a group whose compaction is pending."""
    able = [base.group for write in history.pending for base in write.bases]
    if not able or any(log.group in able for write in history.pending for log in write.logs):
        return False
    return history.commit(drafts=[draft_of(history, history.rng.choice(able))])


def compact(history: MergedHistory) -> bool:
    """Request a compaction and complete it at once."""
    return schedule_compaction(history) and _finish_newest(history)


def _finish_newest(history: MergedHistory) -> bool:
    write = history.pending.pop()
    history.complete(write.requested, "commit", write.bases)
    return True


def drop_group(history: MergedHistory) -> bool:
    """Replace a group by nothing."""
    free = history.free()
    if len(free) < 2:
        return False
    return history.commit(replaced=[history.rng.choice(free)])


def roll_back(history: MergedHistory) -> bool:
    """Take back the newest deltacommit that wrote logs alone."""
    newest = history.effects[-1]
    if not newest.logs or newest.bases or newest.instant not in history.builder.timeline.instants:
        return False
    if history.pending or history.number(newest.instant) <= history.earliest:
        return False
    history.effects.pop()
    history.shape = history.effects[-1].shape
    timeline, requested = history.builder.timeline, newest.instant.requested
    timeline.forget(newest.instant)
    undoing = timeline.request("rollback")
    for log in newest.logs:
        _take_back(history, log, undoing)
    metadata = {
        "startRollbackTime": requested,
        "timeTakenInMillis": 1,
        "totalFilesDeleted": 1,
        "commitsRollback": [requested],
        "partitionMetadata": {},
        "version": 1,
        "instantsRollback": [{"commitTime": requested, "action": "deltacommit"}],
    }
    instant = timeline.complete(undoing, "rollback", metadata)
    history.effects.append(Effect(instant, history.shape))
    return True


def _take_back(history: MergedHistory, log: Log, undoing: str) -> None:
    """Delete a log file, or in table version 6 write a block beside it that takes its blocks back."""
    file = Path(history.path) / log.path
    if history.version >= 8:
        file.unlink()
        return
    number = log.number + 1000
    beside = file.with_name(file.name.replace(f".log.{log.number}_", f".log.{number}_"))
    beside.write_bytes(rollback_block(undoing, log.requested))


def clean(history: MergedHistory) -> bool:
    """Delete the files that only versions before a compaction show."""
    shown = [_paths(history, n) for n in range(len(history.effects))]
    kept_from = history.rng.randrange(len(shown))
    kept = set().union(*shown[kept_from:])
    held = {base.group for write in history.pending for base in write.bases}
    old = {path: file for n in range(kept_from) for path, file in shown[n].items() if path not in kept}
    old = {path: group for path, group in old.items() if (Path(history.path) / path).exists()}
    if not old or held & {*old.values()}:
        return False
    for path in old:
        last = max(n for n, files in enumerate(shown) if path in files)
        history.earliest = max(history.earliest, history.number(history.effects[last + 1].instant))
        (Path(history.path) / path).unlink()
    folders: dict[str, list[str]] = {}
    for path, group in old.items():
        folders.setdefault(history.folders[group], []).append(path.rpartition("/")[2])
    history.builder.cleaned(folders, history.effects[kept_from].instant.requested)
    return True


def _paths(history: MergedHistory, position: int) -> dict[str, str]:
    """Return the files that a version shows, with their groups."""
    found = {}
    for name, group in history.groups(position + 1).items():
        found.update(dict.fromkeys([log.path for log in group.logs], name))
        if group.base is not None:
            found[group.base.path] = name
    return found


def archive(history: MergedHistory) -> bool:
    """Move the oldest instants to the history."""
    timeline = history.builder.timeline
    if timeline.version < 8:
        return False
    held = [write.requested for write in history.pending]
    held += [effect.instant.requested for effect in history.effects if effect.replaced]
    held.append(max(i.requested for i in timeline.instants if i.action.endswith("commit")))
    instants = sorted(timeline.instants, key=lambda instant: instant.requested)
    old = [instant for instant in instants[:-2] if instant.requested < min(held)]
    upto = history.rng.randint(0, len(old))
    if upto:
        timeline.archive(old[:upto])
    return upto > 0


def add_column(history: MergedHistory) -> bool:
    if history.pending:
        return False
    field = history.new_field(f"new{len(history.shape.fields)}", history.rng.choice(TYPES))
    history.shape = replace(history.shape, fields=(*history.shape.fields, field))
    return write(history) or insert(history)


def widen_column(history: MergedHistory) -> bool:
    """Widen a column and write with it: other files keep the narrow type."""
    fields = history.shape.fields
    able = [n for n, f in enumerate(fields) if f.type in WIDER and f.name not in FIXED and not f.fields]
    if not able or history.pending:
        return False
    number, widened = history.rng.choice(able), list(fields)
    widened[number] = replace(widened[number], type=history.rng.choice(WIDER[widened[number].type]))
    history.shape = replace(history.shape, fields=tuple(widened))
    return write(history) or insert(history)


OPERATIONS: tuple[tuple[str, Callable[[MergedHistory], bool]], ...] = (
    *[("insert", insert)] * 2,
    ("insert into logs alone", insert_logs_alone),
    *[("write logs", write)] * 8,
    *[("begin", begin)] * 2,
    *[("finish", finish)] * 3,
    ("fail", fail),
    *[("schedule compaction", schedule_compaction)] * 2,
    *[("write beside a compaction", write_beside)] * 2,
    *[("compact", compact)] * 2,
    ("drop a group", drop_group),
    *[("roll back", roll_back)] * 2,
    ("clean", clean),
    ("archive", archive),
    ("add column", add_column),
    ("widen column", widen_column),
)
