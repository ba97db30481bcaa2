"""A table that random operations change, written by hand: no JVM, every feature, a millisecond a commit."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from support.delta_builder import Action, DeltaBuilder
from support.fuzzer.columns import (
    LEAF_TYPES,
    MAP_TYPES,
    PARTITION_TYPES,
    STRING,
    Field,
    asked,
    partition_pool,
    partition_text,
    random_values,
)
from support.fuzzer.model import LiveFile, RandomHistory, Shape, State, on_disk, under
from support.fuzzer.statistics import statistics
from support.vectors import native, portable

FEATURES = ("deletionVectors", "timestampNtz", "v2Checkpoint", "typeWidening", "columnMapping")
PLAIN_NAMES = ("a", "b", "C", "d", "E", "f", "g", "h")
ODD_NAMES = ("with space", "dot.ted", "per%cent", "quo'te", "tick`s", "ünï")
MAPPINGS = ("none", "name", "id")


@dataclass
class Incarnation:
    """One table at the path, from its creation until it is dropped or put back from a backup."""

    builder: DeltaBuilder
    shape: Shape
    live: dict[str, LiveFile] = field(default_factory=dict)
    states: list[State] = field(default_factory=list)
    disk: dict[str, int] = field(default_factory=dict)
    files: int = 0
    earliest: int = 0
    checkpoints: list[int] = field(default_factory=list)


class BuiltHistory(RandomHistory):
    """Random operations on a hand-made table, and what each of its versions must hold.

    `disk` (of the incarnation): which content lies at an absolute path. A version is readable while what it
    names lies there.
    """

    def __init__(self, path: str, rng: random.Random) -> None:
        super().__init__(path, rng)
        self.elsewhere: dict[str, int] = {}
        self._clock = 1_700_000_000_000
        self._fields = 0
        self.backup: Incarnation | None = None
        self.now: Incarnation
        self.begin()

    def begin(self) -> None:
        """Commit 0 of a new table, and its first rows."""
        shape = self.random_shape(self.rng.choice(MAPPINGS))
        builder = DeltaBuilder(self.path)
        builder.create(*self._described(shape), features=FEATURES)
        self.now = Incarnation(builder, replace(shape, table_id=builder.metadata["id"]))
        self._recorded()
        self.commit(
            [self.add_file(self.rows(self.rng.randint(5, 25))) for _ in range(self.rng.randint(1, 3))]
        )

    def operations(self) -> Sequence[tuple[str, Callable[[Any], bool]]]:
        from support.fuzzer.operations import OPERATIONS

        return OPERATIONS

    @property
    def shape(self) -> Shape:
        """The columns at the head."""
        return self.now.shape

    @property
    def live(self) -> dict[str, LiveFile]:
        """The live files at the head, by path as the log has it."""
        return self.now.live

    def head(self) -> State:
        """The newest version."""
        return self.now.states[-1]

    def readable(self) -> list[State]:
        """The versions that the log can rebuild and all of whose files are there."""
        return [s for s in self.now.states[self.now.earliest :] if self.is_readable(s)]

    def is_readable(self, state: State) -> bool:
        """Whether everything that a version names lies where it was."""
        known = self.now.disk | self.elsewhere
        return all(
            known.get(on_disk(self.path, path)) == live.content
            and (live.vector is None or os.path.exists(live.vector))
            for path, live in state.files.items()
        )

    def commit(self, actions: Iterable[Action | Sequence[Action]], shape: Shape | None = None) -> bool:
        """Commit actions, and new metadata where the columns changed; True, for operations to return."""
        flat = [a for given in actions for a in ([given] if isinstance(given, dict) else given)]
        if shape is not None:
            body = self.now.builder.metadata_action(*self._described(shape), shape.table_id)
            flat.insert(self.rng.randrange(len(flat) + 1), {"metaData": body})
            self.now.shape = shape
        self.now.builder.commit(flat)
        self._recorded()
        return True

    def _recorded(self) -> None:
        shape = self.shape
        columns = asked(shape.fields, shape.partitions)
        version = self.now.builder.version
        self.now.states.append(State(version, shape, dict(self.live), self.contents, columns))

    def _described(self, shape: Shape) -> tuple[Action, tuple[str, ...], dict[str, str]]:
        schema = {"type": "struct", "fields": [f.json(shape.mapping) for f in shape.fields]}
        configuration = {"delta.enableDeletionVectors": "true", "delta.enableTypeWidening": "true"}
        if shape.mapping != "none":
            configuration["delta.columnMapping.mode"] = shape.mapping
            configuration["delta.columnMapping.maxColumnId"] = str(self._fields)
        return schema, shape.partitions, configuration

    def random_shape(self, mapping: str) -> Shape:
        """Columns of random types, one nested, perhaps a map, at most two of them partition columns."""
        names = list(PLAIN_NAMES if mapping == "none" else PLAIN_NAMES + ODD_NAMES)
        self.rng.shuffle(names)
        count = self.rng.randint(4, 7)
        fields = [self.new_field(n, self.rng.choice(LEAF_TYPES), mapping) for n in names[:count]]
        parted = [
            self.new_field(n, self.rng.choice(PARTITION_TYPES), mapping)
            for n in names[count : count + self.rng.choice((0, 1, 1, 2))]
        ]
        fields.insert(self.rng.randint(0, count), self.new_struct(mapping))
        if self.rng.random() < 0.5:
            fields.append(self.new_field("entries", self.rng.choice(MAP_TYPES), mapping))
        return Shape((*fields, *parted), tuple(f.name for f in parted), mapping=mapping)

    def new_struct(self, mapping: str) -> Field:
        """A nested column, two levels deep."""
        city = self.new_field("city", STRING, mapping)
        deep = self.new_field("x", self.rng.choice(LEAF_TYPES), mapping)
        at = replace(self.new_field("at", pa.struct([]), mapping), fields=(deep,))
        return replace(self.new_field("place", pa.struct([]), mapping), fields=(city, at))

    def new_field(self, name: str, type_: pa.DataType, mapping: str) -> Field:
        """A column that has never been; with column mapping its physical name is one that has never been."""
        self._fields += 1
        physical = name if mapping == "none" else f"col-{self._fields:04d}"
        return Field(name, type_, physical, self._fields)

    def rows(self, count: int) -> pa.Table:
        """Random rows for a data file of today."""
        stored = self.shape.stored()
        return pa.table(
            [random_values(self.rng, f, count) for f in stored], names=[f.physical for f in stored]
        )

    def visible(self, path: str) -> pa.Table:
        """The visible rows of a live file, as a data file of today would hold them."""
        live = self.live[path]
        content = self.contents[live.content]
        rows = under(content, self.shape.stored(), physical=True)
        return rows.take(pa.array([n for n in range(len(content)) if n not in live.hidden], pa.int64()))

    def random_partition(self) -> dict[str, Any]:
        """Values of the partition columns; one in eight is NULL."""
        return {
            f.physical: None if self.rng.random() < 0.125 else self.rng.choice(partition_pool(f.type))
            for f in self.shape.parted()
        }

    def add_file(
        self,
        rows: pa.Table,
        partition: dict[str, Any] | None = None,
        data_change: bool = True,
        name: str | None = None,
    ) -> Action:
        """Write a data file, one way or another; it is live from the next commit on."""
        partition = self.random_partition() if partition is None else partition
        name, absolute = (name, False) if name else self._name()
        rng, number = self.rng, len(self.contents)
        written = self._identified(rows.select(rng.sample(rows.column_names, rows.num_columns)))
        action = self.now.builder.data_file(
            written,
            name,
            {k: partition_text(v) for k, v in partition.items() if v is not None or rng.random() < 0.8},
            absolute=absolute,
            row_group_size=rng.choice((6, 1000, 1000)),
            use_dictionary=rng.random() < 0.5,
            data_page_version=rng.choice(("1.0", "2.0")),
            compression=rng.choice(("none", "snappy", "zstd")),
        )
        self._clock += 1
        add = action["add"]
        add["modificationTime"], add["dataChange"] = self._clock, data_change
        if rng.random() < 0.7:
            add["stats"] = json.dumps(statistics(rows))
        elif rng.random() < 0.3:
            del add["stats"]
        self.contents[number] = rows
        self.live[add["path"]] = LiveFile(number, partition)
        (self.elsewhere if absolute else self.now.disk)[on_disk(self.path, add["path"])] = number
        return action

    def _name(self) -> tuple[str, bool]:
        """The name of a new data file. Names start anew with the table, those of files elsewhere never."""
        self.now.files += 1
        number = self.now.files
        if self.rng.random() < 0.06:
            return f"{self.path}-elsewhere/{len(self.contents)}.parquet", True
        shape = self.rng.choice(("part-{}", "part-{}", "a b%25c+ü#{}", "p=a%2Fb/part-{}", "deep/er/{}"))
        return shape.format(number) + ".parquet", False

    def _identified(self, rows: pa.Table) -> pa.Table:
        """Rows with the field ids that column mapping by id asks for."""
        if self.shape.mapping != "id":
            return rows
        fields = {f.physical: f for f in self.shape.stored()}
        return rows.cast(pa.schema([_with_id(rows.schema.field(n), fields[n]) for n in rows.column_names]))

    def remove(self, path: str) -> Action:
        """The live file goes with the next commit."""
        del self.live[path]
        return self.now.builder.remove(path)

    def hide(self, path: str, rows: Iterable[int]) -> list[Action]:
        """Exactly these rows of a live file are hidden from the next commit on; nothing where they are."""
        hidden, live, builder = frozenset(rows), self.live[path], self.now.builder
        if hidden == live.hidden:
            return []
        add = builder.live[path]
        if "stats" not in add:
            add["stats"] = json.dumps({"numRecords": len(self.contents[live.content])})
        vector, file = self._vector(sorted(hidden)) if hidden else (None, None)
        self.live[path] = replace(live, hidden=hidden, vector=file)
        return builder.hide(path, vector)

    def _vector(self, rows: list[int]) -> tuple[Action, str | None]:
        """A deletion vector of any kind, with another beside it in the same file."""
        builder, rng = self.now.builder, self.rng
        payload: Callable[[Iterable[int]], bytes] = native if rng.random() < 0.2 else portable
        kind = rng.choice(("inline", "stored", "stored", "absolute"))
        if kind == "inline":
            return builder.inline_vector(rows, payload), None
        prefix = rng.choice(("", "xy"))
        absolute = f"{self.path}/vectors" if kind == "absolute" else None
        before = set(_vectors(self.path))
        *_, vector = builder.stored_vectors([0], rows, prefix=prefix, absolute=absolute, payload=payload)
        return vector, next(iter(set(_vectors(self.path)) - before))


def _with_id(column: pa.Field, known: Field) -> pa.Field:
    type_ = column.type
    if known.fields:
        inner = {f.physical: f for f in known.fields}
        type_ = pa.struct([_with_id(f, inner[f.name]) for f in type_])
    return pa.field(column.name, type_, metadata={"PARQUET:field_id": str(known.id)})


def _vectors(root: str) -> list[str]:
    """The files of deletion vectors that lie in a table's folder."""
    folders = (root, f"{root}/xy", f"{root}/vectors")
    return [
        f"{folder}/{name}"
        for folder in folders
        if os.path.isdir(folder)
        for name in os.listdir(folder)
        if name.endswith(".bin")
    ]
