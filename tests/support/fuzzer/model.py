"""What a hand-made table must hold at each version: the fuzzer's own account, kept without reading any log.

A version is its columns and its live files; a file is a place (path and partition values) with a content
(rows under physical names) and the rows hidden from it.
"""

from __future__ import annotations

import os
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlparse

import numpy as np
import pyarrow as pa

from support.fuzzer.columns import Field
from support.predicates import Asked


def path_of(logged: str) -> str:
    """The path that the log names by an encoded one; of a file elsewhere the absolute one."""
    return unquote(urlparse(logged).path if logged.startswith("file:") else logged)


@dataclass(frozen=True)
class LiveFile:
    """A file at a version. `partition`: physical name to value; `vector`: the file of its hidden rows."""

    content: int
    partition: Mapping[str, Any]
    hidden: frozenset[int] = frozenset()
    vector: str | None = None


@dataclass(frozen=True)
class Shape:
    """The columns of a version; `partitions` are names of the top level."""

    fields: tuple[Field, ...]
    partitions: tuple[str, ...] = ()
    table_id: str = ""
    mapping: str = "none"

    def stored(self) -> list[Field]:
        """The columns that data files hold."""
        return [f for f in self.fields if f.name not in self.partitions]

    def parted(self) -> list[Field]:
        """The partition columns."""
        return [f for f in self.fields if f.name in self.partitions]

    def leaves(self) -> dict[tuple[str, ...], Field]:
        """Every column that is not a struct, by its name parts."""
        return dict(pair for field_ in self.fields for pair in field_.leaves())


@dataclass(frozen=True)
class State:
    """A version of a table, judged by its rows. Rows are in the order of path and position."""

    version: int
    shape: Shape
    files: Mapping[str, LiveFile]
    contents: Mapping[int, pa.Table]
    asked: Sequence[Asked] = field(default=(), compare=False)

    @property
    def key(self) -> Any:
        """States of one key have rows of one schema."""
        return tuple((f.name, str(f.logical)) for f in self.shape.fields)

    def rows(self) -> pa.Table:
        """Every visible row with its `file` and `position`."""
        schema = pa.schema([(f.name, f.logical) for f in self.shape.fields])
        schema = schema.append(pa.field("file", pa.string())).append(pa.field("position", pa.int64()))
        parts = [self._of(path, schema) for path in sorted(self.files, key=path_of)]
        return pa.concat_tables([schema.empty_table(), *parts])

    def _of(self, path: str, schema: pa.Schema) -> pa.Table:
        live = self.files[path]
        content = self.contents[live.content]
        count = len(content)
        columns = [self._column(f, live, content) for f in self.shape.fields]
        columns += [pa.array([path_of(path)] * count, pa.string()), pa.array(np.arange(count), pa.int64())]
        visible = np.ones(count, bool)
        visible[sorted(live.hidden)] = False
        return pa.table(columns, schema=schema).filter(pa.array(visible))

    def _column(self, column: Field, live: LiveFile, content: pa.Table) -> pa.Array:
        if column.name in self.shape.partitions:
            return pa.array([live.partition.get(column.physical)] * len(content), column.type)
        found = content[column.physical].combine_chunks() if column.physical in content.column_names else None
        return logical(found, column, len(content))


def logical(stored: pa.Array | None, column: Field, count: int, physical: bool = False) -> pa.Array:
    """Stored values as a query sees them: wider types, the names of today, NULL for what is not stored.

    With `physical` under the names that a data file of today has.
    """
    if not column.fields:
        rounds = stored is not None and pa.types.is_integer(stored.type) and pa.types.is_floating(column.type)
        return pa.nulls(count, column.type) if stored is None else stored.cast(column.type, safe=not rounds)
    known = {} if stored is None else {f.name: stored.field(n) for n, f in enumerate(stored.type)}
    parts = [logical(known.get(f.physical), f, count, physical) for f in column.fields]
    names = [f.physical if physical else f.name for f in column.fields]
    nulls = pa.array([True] * count, pa.bool_()) if stored is None else stored.is_null()
    return pa.StructArray.from_arrays(parts, names=names, mask=nulls)


def on_disk(root: str, path: str) -> str:
    """Where a file of the log is."""
    return os.path.join(root, path_of(path))


def under(content: pa.Table, fields: Sequence[Field], physical: bool = False) -> pa.Table:
    """The rows of a content under some columns, by logical names, or with `physical` as files have them."""
    count, known = len(content), {*content.column_names}
    columns = [
        logical(
            content[f.physical].combine_chunks() if f.physical in known else None, f, count, physical=physical
        )
        for f in fields
    ]
    return pa.table(columns, names=[f.physical if physical else f.name for f in fields])


class RandomHistory(ABC):
    """A hand-made table that random operations change; `contents`: the rows of its files, by number."""

    def __init__(self, path: str, rng: random.Random) -> None:
        self.path, self.rng = path, rng
        self.done: list[str] = []
        self.contents: dict[int, pa.Table] = {}

    @abstractmethod
    def operations(self) -> Sequence[tuple[str, Callable[[Any], bool]]]:
        """Return the operations by name; each returns whether it was possible."""

    def step(self) -> str:
        """Apply one random operation; its name. One that is not possible now is drawn again."""
        while True:
            name, operation = self.rng.choice(self.operations())
            if operation(self):
                self.done.append(name)
                return name
