"""The operations of a hand-made Hudi table: writes, late writes, table services, and what takes them back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

from support.fuzzer.columns import random_values
from support.fuzzer.hudi import PARTS, TYPES, WIDER, Effect, FileRows, HudiHistory, Pending, paths
from support.hudi_builder import META, BaseFile


def insert(history: HudiHistory) -> bool:
    """Insert into new file groups."""
    rng = history.rng
    groups = [history.group(history.rows(rng.randint(1, 12))) for _ in range(rng.choice((1, 1, 2)))]
    return history.write("INSERT", groups)


def insert_into_small_file(history: HudiHistory) -> bool:
    """Insert beside the rows of a file group, which gets a new file."""
    chosen = _some(history, 1)
    if not chosen:
        return False
    [file] = chosen
    old, new = history.visible(file), history.rows(history.rng.randint(1, 6))
    part = old["part"][0].as_py() if len(old) else next(p for p in PARTS if history.folder(p) == file.folder)
    added = new.append_column("part", pa.array([part] * len(new), pa.string()))
    full = {
        name: added[name] if name in added.column_names else pa.nulls(len(new), pa.string())
        for name in old.column_names
    }
    rows = pa.concat_tables([old, pa.table(full).cast(old.schema)])
    return history.write("INSERT", [FileRows.after(file, rows)])


def upsert(history: HudiHistory) -> bool:
    """Update some rows of some file groups; now and then no value changes, as when an older row loses."""
    chosen = _some(history, 3)
    groups = [FileRows.after(f, _updated(history, f)) for f in chosen]
    return bool(chosen) and history.write("UPSERT", groups)


def _updated(history: HudiHistory, file: BaseFile) -> pa.Table:
    rows, rng = history.visible(file), history.rng
    fresh = {f.name: random_values(rng, f, len(rows)) for f in history.shape.fields}
    hit = pa.array([rng.random() < 0.4 for _ in range(len(rows))], pa.bool_())
    if rng.random() < 0.15:
        return rows
    columns = []
    for column in history.shape.fields:
        old = rows[column.name].combine_chunks()
        new = old if column.name in ("key", "part", *META) else fresh[column.name]
        if column.name in META[:1]:
            new = pa.nulls(len(rows), pa.string())
        both = pa.concat_arrays([old, new])
        take = pa.array([n + len(rows) * bool(at.as_py()) for n, at in enumerate(hit)], pa.int64())
        columns.append(both.take(take))
    return pa.table(columns, names=rows.column_names)


def delete(history: HudiHistory) -> bool:
    """Delete some rows of a file group, now and then all."""
    chosen, rng = _some(history, 2), history.rng
    groups = []
    for file in chosen:
        rows, share = history.visible(file), rng.choice((0.3, 0.6, 1.0))
        kept = [row for row in range(len(rows)) if rng.random() >= share]
        groups.append(FileRows.after(file, rows.take(pa.array(kept, pa.int64()))))
    return bool(chosen) and history.write("DELETE", groups)


def overwrite_partition(history: HudiHistory) -> bool:
    """Replace the file groups of a folder by new rows."""
    part = history.rng.choice(PARTS)
    folder = history.folder(part)
    if not _is_free(history, folder):
        return False
    old = [file for file in history.account.live().values() if file.folder == folder]
    return history.write(
        "INSERT_OVERWRITE", [history.group(history.rows(history.rng.randint(1, 9)), part)], old
    )


def overwrite_table(history: HudiHistory) -> bool:
    """Replace all file groups by new rows."""
    if history.account.pending:
        return False
    old = list(history.account.live().values())
    return history.write(
        "INSERT_OVERWRITE_TABLE", [history.group(history.rows(history.rng.randint(3, 15)))], old
    )


def delete_partition(history: HudiHistory) -> bool:
    """Drop the file groups of a folder."""
    folder = history.folder(history.rng.choice(PARTS))
    old = [file for file in history.account.live().values() if file.folder == folder]
    if not old or not _is_free(history, folder) or len(old) == len(history.account.live()):
        return False
    return history.write("DELETE_PARTITION", [], old)


def cluster(history: HudiHistory) -> bool:
    """Write the rows of some file groups of one folder anew, sorted by a column, into one group."""
    chosen = _some(history, 1)
    if not chosen:
        return False
    old = [file for file in history.free().values() if file.folder == chosen[0].folder]
    rows = pa.concat_tables([history.visible(file) for file in old])
    order = sorted(range(len(rows)), key=lambda row: (-rows["key"][row].as_py() % 7, row))
    new = FileRows(rows.take(pa.array(order, pa.int64())), history.builder.new_group(), old[0].folder)
    return history.write("CLUSTER", [new], old)


def begin(history: HudiHistory) -> bool:
    """Request a write and write its data files; it completes later, or fails."""
    if len(history.account.pending) > 2:
        return False
    groups = [FileRows.after(f, _updated(history, f)) for f in _some(history, 2)]
    groups += [history.group(history.rows(history.rng.randint(1, 5)))]
    requested = history.builder.timeline.request()
    history.account.pending.append(Pending(requested, history.store(requested, groups)))
    return True


def finish(history: HudiHistory) -> bool:
    """Complete a write that is pending: it may have been requested before others that are complete."""
    if not history.account.pending:
        return False
    write = history.account.pending.pop(history.rng.randrange(len(history.account.pending)))
    history.complete(write.requested, write.wrote, "UPSERT")
    return True


def fail(history: HudiHistory) -> bool:
    """Roll back a write that never completed."""
    if not history.account.pending:
        return False
    write = history.account.pending.pop(history.rng.randrange(len(history.account.pending)))
    history.record(history.builder.rollback(write.requested, "commit", write.wrote))
    return True


def roll_back(history: HudiHistory) -> bool:
    """Take back the newest commit."""
    effects = history.account.effects
    position = len(effects) - 1
    if position < 1 or not _can_undo(history, position) or not history.is_readable(position - 1):
        return False
    newest = effects.pop()
    history.shape = effects[-1].shape
    history.record(history.builder.rollback(newest.instant.requested, newest.instant.action, newest.wrote))
    return True


def _can_undo(history: HudiHistory, position: int) -> bool:
    """Whether an effect is a commit in the active timeline whose files are there and no write builds on."""
    effect = history.account.effects[position]
    here = history.account.gone.isdisjoint(file.path for file in effect.wrote)
    active = effect.instant in history.builder.timeline.instants
    saved = [i for i in history.builder.timeline.instants if i.requested == effect.instant.requested]
    return (
        here
        and len(saved) == 1
        and active
        and effect.instant.action in ("commit", "replacecommit")
        and not history.account.pending
    )


def restore(history: HudiHistory) -> bool:
    """Go back to a version whose files are there: all commits since are taken back."""
    effects, rng = history.account.effects, history.rng
    target = rng.randrange(max(0, len(effects) - 4), len(effects))
    later = range(target + 1, len(effects))
    undone = [n for n in reversed(later) if effects[n].wrote or effects[n].replaced]
    point = effects[target].instant.requested
    if not undone or not history.is_readable(target) or not all(_can_undo(history, n) for n in undone):
        return False
    if any(effects[n].instant.requested < point for n in undone):
        return False
    taken = [(effects[n].instant.requested, effects[n].instant.action, effects[n].wrote) for n in undone]
    shape = effects[target].shape
    history.account.effects = [e for n, e in enumerate(effects) if n not in undone]
    history.shape = shape
    history.account.effects = [
        replace(e, shape=shape) if n > target else e for n, e in enumerate(history.account.effects)
    ]
    history.record(history.builder.restore(taken))
    return True


def savepoint(history: HudiHistory) -> bool:
    """Mark the newest commit, once."""
    newest = history.account.effects[-1].instant
    known = [i for i in history.builder.timeline.instants if i.requested == newest.requested]
    if newest.action != "commit" or len(known) != 1:
        return False
    history.builder.savepoint(newest, list(history.account.live().values()))
    return True


def clean(history: HudiHistory) -> bool:
    """Delete the files that only versions before a chosen one show."""
    account, effects = history.account, history.account.effects
    if len(effects) < 3:
        return False
    kept_from = history.rng.randrange(1, len(effects))
    shown = [account.live(n + 1) for n in range(len(effects))]
    kept = {path for live in shown[kept_from:] for path in paths(live)}
    files = {file.path: file for live in shown[:kept_from] for file in live.values()}
    old = [file for path, file in files.items() if path not in kept and path not in account.gone]
    if not old or any(f.path in _before_pending(history) for f in old):
        return False
    for file in old:
        last = max(n for n, live in enumerate(shown) if file.path in paths(live))
        account.earliest = max(account.earliest, history.number(effects[last + 1].instant))
        account.gone.add(file.path)
    history.builder.clean(old, effects[kept_from].instant.requested)
    return True


def _before_pending(history: HudiHistory) -> set[str | None]:
    return {file.previous for write in history.account.pending for file in write.wrote}


def archive(history: HudiHistory) -> bool:
    """Move the oldest instants to the history, up to the newest commit, or what is pending or a savepoint.

    Hudi keeps what replaced file groups until their files are gone, for readers of the active timeline alone.
    """
    timeline = history.builder.timeline
    if timeline.version < 8:
        return False
    held = [write.requested for write in history.account.pending]
    held += [e.instant.requested for e in history.account.effects if _replaced_files(history, e)]
    held += [instant.requested for instant in timeline.instants if instant.action == "savepoint"]
    writes = [i.requested for i in timeline.instants if i.action in ("commit", "replacecommit")]
    if not writes:
        return False
    held.append(max(writes))
    instants = sorted(timeline.instants, key=lambda instant: instant.requested)
    old = [instant for instant in instants[:-2] if instant.requested < min(held)]
    upto = history.rng.randint(0, len(old))
    if upto:
        timeline.archive(old[:upto])
    return upto > 0


def _replaced_files(history: HudiHistory, effect: Effect) -> set[str]:
    written = (file for earlier in history.account.effects for file in earlier.wrote)
    return {file.path for file in written if file.file_id in effect.replaced} - history.account.gone


def add_column(history: HudiHistory) -> bool:
    if history.account.pending:
        return False
    name = f"new{len(history.shape.fields)}"
    history.shape = replace(
        history.shape, fields=(*history.shape.fields, history.new_field(name, history.rng.choice(TYPES)))
    )
    return upsert(history) or insert(history)


def widen_column(history: HudiHistory) -> bool:
    """Widen a column and write with it: other files keep the narrow type."""
    able = [
        n for n, f in enumerate(history.shape.fields) if f.type in WIDER and f.name != "key" and not f.fields
    ]
    if not able or history.account.pending:
        return False
    number, fields = history.rng.choice(able), list(history.shape.fields)
    fields[number] = replace(fields[number], type=history.rng.choice(WIDER[fields[number].type]))
    history.shape = replace(history.shape, fields=tuple(fields))
    return upsert(history) or insert(history)


def _some(history: HudiHistory, most: int) -> list[BaseFile]:
    """Draw live files that no pending write owns."""
    free = sorted(history.free().values(), key=lambda file: file.path)
    return history.rng.sample(free, min(len(free), history.rng.randint(1, most)))


def _is_free(history: HudiHistory, folder: str) -> bool:
    """Whether no pending write has a file in a folder."""
    return all(file.folder != folder for write in history.account.pending for file in write.wrote)


OPERATIONS: tuple[tuple[str, Callable[[HudiHistory], bool]], ...] = (
    *[("insert", insert)] * 3,
    ("insert into a small file", insert_into_small_file),
    *[("upsert", upsert)] * 4,
    *[("delete", delete)] * 2,
    ("overwrite partition", overwrite_partition),
    ("overwrite table", overwrite_table),
    ("delete partition", delete_partition),
    *[("cluster", cluster)] * 2,
    *[("begin", begin)] * 3,
    *[("finish", finish)] * 3,
    ("fail", fail),
    *[("roll back", roll_back)] * 2,
    ("restore", restore),
    ("savepoint", savepoint),
    *[("clean", clean)] * 2,
    *[("archive", archive)] * 2,
    ("add column", add_column),
    ("widen column", widen_column),
)
