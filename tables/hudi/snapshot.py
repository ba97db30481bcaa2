"""The snapshot of a Hudi table at a version: from a listing of its folders, or extended from an earlier one.

A file group shows the base file of the greatest requested instant that had completed, unless an instant that
had completed replaced the group. Of two files of one group and instant, the commit names the right one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from tailbit.errors import MalformedLogError
from tailbit.tables.hudi.commits import Commit, read_commit
from tailbit.tables.hudi.files import BaseFile, FileGroup, HudiFiles, newest_of_groups
from tailbit.tables.hudi.log.instants import Instant
from tailbit.tables.hudi.log.properties import FILE
from tailbit.tables.hudi.log.timeline import Timeline
from tailbit.tables.hudi.schema import parse_schema
from tailbit.tables.hudi.versions import WRITES, Versions
from tailbit.tables.model import FileSlice, Version, after
from tailbit.tables.schema import Schema
from tailbit.tables.snapshot import Snapshot


@dataclass(frozen=True)
class AvroSchema:
    """The Avro schema in force: that of the greatest requested instant which has one.

    `file`: where the schema lies. `with_meta`: whether the table shows Hudi's own columns.
    """

    text: str = ""
    requested: str = ""
    file: str = FILE
    with_meta: bool = True

    def parse(self) -> Schema:
        """Parse the schema.

        Raises:
            MalformedLogError: it is damaged, or the table has none.
        """
        if not self.text:
            raise MalformedLogError(
                file=self.file, reason="neither a commit nor the properties hold a schema"
            )
        return parse_schema(self.text, self.file, self.with_meta)

    def after(self, commit: Commit, instant: Instant) -> AvroSchema:
        """Return the schema in force once an instant has completed."""
        if not commit.schema or instant.requested < self.requested:
            return self
        return replace(self, text=commit.schema, requested=instant.requested, file=instant.file)


@dataclass(frozen=True)
class HudiSnapshot(Snapshot):
    """A Hudi table at one version. `replaced`: the file groups that are shown no more."""

    files: HudiFiles
    avro: AvroSchema = field(default=AvroSchema(), repr=False, kw_only=True)
    replaced: frozenset[FileGroup] = field(default=frozenset(), repr=False, kw_only=True)


@dataclass
class Fold:
    """What some instants, one after the other, do to a snapshot. `shown`: the path of a group's live file."""

    before: HudiSnapshot
    replaced: set[FileGroup] = field(default_factory=set)
    slices: dict[str, FileSlice | None] = field(default_factory=dict)
    shown: dict[FileGroup, str | None] = field(default_factory=dict)

    def apply(self, commit: Commit) -> tuple[int, int, int]:
        """Apply an instant; return how many files come, how many leave, and the bytes that come."""
        came, left, size = 0, 0, 0
        for file in commit.written:
            old = self._live(file.group)
            if file.group in self.before.replaced or file.group in self.replaced:
                continue
            if old is not None and not _is_newer(file, old):
                continue
            left += self._hide(file.group)
            self.shown[file.group], self.slices[file.path] = file.path, file.slice()
            came, size = came + 1, size + file.size
        for group in commit.replaced:
            left += self._hide(group)
            self.replaced.add(group)
        return came, left, size

    def _live(self, group: FileGroup) -> str | None:
        return self.shown[group] if group in self.shown else self.before.files.of_group(group)

    def _hide(self, group: FileGroup) -> int:
        """Take the live file of a group away; return how many files leave."""
        old = self._live(group)
        self.shown[group] = None
        if old is None:
            return 0
        self.slices[old] = None
        return 1


def _is_newer(file: BaseFile, shown: str) -> bool:
    """Return whether a file was requested after the one that its group shows."""
    return file.requested > shown.rpartition("_")[2].removesuffix(".parquet")


