"""The operations of a hand-made Iceberg table: writes, deletes of three kinds, services, and the schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from support.fuzzer.columns import BOOLEAN, DATE, DOUBLE, INT, LONGS, PRICE, STRING, Field
from support.fuzzer.iceberg import (
    FIXED,
    NAMES,
    SPECS,
    TYPES,
    WIDER,
    IcebergHistory,
    Made,
    comparable,
    drawn_values,
    key_of,
)
from support.iceberg_builder import DATA, EQUALITY, Written

DEFAULTED = (INT, LONGS, DOUBLE, BOOLEAN, STRING, DATE, PRICE)


def append(history: IcebergHistory) -> bool:
    """Append a few data files."""
    return history.append()


def append_nothing(history: IcebergHistory) -> bool:
    """Commit a snapshot without any change."""
    return history.commit([])


def overwrite(history: IcebergHistory) -> bool:
    """Replace a data file by one with some of its rows changed or gone: copy-on-write."""
    now, chosen = history.now, _some(history, 2)
    if now is None or not chosen:
        return False
    added = []
    for file in chosen:
        rows = history.visible(file, now)
        kept = rows.filter(pa.array([history.rng.random() < 0.7 for _ in range(len(rows))], pa.bool_()))
        if len(kept):
            added.append(history.store(_changed(history, kept), file.spec))
    return history.commit(added, {key_of(file) for file in chosen}, "overwrite")


def _changed(history: IcebergHistory, rows: pa.Table) -> pa.Table:
    """Draw some columns anew, but not those of which partitions are made."""
    columns = []
    for column in history.shape.fields:
        fresh = column.name not in FIXED and history.rng.random() < 0.5
        old = rows[column.name].combine_chunks()
        columns.append(drawn_values(history.rng, column, len(rows)) if fresh else old)
    return pa.table(columns, names=rows.column_names)


def drop_files(history: IcebergHistory) -> bool:
    """Take whole data files out of the table."""
    chosen = _some(history, 2)
    return bool(chosen) and history.commit([], {key_of(file) for file in chosen}, "delete")


def delete_positions(history: IcebergHistory) -> bool:
    """Write position delete files, of one data file or of several of a partition."""
    if history.builder.version != 2:
        return False
    chosen = _some(history, 3)
    together = history.rng.random() < 0.5
    groups: dict[Any, list[Written]] = {}
    for file in chosen:
        key = (file.spec, tuple(file.partition.values())) if together else file.path
        groups.setdefault(key, []).append(file)
    added = []
    for files in groups.values():
        rows = {file.path: _rows(history, file) for file in files}
        delete = history.builder.position_deletes(rows, files[0], history.rng.random() < 0.6)
        history.account.hides[key_of(delete)] = {path: frozenset(found) for path, found in rows.items()}
        added.append(delete)
    return bool(added) and history.commit(added, operation="delete")


def delete_by_vectors(history: IcebergHistory) -> bool:
    """Write deletion vectors, each with all rows that its data file's position deletes hid before."""
    now = history.now
    if history.builder.version != 3 or now is None:
        return False
    chosen = {file.path: file for file in _some(history, 3)}
    if not chosen:
        return False
    old = [d for d in now.files(deletes=True) if d.content not in (DATA, EQUALITY)]
    hidden, gone = {}, set()
    for path, file in chosen.items():
        positional = history.hidden(file, old)
        hidden[path] = sorted(positional | set(_rows(history, file)))
        gone |= {
            key_of(d)
            for d in old
            if d.entry["content_offset"] is not None and path in history.account.hides[key_of(d)]
        }
    vectors = history.builder.vectors(hidden, chosen)
    for vector, path in zip(vectors, hidden, strict=True):
        history.account.hides[key_of(vector)] = {path: frozenset(hidden[path])}
    return history.commit(vectors, gone, "delete")


