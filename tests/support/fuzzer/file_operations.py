"""What writers do to the files of a table: append, delete, update, overwrite, compact."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa

from support.delta_builder import Action
from support.fuzzer.built import BuiltHistory
from support.fuzzer.columns import partition_text, random_values
from support.fuzzer.model import on_disk
from support.fuzzer.statistics import statistics


def some_files(history: BuiltHistory, most: int = 3) -> list[str]:
    """Some live files, at least one where there is one."""
    live = sorted(history.live)
    return history.rng.sample(live, min(len(live), history.rng.randint(1, most)))


def count_of(history: BuiltHistory, path: str) -> int:
    """Rows of a live file, hidden ones included."""
    return len(history.contents[history.live[path].content])


def some_rows(history: BuiltHistory, path: str, share: float = 0.3) -> set[int]:
    """Some rows of a live file, hidden or not."""
    return {n for n in range(count_of(history, path)) if history.rng.random() < share}


def append(history: BuiltHistory) -> bool:
    """One to three files, now and then without rows."""
    sizes = [history.rng.choice((0, 1, 3, 8, 20)) for _ in range(history.rng.randint(1, 3))]
    return history.commit([history.add_file(history.rows(size)) for size in sizes])


def hide_more(history: BuiltHistory) -> bool:
    """A DELETE that hides rows."""
    actions = [a for p in some_files(history) for a in _hidden_too(history, p)]
    return bool(actions) and history.commit(actions)


def _hidden_too(history: BuiltHistory, path: str) -> list[Action]:
    return history.hide(path, history.live[path].hidden | some_rows(history, path))


def show_some(history: BuiltHistory) -> bool:
    """A deletion vector shrinks, as after RESTORE, or becomes another one."""
    hidden = [p for p in sorted(history.live) if history.live[p].hidden]
    chosen = history.rng.sample(hidden, min(len(hidden), 2))
    kept = {p: frozenset(n for n in history.live[p].hidden if history.rng.random() < 0.5) for p in chosen}
    if history.rng.random() < 0.3:
        kept = {p: rows | some_rows(history, p, 0.2) for p, rows in kept.items()}
    actions = [a for p, rows in kept.items() for a in history.hide(p, rows)]
    return bool(actions) and history.commit(actions)


def show_all(history: BuiltHistory) -> bool:
    """Deletion vectors go."""
    actions = [a for p in sorted(history.live) for a in history.hide(p, ())]
    return bool(actions) and history.commit(actions)


def hide_all(history: BuiltHistory) -> bool:
    """A file stays, and none of its rows."""
    actions = [a for p in some_files(history, 1) for a in history.hide(p, range(count_of(history, p)))]
    return bool(actions) and history.commit(actions)


def rewrite_without(history: BuiltHistory) -> bool:
    """Copy-on-write DELETE; a file of which nothing is left goes."""
    return bool(history.live) and history.commit(
        [a for p in some_files(history, 2) for a in _rewritten(history, p, 0.6)]
    )


def _rewritten(history: BuiltHistory, path: str, share: float) -> list[Action]:
    rows, partition = history.visible(path), history.live[path].partition
    kept = [n for n in range(len(rows)) if history.rng.random() < share]
    out = [history.remove(path)]
    if kept:
        out.append(history.add_file(rows.take(pa.array(kept, pa.int64())), dict(partition)))
    return out


def rewrite_changed(history: BuiltHistory) -> bool:
    """Copy-on-write UPDATE of one column."""
    if not history.live:
        return False
    (path,) = some_files(history, 1)
    rows, partition = _changed(history, history.visible(path)), history.live[path].partition
    return history.commit([history.remove(path), history.add_file(rows, dict(partition))])


def _changed(history: BuiltHistory, rows: pa.Table) -> pa.Table:
    field = history.rng.choice(history.shape.stored())
    at = rows.column_names.index(field.physical)
    return rows.set_column(at, field.physical, random_values(history.rng, field, len(rows)))


def hide_and_add(history: BuiltHistory) -> bool:
    """UPDATE by deletion vectors: the old rows are hidden, the new ones are in a file of their own."""
    if not history.live:
        return False
    (path,) = some_files(history, 1)
    shown = [n for n in range(count_of(history, path)) if n not in history.live[path].hidden]
    chosen = [n for n in range(len(shown)) if history.rng.random() < 0.4]
    if not chosen:
        return False
    rows = _changed(history, history.visible(path).take(pa.array(chosen, pa.int64())))
    hidden = history.live[path].hidden | {shown[n] for n in chosen}
    partition = dict(history.live[path].partition)
    return history.commit([history.add_file(rows, partition), *history.hide(path, hidden)])


def merge(history: BuiltHistory) -> bool:
    """MERGE: some files lose rows to a deletion vector, one is rewritten, one comes."""
    chosen = some_files(history)
    if not chosen:
        return False
    actions = [a for p in chosen[1:] for a in _hidden_too(history, p)]
    actions += _rewritten(history, chosen[0], 0.8)
    return history.commit([*actions, history.add_file(history.rows(history.rng.randint(1, 6)))])


def overwrite(history: BuiltHistory) -> bool:
    """Every file goes, others come."""
    gone = [history.remove(p) for p in sorted(history.live)]
    sizes = [history.rng.randint(1, 15) for _ in range(history.rng.randint(1, 2))]
    return history.commit([*gone, *(history.add_file(history.rows(size)) for size in sizes)])


def truncate(history: BuiltHistory) -> bool:
    """Every file goes."""
    return bool(history.live) and history.commit([history.remove(p) for p in sorted(history.live)])


def replace_where(history: BuiltHistory) -> bool:
    """The files of one partition are replaced."""
    if not history.live or not history.shape.partitions:
        return False
    return _replace(history, [dict(history.live[some_files(history, 1)[0]].partition)])


def overwrite_partitions(history: BuiltHistory) -> bool:
    """The partitions that new rows fall into are replaced, whether they were there or not."""
    if not history.shape.partitions:
        return False
    wanted = [history.random_partition() for _ in range(history.rng.randint(1, 3))]
    return _replace(history, [p for n, p in enumerate(wanted) if p not in wanted[:n]])


def _replace(history: BuiltHistory, partitions: list[dict[str, object]]) -> bool:
    gone = [p for p in sorted(history.live) if dict(history.live[p].partition) in partitions]
    actions = [history.remove(p) for p in gone]
    return history.commit(
        [*actions, *(history.add_file(history.rows(history.rng.randint(1, 9)), p) for p in partitions)]
    )


def optimize(history: BuiltHistory) -> bool:
    """Files of one partition become one, in their order or in another; no row changes."""
    if not history.live:
        return False
    partition = history.live[some_files(history, 1)[0]].partition
    chosen = [p for p in sorted(history.live) if history.live[p].partition == partition]
    return history.commit(_compacted(history, chosen))


def _compacted(history: BuiltHistory, paths: list[str]) -> list[Action]:
    partition = dict(history.live[paths[0]].partition)
    rows = pa.concat_tables([history.visible(p) for p in paths])
    order = list(range(len(rows)))
    if history.rng.random() < 0.5:
        history.rng.shuffle(order)
    out = []
    for path in paths:
        action = history.remove(path)
        action["remove"]["dataChange"] = False
        out.append(action)
    return [*out, history.add_file(rows.take(pa.array(order, pa.int64())), partition, data_change=False)]


def purge(history: BuiltHistory) -> bool:
    """REORG: every file with hidden rows is rewritten without them."""
    hidden = [p for p in sorted(history.live) if history.live[p].hidden]
    return bool(hidden) and history.commit([a for p in hidden for a in _compacted(history, [p])])


def add_again(history: BuiltHistory) -> bool:
    """Live files are added again as they are, with other statistics and tags."""
    chosen = some_files(history)
    actions: list[Action] = []
    for path in chosen:
        add = {**history.now.builder.live[path], "dataChange": False, "tags": {"again": "yes"}}
        add["stats"] = json.dumps(statistics(history.contents[history.live[path].content]))
        actions.append({"add": add})
    return bool(actions) and history.commit(actions)


def move_to_partitions(history: BuiltHistory) -> bool:
    """Live files are added again with other partition values; their rows stay."""
    if not history.shape.partitions:
        return False
    actions: list[Action] = []
    for path in some_files(history):
        partition = history.random_partition()
        texts = {k: partition_text(v) for k, v in partition.items()}
        actions.append({"add": {**history.now.builder.live[path], "partitionValues": texts}})
        history.live[path] = replace(history.live[path], partition=partition)
    return bool(actions) and history.commit(actions)


def commit_nothing(history: BuiltHistory) -> bool:
    """A commit that changes no file."""
    if history.rng.random() < 0.3:
        return history.commit([], history.shape)
    return history.commit([{"txn": {"appId": "x", "version": history.now.builder.version}}])


def reuse_name(history: BuiltHistory) -> bool:
    """A file that was removed comes back under its name with other rows; versions that had it are lost."""
    live = {on_disk(history.path, p) for p in history.live}
    dead = sorted(set(history.now.disk) - live)
    if not dead:
        return False
    name = history.rng.choice(dead).removeprefix(f"{history.path}/")
    return history.commit([history.add_file(history.rows(history.rng.randint(1, 9)), name=name)])
