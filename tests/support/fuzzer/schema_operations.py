"""What ALTER TABLE does to the columns of a table; no data file is touched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from support.fuzzer.built import ODD_NAMES, PLAIN_NAMES, BuiltHistory
from support.fuzzer.columns import LEAF_TYPES, WIDENED, Field
from support.fuzzer.model import Shape


def add_column(history: BuiltHistory) -> bool:
    """A column comes, under a name that none has now: files that are there have no value in it."""
    shape, rng = history.shape, history.rng
    free = _free_names(shape)
    if not free or len(shape.fields) > 12:
        return False
    new = history.new_field(rng.choice(free), rng.choice(LEAF_TYPES), shape.mapping)
    at = rng.randint(0, len(shape.fields))
    return history.commit([], replace(shape, fields=(*shape.fields[:at], new, *shape.fields[at:])))


def _free_names(shape: Shape) -> list[str]:
    taken = {f.name for f in shape.fields}
    return [n for n in PLAIN_NAMES + (ODD_NAMES if shape.mapping != "none" else ()) if n not in taken]


def add_nested(history: BuiltHistory) -> bool:
    """A field comes to a struct."""
    shape, rng = history.shape, history.rng

    def grown(field: Field) -> Field:
        names = [n for n in ("zip", "y", "Z") if n not in {f.name for f in field.fields}]
        if not field.fields or not names:
            return field
        new = history.new_field(names[0], rng.choice(LEAF_TYPES), shape.mapping)
        return replace(field, fields=(*field.fields, new))

    return _evolve(history, [grown(f) for f in shape.fields])


def rename(history: BuiltHistory) -> bool:
    """A column gets another name, perhaps one that another had before; nested ones too."""
    shape, rng = history.shape, history.rng
    free = _free_names(shape)
    if shape.mapping == "none" or not free:
        return False
    old, new = rng.choice(shape.fields), rng.choice(free)
    if old.fields and new not in {f.name for f in old.fields} and rng.random() < 0.7:
        inner = rng.choice(old.fields)
        fields = tuple(replace(f, name=new) if f is inner else f for f in old.fields)
        return _evolve(history, [replace(f, fields=fields) if f is old else f for f in shape.fields])
    partitions = tuple(new if name == old.name else name for name in shape.partitions)
    fields = tuple(replace(f, name=new) if f is old else f for f in shape.fields)
    return history.commit([], replace(shape, fields=fields, partitions=partitions))


def drop(history: BuiltHistory) -> bool:
    """A column goes; files keep its values."""
    shape = history.shape
    stored = shape.stored()
    if shape.mapping == "none" or len(stored) < 3:
        return False
    gone = history.rng.choice(stored)
    return _evolve(history, [f for f in shape.fields if f is not gone])


def widen(history: BuiltHistory) -> bool:
    """A column gets a wider type; files keep the narrower one."""
    shape, rng = history.shape, history.rng
    able = [f for f in shape.stored() if any(leaf.type in WIDENED for _, leaf in f.leaves())]
    if not able:
        return False
    chosen = rng.choice(able)

    def wider(leaf: Field) -> Field:
        return leaf.widened(rng.choice(WIDENED[leaf.type])) if leaf.type in WIDENED else leaf

    return _evolve(history, [_leaves_changed(f, wider) if f is chosen else f for f in shape.fields])


def _leaves_changed(field: Field, change: Callable[[Field], Field]) -> Field:
    if not field.fields:
        return change(field)
    return replace(field, fields=tuple(_leaves_changed(f, change) for f in field.fields))


def map_names(history: BuiltHistory) -> bool:
    """Column mapping by name is switched on: physical names are the names so far."""
    shape = history.shape
    if shape.mapping != "none":
        return False
    return history.commit([], replace(shape, mapping="name"))


def _evolve(history: BuiltHistory, fields: Sequence[Field]) -> bool:
    shape = replace(history.shape, fields=tuple(fields))
    return shape != history.shape and history.commit([], shape)
