"""What happens to a table as a whole: RESTORE, REPLACE, drop, backup, log checkpoints, cleanups."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import replace

from support.delta_builder import Action
from support.fuzzer.built import BuiltHistory, Incarnation
from support.fuzzer.columns import PARTITION_TYPES
from support.fuzzer.model import Shape, State, on_disk

INDEX = "_tailbit"
FORMS = ("classic", "multipart", "v2-json", "v2-parquet")


def restore(history: BuiltHistory) -> bool:
    """RESTORE to any readable version: files, hidden rows, columns and the table's id as they were."""
    able = [s for s in history.readable()[:-1] if s.version < history.head().version]
    if not able:
        return False
    state = history.rng.choice(able)
    then, now = history.now.builder.history[state.version], history.now.builder.live
    other = [p for p in {**now, **then} if _identity(then.get(p)) != _identity(now.get(p))]
    # A file whose hidden rows stay is added over itself: one commit may not remove it too.
    same = [p for p in other if p in now and p in then and _vector(now[p]) == _vector(then[p])]
    actions: list[Action] = [history.now.builder.remove(p) for p in other if p in now and p not in same]
    actions += [{"add": then[p]} for p in other if p in then]
    history.now.live = dict(state.files)
    history.done.append(f"(to {state.version})")
    return history.commit(actions, None if state.shape == history.shape else state.shape)


def _identity(add: Action | None) -> object:
    """What tells two states of one path apart."""
    if add is None:
        return None
    return add["path"], add["modificationTime"], _vector(add), add["partitionValues"]


def _vector(add: Action) -> object:
    return add.get("deletionVector")


def replace_table(history: BuiltHistory) -> bool:
    """CREATE OR REPLACE: other columns, another id, other files; the log goes on."""
    mapping = (
        history.shape.mapping if history.shape.mapping != "none" else history.rng.choice(("none", "name"))
    )
    return _replaced(history, replace(history.random_shape(mapping), table_id=_new_id(history)))


def repartition(history: BuiltHistory) -> bool:
    """An overwrite that changes which columns are partition columns."""
    shape, rng = history.shape, history.rng
    able = [f.name for f in shape.fields if not f.fields and f.type in PARTITION_TYPES]
    wanted = tuple(rng.sample(able, min(len(able), rng.choice((0, 1, 2)))))
    if set(wanted) == set(shape.partitions) or len(shape.fields) - len(wanted) < 2:
        return False
    return _replaced(history, replace(shape, partitions=wanted))


def _replaced(history: BuiltHistory, shape: Shape) -> bool:
    gone = [history.remove(p) for p in sorted(history.live)]
    history.now.shape = shape
    new = [history.add_file(history.rows(history.rng.randint(1, 12))) for _ in range(2)]
    return history.commit([*gone, *new], shape)


def _new_id(history: BuiltHistory) -> str:
    return str(uuid.UUID(int=history.rng.getrandbits(128)))


def recreate(history: BuiltHistory) -> bool:
    """DROP TABLE, and another at the same path: the same file names again, fewer or more versions."""
    if history.rng.random() < 0.5:
        return False
    _clear(history.path)
    history.begin()
    for _ in range(history.rng.choice((0, 0, 2, 6))):
        history.commit([history.add_file(history.rows(history.rng.randint(1, 6)))])
    return True


def back_up(history: BuiltHistory) -> bool:
    """The folder is copied as it is, without the index."""
    shutil.rmtree(_backup(history), ignore_errors=True)
    shutil.copytree(history.path, _backup(history), ignore=shutil.ignore_patterns(INDEX))
    history.backup = _copied(history.now)
    return True


def put_back(history: BuiltHistory) -> bool:
    """The folder is what it was when it was copied; what is committed next gets versions that were taken."""
    kept = history.backup
    if kept is None:
        return False
    _clear(history.path)
    shutil.copytree(_backup(history), history.path, dirs_exist_ok=True)
    history.now = _copied(kept)
    for _ in range(history.rng.choice((0, 1, 5))):
        history.commit([history.add_file(history.rows(history.rng.randint(1, 6)))])
    return True


def log_checkpoint(history: BuiltHistory) -> bool:
    """A log checkpoint of any form at the head; the hint beside it right, stale or damaged."""
    rng, builder = history.rng, history.now.builder
    if builder.version in history.now.checkpoints:
        return False
    form = rng.choice(FORMS)
    builder.checkpoint(
        form, parts=rng.randint(1, 3), stats_as_struct=form == "classic" and rng.random() < 0.3
    )
    history.now.checkpoints.append(builder.version)
    hint = builder.log / "_last_checkpoint"
    kind = rng.choice(("none", "stale", "damaged"))
    if kind == "damaged":
        hint.write_text('{"version":')
    elif kind == "stale":
        hint.write_text(json.dumps({"version": history.now.checkpoints[0], "size": 1}))
    elif hint.exists():
        hint.unlink()
    history.done.append(f"({form} at {builder.version})")
    return True


def clean_log(history: BuiltHistory) -> bool:
    """The log before a log checkpoint is cleaned up, as when the stream was down for a month."""
    able = [v for v in history.now.checkpoints if v > history.now.earliest]
    if not able:
        return False
    first = history.rng.choice(able)
    for version in range(first):
        (history.now.builder.log / f"{version:020d}.json").unlink(missing_ok=True)
    for file in list(history.now.builder.log.glob("*.checkpoint*")):
        if int(file.name[:20]) < first:
            file.unlink()
    history.now.earliest = first
    history.done.append(f"(before {first})")
    return True


def vacuum(history: BuiltHistory) -> bool:
    """What the head does not name is deleted; the index may not have seen it yet."""
    live = {on_disk(history.path, p) for p in history.live}
    dead = [p for p in history.now.disk if p not in live]
    for path in dead:
        os.unlink(path)
        del history.now.disk[path]
    vectors = {f.vector for f in history.live.values()}
    for file in _vectors_of(history.now.states):
        if file not in vectors and os.path.exists(file):
            os.unlink(file)
    return bool(dead)


def _vectors_of(states: list[State]) -> Iterator[str]:
    found = {f.vector for s in states for f in s.files.values() if f.vector is not None}
    return iter(sorted(found))


def _backup(history: BuiltHistory) -> str:
    return f"{history.path}-backup"


def _clear(path: str) -> None:
    """Everything of a table but its index."""
    for entry in os.scandir(path):
        if entry.name != INDEX:
            shutil.rmtree(entry.path) if entry.is_dir() else os.unlink(entry.path)


def _copied(now: Incarnation) -> Incarnation:
    """An incarnation that can go on by itself; what never changes is shared."""
    return replace(
        now,
        builder=replace(now.builder, live=dict(now.builder.live), history=list(now.builder.history)),
        live=dict(now.live),
        states=list(now.states),
        disk=dict(now.disk),
        checkpoints=list(now.checkpoints),
    )