def delete_equal(history: IcebergHistory) -> bool:
    """Write an equality delete file of one or two key columns, in a partition or for all of them."""
    now = history.now
    able = [f for f in history.shape.fields if not f.fields and not pa.types.is_list(f.type)]
    if history.builder.version < 2 or now is None:
        return False
    chosen = _some(history, 2)
    if not chosen:
        return False
    spec, partition = chosen[0].spec, chosen[0].partition
    if history.rng.random() < 0.3:
        spec, partition = 0, {}
    keys = history.rng.sample(able, history.rng.choice((1, 1, 2)))
    parts = [history.visible(file, now).select([k.name for k in keys]) for file in chosen]
    found = pa.concat_tables(parts)
    some = found.filter(pa.array([history.rng.random() < 0.3 for _ in range(len(found))], pa.bool_()))
    drawn = pa.table([drawn_values(history.rng, k, 1) for k in keys], names=[k.name for k in keys])
    rows = pa.concat_tables([some, drawn]).combine_chunks()
    file = history.builder.equality_deletes(rows, [history.json(k) for k in keys], spec, partition)
    values = zip(*(rows[k.name].to_pylist() for k in keys), strict=True)
    history.account.equal[file.path] = (
        [k.physical for k in keys],
        frozenset(tuple(map(comparable, row)) for row in values),
    )
    added = [file]
    if history.rng.random() < 0.5:
        added.append(history.store(history.rows(history.rng.randint(1, 5))))
    return history.commit(added, operation="overwrite")


