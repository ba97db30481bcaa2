"""A MERGE_ON_READ table that random operations change, written by hand, and what each version must hold.

The account holds, for each file group, base files and log blocks with the instants that wrote them; which
rows of them are visible at a version is told by `merging`, key by key.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from support.fuzzer.columns import LONGS, STRING, Field, asked, random_values
from support.fuzzer.hudi import NAMES, TYPES
from support.fuzzer.merging import Base, Block, Group, Log, visible
from support.fuzzer.model import LiveFile, RandomHistory, Shape, State, under
from support.hudi_builder import META, HudiBuilder, avro_fields, avro_schema
from support.hudi_logs import (
    BASE_INSTANT,
    PARTIAL,
    POSITIONS,
    avro_block,
    delete_block,
    parquet_block,
    positions,
)
from support.hudi_timeline import Instant

FIXED = (*META, "key", "ts")


@dataclass(frozen=True)
class Effect:
    """What a completed instant did: base files, log files, file groups replaced; the columns from it on."""

    instant: Instant
    shape: Shape
    bases: tuple[Base, ...] = ()
    logs: tuple[Log, ...] = ()
    replaced: frozenset[str] = frozenset()


@dataclass
class Pending:
    """A write, or a compaction, that was requested and has not completed."""

    requested: str
    bases: tuple[Base, ...] = ()
    logs: tuple[Log, ...] = ()

    @property
    def groups(self) -> set[str]:
        """The file groups that the write is about."""
        return {base.group for base in self.bases} | {log.group for log in self.logs}


@dataclass
class Draft:
    """The log blocks of one file group for one instant, as rows, deletions, or rows of some columns."""

    group: str
    parts: list[tuple[str, Any]] = field(default_factory=list)


class MergedHistory(RandomHistory):
    """Random operations on a hand-made MERGE_ON_READ table of version 6, 8 or 9."""

    def __init__(self, path: str, rng: random.Random) -> None:
        super().__init__(path, rng)
        self.effects: list[Effect] = []
        self.pending: list[Pending] = []
        self.folders: dict[str, str] = {}
        self.earliest = 0
        self._keys = self._files = self._fields = 0
        self.by_time = rng.random() < 0.7
        mode = "EVENT_TIME_ORDERING" if self.by_time else "COMMIT_TIME_ORDERING"
        said = {"hoodie.table.type": "MERGE_ON_READ", "hoodie.table.ordering.fields": "ts"}
        self.builder = HudiBuilder(
            path, rng.choice((6, 8, 9, 9)), rng, **said, **{"hoodie.record.merge.mode": mode}
        )
        self.shape = self._random_shape()
        self.commit(bases=[self.base(self.new_group(), self.rows(rng.randint(4, 16)))])

    @property
    def version(self) -> int:
        """The version of Hudi's table format."""
        return self.builder.timeline.version

    def _random_shape(self) -> Shape:
        names = self.rng.sample(NAMES, self.rng.randint(3, 5))
        fields = [self.new_field(name, self.rng.choice(TYPES)) for name in names]
        inner = (self.new_field("city", STRING), self.new_field("n", self.rng.choice(TYPES)))
        fields.append(replace(self.new_field("place", pa.struct([])), fields=inner))
        fixed = [self.new_field(name, STRING) for name in META]
        return Shape((*fixed, self.new_field("key", LONGS), self.new_field("ts", LONGS), *fields))

    def new_field(self, name: str, type_: pa.DataType) -> Field:
        """Return a column that has never been."""
        self._fields += 1
        return Field(name, type_, name, self._fields)

    def operations(self) -> Sequence[tuple[str, Callable[[Any], bool]]]:
        from support.fuzzer.hudi_merged_operations import OPERATIONS

        return OPERATIONS

    def new_group(self) -> str:
        """Return a new file group, in a folder or in the root."""
        group = self.builder.new_group()
        self.folders[group] = self.rng.choice(("", "p0", "p 1/x=y"))
        return group

    def rows(self, count: int, keys: Sequence[int] | None = None) -> pa.Table:
        """Return random rows of some keys, or of new ones; Hudi's own columns but the key come later."""
        if keys is None:
            self._keys += count
            keys = range(self._keys - count, self._keys)
        drawn = [f for f in self.shape.fields if f.name not in FIXED]
        texts = pa.array([str(key) for key in keys], STRING)
        times = pa.array([self.rng.randint(-2, 6) for _ in keys], LONGS)
        columns = [
            texts,
            pa.array(keys, LONGS),
            times,
            *(random_values(self.rng, f, len(keys)) for f in drawn),
        ]
        return pa.table(columns, names=[META[2], "key", "ts", *(f.name for f in drawn)])

    def groups(self, upto: int | None = None) -> dict[str, Group]:
        """Fold the first effects, or all: what each file group shows."""
        return Group.fold(self.effects[:upto], self.version >= 8)

    def content(self, rows: pa.Table) -> int:
        """Keep rows; return their number."""
        self.contents[len(self.contents)] = rows
        return len(self.contents) - 1

    def base(self, group: str, rows: pa.Table) -> tuple[str, pa.Table]:
        """Return what `commit` takes for a base file."""
        return group, rows

    def write_base(self, requested: str, group: str, rows: pa.Table) -> Base:
        file, full = self.builder.data_file(
            rows, requested, group, self.folders[group], row_group_size=self.rng.choice((3, 1000))
        )
        return Base(group, file.path, requested, self.content(full), file)

    def write_log(self, requested: str, draft: Draft) -> Log:
        """Write a log file of one or more blocks."""
        group, known = draft.group, self.groups().get(draft.group)
        base = None if known is None else known.base
        self._files += 1
        named = requested if self.version >= 8 or base is None else self._base_instant(group, base)
        if self.version < 8 and base is None and known is not None and known.logs:
            named = known.logs[0].named
        number = 1 if self.version >= 8 else self._files
        name = f".{group}_{named}.log.{number}_{self._files % 3}-{self._files}-{self._files * 7}"
        blocks, data = [], []
        for what, part in draft.parts:
            block, written = self._block(requested, what, part, base, name)
            blocks.append(block)
            data.append(written)
        folder = self.folders[group]
        self.builder.begin_folder(folder, requested)
        path = f"{folder}/{name}" if folder else name
        (Path(self.path) / path).write_bytes(b"".join(data))
        return Log(group, path, requested, named, number, tuple(blocks))

    def _base_instant(self, group: str, base: Base) -> str:
        """Return the instant that names a log of version 6: that of a compaction, once it is requested."""
        planned = [b.requested for write in self.pending for b in write.bases if b.group == group]
        return max([base.requested, *planned])

    def _block(
        self, requested: str, what: str, part: Any, base: Base | None, name: str
    ) -> tuple[Block, bytes]:
        if what == "deletes":
            more = self._positions(base, [key for key, _ in part])
            return Block("deletes", None, tuple(part)), delete_block(requested, part, more)
        rows = self._with_meta(part, requested, name)
        more = self._positions(base, rows[META[2]].to_pylist())
        if what == "partial":
            more[PARTIAL] = "true"
        schema = {
            "type": "record",
            "name": "t_record",
            "fields": avro_fields(rows.schema, "hoodie.t.t_record"),
        }
        form = parquet_block if self.rng.random() < 0.3 else avro_block
        given: Any = rows if form is parquet_block else rows.to_pylist()
        return Block(what, self.content(rows), ()), form(requested, schema, given, more)

    def _with_meta(self, rows: pa.Table, requested: str, name: str) -> pa.Table:
        count = len(rows)
        fresh = {
            META[0]: [requested] * count,
            META[1]: [f"{requested}_0_{row}" for row in range(count)],
            META[2]: rows[META[2]].to_pylist(),
            META[3]: [""] * count,
            META[4]: [name] * count,
        }
        columns = [pa.array(values, STRING) for values in fresh.values()]
        others = [column for column in rows.column_names if column not in META]
        return pa.table([*columns, *(rows[column] for column in others)], names=[*META, *others])

    def _positions(self, base: Base | None, keys: Sequence[str]) -> dict[int, bytes | str]:
        """Return headers with the rows of keys in a base file, where a writer knows them."""
        if base is None or self.version < 8 or self.rng.random() < 0.3:
            return {}
        there = self.contents[base.content][META[2]].to_pylist()
        if any(there.count(key) != 1 for key in keys) or len({*keys}) != len(keys):
            return {}
        rows = [there.index(key) for key in keys]
        if rows != sorted(rows):
            return {}
        return {BASE_INSTANT: base.requested, POSITIONS: positions(rows)}

    def commit(
        self,
        bases: Iterable[tuple[str, pa.Table]] = (),
        drafts: Iterable[Draft] = (),
        replaced: Sequence[str] | None = None,
    ) -> bool:
        """Request, write and complete an instant; True, for operations to return."""
        action = "deltacommit" if replaced is None else "replacecommit"
        requested = self.builder.timeline.request(action)
        written = tuple(self.write_base(requested, *base) for base in bases)
        logs = tuple(self.write_log(requested, draft) for draft in drafts)
        self.complete(requested, action, written, logs, replaced)
        return True

    def complete(
        self,
        requested: str,
        action: str,
        bases: Sequence[Base] = (),
        logs: Sequence[Log] = (),
        replaced: Sequence[str] | None = None,
    ) -> None:
        """Complete an instant whose files are there."""
        stats: dict[str, list[dict[str, Any]]] = {}
        written: list[Base | Log] = [*bases, *logs]
        for file in written:
            size = (Path(self.path) / file.path).stat().st_size
            stat = {"fileId": file.group, "path": file.path, "numWrites": 1, "fileSizeInBytes": size}
            stats.setdefault(self.folders[file.group], []).append(stat)
        schema = pa.schema([(f.name, f.logical) for f in self.shape.fields])
        metadata: dict[str, Any] = {
            "partitionToWriteStats": stats,
            "compacted": action == "commit",
            "extraMetadata": {"schema": avro_schema(schema, self.builder.timeline.name)},
            "operationType": {"commit": "COMPACT", "replacecommit": "DELETE_PARTITION"}.get(action, "UPSERT"),
        }
        if replaced is not None:
            folders: dict[str, list[str]] = {}
            for group in replaced:
                folders.setdefault(self.folders[group], []).append(group)
            metadata["partitionToReplaceFileIds"] = folders
        instant = self.builder.timeline.complete(requested, action, metadata)
        self.effects.append(Effect(instant, self.shape, tuple(bases), tuple(logs), frozenset(replaced or ())))

    def number(self, instant: Instant) -> int:
        """Return the version that an instant makes."""
        return int(instant.completed) if self.version >= 8 else instant.changed_ns // 1_000_000

    def free(self) -> list[str]:
        """Return the file groups that no pending write is about."""
        taken = {group for write in self.pending for group in write.groups}
        return sorted(group for group in self.groups() if group not in taken)

    def shown(self, group: Group) -> pa.Table:
        """Return the visible rows of a group under the columns of today."""
        files = visible(group, self.contents, self.by_time)
        schema = pa.schema([(f.name, f.logical) for f in self.shape.fields])
        parts = [schema.empty_table()]
        for content, hidden in files.values():
            rows = under(self.contents[content], self.shape.fields)
            kept = [row for row in range(len(rows)) if row not in hidden]
            parts.append(rows.cast(schema).take(pa.array(kept, LONGS)))
        return pa.concat_tables(parts)

    def state(self, position: int) -> State:
        """Return the version that the effect at a position made."""
        effect, files = self.effects[position], {}
        for group in self.groups(position + 1).values():
            for path, (content, hidden) in visible(group, self.contents, self.by_time).items():
                files[quote(path)] = LiveFile(content, {}, frozenset(hidden))
        columns = asked(effect.shape.fields, ())
        return State(self.number(effect.instant), effect.shape, files, self.contents, columns)

    def head(self) -> State:
        """Return the newest version."""
        return self.state(len(self.effects) - 1)

    def readable(self) -> list[State]:
        """Return the versions that can be read, the head last."""
        ends = range(len(self.effects))
        return [self.state(n) for n in ends if self.number(self.effects[n].instant) >= self.earliest]