def extend_snapshot(
    versions: Versions, before: HudiSnapshot, version: Version, timestamp_ms: int
) -> HudiSnapshot:
    """Return the snapshot of a version from that of an earlier one. Cost: that of the commits between.

    Raises:
        FileNotFoundError: an instant has been archived, or taken back, since the timeline was read.
        MalformedLogError: a commit is damaged, or its metadata are lost.
    """
    fold, avro = Fold(before), before.avro
    for at in versions.between(after(before.version), version):
        instant = versions.instants[at]
        commit = known_commit(versions.timeline, instant)
        fold.apply(commit)
        avro = avro.after(commit, instant)
    replaced = before.replaced | fold.replaced
    return _snapshot(versions, version, timestamp_ms, before.files.overlaid(fold.slices), avro, replaced)


def known_commit(timeline: Timeline, instant: Instant) -> Commit:
    """Read what an instant did.

    Raises:
        FileNotFoundError: the instant has been archived, or taken back, since the timeline was read.
        MalformedLogError: the metadata are damaged, or the archive has none.
    """
    commit = read_commit(timeline, instant)
    if not commit.is_known:
        raise MalformedLogError(file=instant.file, reason=f"it has no metadata of {instant.requested}")
    return commit


def build_snapshot(
    versions: Versions, version: Version, timestamp_ms: int, files: Iterable[BaseFile]
) -> HudiSnapshot:
    """Return the snapshot of a version from the base files that are there.

    Cost: the metadata of the active instants that replaced file groups, and of one that has a schema. Of
    archived instants, the groups that they replaced are gone.

    Raises:
        FileNotFoundError: an instant has been archived, or taken back, since the timeline was read.
        MalformedLogError: a commit is damaged, or leaves open which of two files of a group is right.
    """
    timeline = versions.timeline
    complete = [versions.instants[at] for at in versions.between(0, version)]
    replaced: set[FileGroup] = set()
    for instant in complete:
        if instant.action == "replacecommit" and instant.row < 0:
            replaced |= read_commit(timeline, instant).replaced
    groups = newest_of_groups((f for f in files if versions.is_complete(f.requested, version)), replaced)
    live = [f[0] if len(f) == 1 else _right_one(f, timeline, complete) for f in groups.values()]
    listed = HudiFiles.of([file.slice() for file in live], timeline.properties.active)
    avro = _schema_in_force(timeline, complete)
    return _snapshot(versions, version, timestamp_ms, listed, avro, frozenset(replaced))


def _snapshot(
    versions: Versions,
    version: Version,
    timestamp_ms: int,
    files: HudiFiles,
    avro: AvroSchema,
    replaced: frozenset[FileGroup],
) -> HudiSnapshot:
    root = versions.timeline.storage.root
    return HudiSnapshot(root, version, timestamp_ms, files, avro.parse, avro=avro, replaced=replaced)


def _right_one(files: Sequence[BaseFile], timeline: Timeline, complete: Iterable[Instant]) -> BaseFile:
    """Return the one of some files of a group and an instant that the instant names.

    Raises:
        MalformedLogError: the instant names none of the files, or more than one.
    """
    wanted = files[0].requested
    own = [i for i in complete if i.requested == wanted and i.action in WRITES]
    named = {f.path for instant in own for f in read_commit(timeline, instant).written}
    right = [file for file in files if file.path in named]
    if len(right) != 1:
        names = ", ".join(sorted(file.path for file in files))
        reason = f"the commit {wanted} leaves open which file is right: {names}"
        raise MalformedLogError(file=own[0].file if own else timeline.properties.active, reason=reason)
    return right[0]


def _schema_in_force(timeline: Timeline, complete: Iterable[Instant]) -> AvroSchema:
    """Return the schema of the greatest requested instant that has one, else that of the table's creation."""
    empty = AvroSchema(with_meta=timeline.properties.has_meta_columns)
    for instant in sorted(complete, key=lambda instant: instant.requested, reverse=True):
        if instant.action in WRITES:
            schema = empty.after(read_commit(timeline, instant), instant)
            if schema.text:
                return schema
    return replace(empty, text=timeline.properties.values.get("hoodie.table.create.schema", ""))