def compact(history: IcebergHistory) -> bool:
    """Rewrite data files of one partition as one; it may have begun before deletes that still apply."""
    now = history.now
    groups: dict[Any, list[Written]] = {}
    for file in history.live():
        groups.setdefault((file.spec, tuple(file.partition.items())), []).append(file)
    if now is None or not groups:
        return False
    files = history.rng.choice(list(groups.values()))
    begun = _begun(history, now, files)
    tables = [history.visible(file, begun) for file in files]
    rows = pa.concat_tables(tables).combine_chunks()
    alike = (
        all(len({str(rows[n][0]), *map(str, rows[n])}) <= 1 for n in ("part", "day")) if len(rows) else True
    )
    windows = {key // 10 for key in rows["key"].to_pylist()}
    if not alike or len(windows) > 1:
        return False
    gone = {key_of(file) for file in files}
    added = [history.store(rows, files[0].spec, begun.sequence)] if len(rows) else []
    return history.commit(added, gone, "replace")


def _begun(history: IcebergHistory, now: Made, files: Sequence[Written]) -> Made:
    """Return the snapshot at which a compaction may have begun: no row was deleted by place since."""
    begun = now
    for _ in range(history.rng.choice((0, 0, 1, 2, 3))):
        before = None if begun.parent is None else history.account.made.get(begun.parent)
        if before is None or not before.sequence:
            break
        there = {file.path for file in before.files(deletes=False)}
        if not all(file.path in there for file in files):
            break
        placed = [
            {key_of(d) for d in made.files(deletes=True) if d.content != EQUALITY} for made in (before, now)
        ]
        if placed[0] != placed[1]:
            break
        begun = before
    return begun


def rewrite_manifests(history: IcebergHistory) -> bool:
    """Write all manifests anew, with entries that existed."""
    return history.commit([], operation="replace", merge=True)


def drop_deletes(history: IcebergHistory) -> bool:
    """Take deletes out of the table that hide nothing any more."""
    now = history.now
    if now is None:
        return False
    deletes, gone = now.files(deletes=True), set()
    for delete in deletes:
        others = [d for d in deletes if key_of(d) != key_of(delete)]
        if all(history.hidden(f, deletes) == history.hidden(f, others) for f in now.files(deletes=False)):
            gone.add(key_of(delete))
            break
    return bool(gone) and history.commit([], gone, "replace")


def roll_back(history: IcebergHistory) -> bool:
    """Make another snapshot the current one."""
    known = [entry["snapshot-id"] for entry in history.builder.snapshots]
    history.builder.set_current(history.rng.choice(known))
    history.builder.commit()
    return True


def stage(history: IcebergHistory) -> bool:
    """Add a snapshot that is not on the main branch."""
    return history.commit([history.store(history.rows(3))], to_main=False)


def expire(history: IcebergHistory) -> bool:
    """Expire some snapshots, and delete the files that no other snapshot names."""
    builder = history.builder
    others = [entry for entry in builder.snapshots if entry["snapshot-id"] != builder.current]
    gone = [entry for entry in others if history.rng.random() < 0.5]
    if not gone:
        return False
    before = _named(history)
    builder.snapshots = [entry for entry in builder.snapshots if entry not in gone]
    ids = {entry["snapshot-id"] for entry in gone}
    builder.log = [entry for entry in builder.log if entry["snapshot-id"] not in ids]
    builder.commit()
    for name in before - _named(history):
        Path(history.path, name).unlink()
    return True


def _named(history: IcebergHistory) -> set[str]:
    """Return the names of all files that some snapshot needs."""
    builder, out = history.builder, set()
    prefix = f"{builder.location}/"
    for entry in builder.snapshots:
        out.add(entry.get("manifest-list", "").removeprefix(prefix))
        for manifest in history.account.made[entry["snapshot-id"]].manifests:
            out.add(manifest.listed["manifest_path"].removeprefix(prefix))
            out |= {file.path for file in manifest.files}
    return out - {""}


def add_column(history: IcebergHistory) -> bool:
    """Add a column, perhaps with the name of one that was dropped."""
    taken = {f.name.lower() for f in history.shape.fields}
    free = [name for name in NAMES if name.lower() not in taken]
    if not free:
        return False
    column = history.new_field(history.rng.choice(free), history.rng.choice(TYPES))
    if history.builder.version == 3 and column.type in DEFAULTED and history.rng.random() < 0.6:
        history.give_default(column)
    return _reshape(history, (*history.shape.fields, column))


def drop_column(history: IcebergHistory) -> bool:
    able = [f for f in history.shape.fields if f.name not in FIXED]
    if len(able) < 3:
        return False
    gone = history.rng.choice(able)
    return _reshape(history, tuple(f for f in history.shape.fields if f is not gone))


def rename_column(history: IcebergHistory) -> bool:
    taken = {f.name.lower() for f in history.shape.fields}
    free = [name for name in NAMES if name.lower() not in taken]
    able = [f for f in history.shape.fields if f.name not in FIXED]
    if not free or not able:
        return False
    return _replaced(
        history, chosen := history.rng.choice(able), replace(chosen, name=history.rng.choice(free))
    )


def widen_column(history: IcebergHistory) -> bool:
    """Give a column a wider type."""
    able = [f for f in history.shape.fields if f.type in WIDER and not f.fields]
    if not able:
        return False
    return _replaced(history, chosen := history.rng.choice(able), replace(chosen, type=WIDER[chosen.type]))


def _replaced(history: IcebergHistory, old: Field, new: Field) -> bool:
    return _reshape(history, tuple(new if f is old else f for f in history.shape.fields))


def _reshape(history: IcebergHistory, fields: Sequence[Field]) -> bool:
    history.reshape(fields)
    history.builder.commit()
    return True


def change_spec(history: IcebergHistory) -> bool:
    """Partition what is written from now on in another way."""
    history.respec(history.rng.choice(SPECS))
    history.builder.commit()
    return True


def upgrade(history: IcebergHistory) -> bool:
    """Raise the format version."""
    if history.builder.version == 3:
        return False
    history.builder.version += 1
    history.builder.commit()
    return True


def _some(history: IcebergHistory, most: int) -> list[Written]:
    """Choose some live data files, at least one if there are any."""
    live = history.live()
    return history.rng.sample(live, min(len(live), history.rng.randint(1, most)))


def _rows(history: IcebergHistory, file: Written) -> list[int]:
    """Choose some rows of a data file, at least one."""
    count = len(history.contents[history.account.content[file.path]])
    return sorted(history.rng.sample(range(count), history.rng.randint(1, count)))


OPERATIONS: tuple[tuple[str, Callable[[IcebergHistory], bool]], ...] = (
    ("append", append),
    ("append", append),
    ("append nothing", append_nothing),
    ("overwrite", overwrite),
    ("overwrite", overwrite),
    ("drop files", drop_files),
    ("position deletes", delete_positions),
    ("position deletes", delete_positions),
    ("position deletes", delete_positions),
    ("deletion vectors", delete_by_vectors),
    ("deletion vectors", delete_by_vectors),
    ("deletion vectors", delete_by_vectors),
    ("equality deletes", delete_equal),
    ("equality deletes", delete_equal),
    ("equality deletes", delete_equal),
    ("compaction", compact),
    ("compaction", compact),
    ("rewrite manifests", rewrite_manifests),
    ("drop deletes", drop_deletes),
    ("rollback", roll_back),
    ("stage", stage),
    ("expire", expire),
    ("add column", add_column),
    ("drop column", drop_column),
    ("rename column", rename_column),
    ("widen column", widen_column),
    ("change spec", change_spec),
    ("upgrade", upgrade),
)
"""The operations by name, as often as they are drawn."""
