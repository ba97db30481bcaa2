"""A Hudi table that random operations change, written by hand: no JVM, and what each version must hold.

The account of the table is kept beside the files: which instant wrote which data files and replaced which
file groups. A version is the fold of the instants that had completed by then, in the order of completion.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from support.fuzzer.columns import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONGS,
    PRICE,
    STRING,
    TIMESTAMP,
    WIDER_PRICE,
    Field,
    asked,
    random_values,
)
from support.fuzzer.model import LiveFile, RandomHistory, Shape, State, under
from support.hudi_builder import META, BaseFile, HudiBuilder
from support.hudi_timeline import Instant

TYPES = (INT, LONGS, FLOAT, DOUBLE, BOOLEAN, STRING, BINARY, DATE, TIMESTAMP, PRICE, WIDER_PRICE)
WIDER = {INT: (LONGS, DOUBLE, FLOAT, STRING), LONGS: (DOUBLE, FLOAT, STRING)}
"""Hudi reads a widened float through text, as one wrote it: no fold of contents says that."""
NAMES = ("a", "b", "C", "d", "E", "f", "g", "h")
PARTS = ("EU", "a b", "x=y%z", "ä/1", None)


@dataclass(frozen=True)
class FileRows:
    """Rows for the next data file of a file group; `before` is the file that it follows."""

    rows: pa.Table
    file_id: str
    folder: str
    before: BaseFile | None = None

    @classmethod
    def after(cls, file: BaseFile, rows: pa.Table) -> FileRows:
        """Return rows for the file that follows another in its group."""
        return cls(rows, file.file_id, file.folder, file)


@dataclass(frozen=True)
class Effect:
    """What a completed instant did: files it wrote, file groups it replaced, the columns from it on."""

    instant: Instant
    wrote: tuple[BaseFile, ...]
    replaced: frozenset[str]
    shape: Shape


@dataclass
class Pending:
    """A write that was requested, with its data files, and has not completed; it owns its file groups."""

    requested: str
    wrote: tuple[BaseFile, ...]

    @property
    def groups(self) -> set[str]:
        """The file groups that no other write may touch."""
        return {file.file_id for file in self.wrote}


@dataclass
class Account:
    """What is known of a table besides its files."""

    effects: list[Effect] = field(default_factory=list)
    pending: list[Pending] = field(default_factory=list)
    content: dict[str, int] = field(default_factory=dict)
    """The number of the content of a data file, by its path."""
    gone: set[str] = field(default_factory=set)
    earliest: int = 0

    def live(self, upto: int | None = None) -> dict[str, BaseFile]:
        """Fold the first effects, or all: the file of each file group that is shown."""
        shown: dict[str, BaseFile] = {}
        for effect in self.effects[:upto]:
            for file in effect.wrote:
                if file.file_id not in shown or shown[file.file_id].requested < file.requested:
                    shown[file.file_id] = file
            for group in effect.replaced:
                shown.pop(group, None)
        return shown


class HudiHistory(RandomHistory):
    """Random operations on a hand-made COPY_ON_WRITE table of version 6, 8 or 9."""

    def __init__(self, path: str, rng: random.Random) -> None:
        super().__init__(path, rng)
        self.account = Account()
        self._fields = self._keys = 0
        self.parted = rng.random() < 0.6
        self.hive = rng.random() < 0.5
        parts = {"hoodie.table.partition.fields": "part"} if self.parted else {}
        self.builder = HudiBuilder(
            path,
            rng.choice((6, 8, 9, 9)),
            rng,
            **{
                "hoodie.table.recordkey.fields": "key",
                "hoodie.datasource.write.hive_style_partitioning": str(self.hive).lower(),
                "hoodie.datasource.write.partitionpath.urlencode": "true",
                **parts,
            },
        )
        self.shape = self._random_shape()
        self.write(
            "BULK_INSERT", [self.group(self.rows(rng.randint(4, 20))) for _ in range(rng.randint(1, 3))]
        )

    @property
    def version(self) -> int:
        """The version of Hudi's table format."""
        return self.builder.timeline.version

    def _random_shape(self) -> Shape:
        names = self.rng.sample(NAMES, self.rng.randint(4, 7))
        fields = [self.new_field(name, self.rng.choice(TYPES)) for name in names]
        inner = (self.new_field("city", STRING), self.new_field("n", self.rng.choice(TYPES)))
        fields.append(replace(self.new_field("place", pa.struct([])), fields=inner))
        fixed = [self.new_field(name, STRING) for name in META] + [self.new_field("key", LONGS)]
        return Shape((*fixed, *fields, self.new_field("part", STRING)))

    def new_field(self, name: str, type_: pa.DataType) -> Field:
        """Return a column that has never been."""
        self._fields += 1
        return Field(name, type_, name, self._fields)

    def operations(self) -> Sequence[tuple[str, Callable[[Any], bool]]]:
        from support.fuzzer.hudi_operations import OPERATIONS

        return OPERATIONS

    def rows(self, count: int) -> pa.Table:
        """Return random rows of new keys, without Hudi's columns and the partition's."""
        self._keys += count
        keys = pa.array(range(self._keys - count, self._keys), LONGS)
        drawn = [f for f in self.shape.fields if f.name not in (*META, "key", "part")]
        columns = [keys, *(random_values(self.rng, f, count) for f in drawn)]
        return pa.table(columns, names=["key", *(f.name for f in drawn)])

    def folder(self, part: str | None) -> str:
        """Name the folder of a value of the partition column."""
        if not self.parted:
            return ""
        text = "__HIVE_DEFAULT_PARTITION__" if part is None else quote(part, safe=" ")
        return f"part={text}" if self.hive else text

    def group(self, rows: pa.Table, part: str | None = "") -> FileRows:
        """Return rows for a new file group, in a random partition unless one is given."""
        part = self.rng.choice(PARTS) if part == "" else part
        rows = rows.append_column("part", pa.array([part] * len(rows), STRING))
        return FileRows(rows, self.builder.new_group(), self.folder(part))

    def visible(self, file: BaseFile) -> pa.Table:
        """Return the rows of a live file under the columns of today."""
        return under(self.contents[self.account.content[file.path]], self.shape.fields)

    def store(self, requested: str, groups: Iterable[FileRows]) -> tuple[BaseFile, ...]:
        """Write the data files of an instant."""
        files = []
        for group in groups:
            file, full = self.builder.data_file(
                group.rows,
                requested,
                group.file_id,
                group.folder,
                None if group.before is None else group.before.path,
                row_group_size=self.rng.choice((5, 1000)),
                use_dictionary=self.rng.random() < 0.5,
                compression=self.rng.choice(("none", "gzip", "zstd")),
            )
            number = len(self.contents)
            self.contents[number] = full
            self.account.content[file.path] = number
            files.append(file)
        return tuple(files)

    def write(
        self,
        operation: str,
        groups: Iterable[FileRows],
        replaced: Sequence[BaseFile] | None = None,
    ) -> bool:
        """Request, write and complete a commit, or a replacecommit; True, for operations to return."""
        requested = self.builder.timeline.request("commit" if replaced is None else "replacecommit")
        self.complete(requested, self.store(requested, groups), operation, replaced)
        return True

    def complete(
        self,
        requested: str,
        files: tuple[BaseFile, ...],
        operation: str,
        replaced: Sequence[BaseFile] | None = None,
    ) -> None:
        """Complete a write whose data files are there."""
        folders: dict[str, list[str]] = {}
        for file in replaced or ():
            folders.setdefault(file.folder, []).append(file.file_id)
        schema = pa.schema([(f.name, f.logical) for f in self.shape.fields])
        instant = self.builder.commit(
            requested, files, schema, operation, None if replaced is None else folders
        )
        self.record(instant, files, frozenset(file.file_id for file in replaced or ()))

    def record(
        self, instant: Instant, files: Sequence[BaseFile] = (), replaced: frozenset[str] = frozenset()
    ) -> None:
        """Take a completed instant into the account."""
        self.account.effects.append(Effect(instant, tuple(files), replaced, self.shape))

    def number(self, instant: Instant) -> int:
        """Return the version that an instant makes: 17 digits, or milliseconds where no name holds them."""
        return int(instant.completed) if self.version >= 8 else instant.changed_ns // 1_000_000

    def free(self) -> dict[str, BaseFile]:
        """Return the live files by file group, without the groups of writes that are pending."""
        taken = {group for write in self.account.pending for group in write.groups}
        return {group: file for group, file in self.account.live().items() if group not in taken}

    def state(self, position: int) -> State:
        """Return the version that the effect at a position made."""
        effect = self.account.effects[position]
        files = {quote(f.path): self._live(f) for f in self.account.live(position + 1).values()}
        columns = asked(effect.shape.fields, ())
        return State(self.number(effect.instant), effect.shape, files, self.contents, columns)

    def _live(self, file: BaseFile) -> LiveFile:
        return LiveFile(self.account.content[file.path], {})

    def head(self) -> State:
        """Return the newest version."""
        return self.state(len(self.account.effects) - 1)

    def is_readable(self, position: int) -> bool:
        """Whether the version of an effect can be read: the cleaner has taken nothing of it."""
        effect = self.account.effects[position]
        files = self.account.live(position + 1).values()
        here = self.account.gone.isdisjoint(file.path for file in files)
        saved = {i.requested for i in self.builder.timeline.instants if i.action == "savepoint"}
        kept = self.number(effect.instant) >= self.account.earliest or effect.instant.requested in saved
        return here and kept

    def readable(self) -> list[State]:
        """Return the versions that can be read, the head last."""
        return [self.state(n) for n in range(len(self.account.effects)) if self.is_readable(n)]


def paths(files: Mapping[str, BaseFile]) -> set[str]:
    return {file.path for file in files.values()}
