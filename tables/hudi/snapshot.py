"""The snapshot of a Hudi table at a version, from a listing of its folders.

A file group shows the base file of the greatest requested instant that had completed at the version, unless
an instant completed by then replaced the group. If one group and instant have two files, the commit names the
right one. A file that the newest commit names is listed even if it is missing: its reader then gets an error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cache, partial
from itertools import chain, takewhile
from typing import Any

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import MalformedLogError
from tailbit.tables.hudi.files import Commit, HudiFiles, ListedFiles, newest_of_groups, read_commit
from tailbit.tables.hudi.gate import check_folders, check_partition_columns, partition_columns
from tailbit.tables.hudi.groups import BaseFile, FileGroup, LogFile
from tailbit.tables.hudi.instants import Instant
from tailbit.tables.hudi.log_files.blocks import look_ahead
from tailbit.tables.hudi.log_files.plan import merge_rule, slice_name
from tailbit.tables.hudi.log_files.slices import GroupReader
from tailbit.tables.hudi.properties import FILE
from tailbit.tables.hudi.schema import parse_schema, reading_mark, with_null_folders
from tailbit.tables.hudi.timeline import Timeline
from tailbit.tables.hudi.versions import WRITES, Versions
from tailbit.tables.model import FileSlice, Version
from tailbit.tables.schema import Schema
from tailbit.tables.snapshot import Snapshot


@dataclass(frozen=True)
class AvroSchema:
    """The Avro schema in force: the schema of the greatest requested instant that has one.

    `requested`: the requested time of that instant. `file`: the file that holds the schema. `with_meta`:
    whether the table shows Hudi's own columns. `partitioned`: the partition columns, in the order of folders.
    """

    text: str = ""
    requested: str = ""
    file: str = FILE
    with_meta: bool = True
    partitioned: tuple[str, ...] = ()

    def parse(self) -> Schema:
        """Parse the schema."""
        if not self.text:
            raise MalformedLogError(
                file=self.file, reason="neither a commit nor the properties hold a schema"
            )
        schema = parse_schema(self.text, self.file, self.with_meta)
        return with_null_folders(schema, self.partitioned) if self.partitioned else schema

    def marked(self, slice_: FileSlice) -> FileSlice:
        """Return a slice that differs from the same slice under a schema by which values are read otherwise.

        What is known of a file's values then no longer holds; see `reading_mark`. The two slices differ by
        their modification time, which has no other use: Hudi gives none.
        """
        return replace(slice_, mtime=self.mark)

    @property
    def mark(self) -> int:
        """The number that identifies how values of files are read; see `reading_mark`."""
        return reading_mark(self.text)

    def after(self, commit: Commit, instant: Instant) -> AvroSchema:
        """Return the schema in force once an instant has completed."""
        if not commit.schema or instant.requested < self.requested:
            return self
        return replace(self, text=commit.schema, requested=instant.requested, file=instant.file)


@dataclass(frozen=True)
class HudiSnapshot(Snapshot):
    """A Hudi table at one version. `replaced`: the replaced file groups, which are no longer shown.

    `logs`: by group, the log files whose blocks may count.
    """

    files: HudiFiles
    avro: AvroSchema = field(default=AvroSchema(), repr=False, kw_only=True)
    replaced: frozenset[FileGroup] = field(default=frozenset(), repr=False, kw_only=True)
    logs: Mapping[FileGroup, tuple[LogFile, ...]] = field(default_factory=dict, repr=False, kw_only=True)

    def data_files(self) -> set[str]:
        """Return the paths of the files that hold the rows."""
        bases = {path for path in self.files.paths.to_pylist() if slice_name(path) is None}
        return bases | {log.path for logs in self.logs.values() for log in logs}


def group_reader(versions: Versions, version: Version) -> GroupReader:
    """Return a reader of the log files of groups at a version. The reader reads each commit at most once."""
    timeline = versions.timeline
    read = cache(partial(read_commit, timeline))
    return GroupReader(
        timeline.storage,
        merge_rule(timeline.properties.values),
        partial(versions.is_complete, version=version),
        versions.completion,
        partial(_is_written, versions, version, read),
        timeline.properties.has_completion_times,
    )


def _is_written(
    versions: Versions, version: Version, read: Callable[[Instant], Commit], log: LogFile, requested: str
) -> bool:
    """Return whether an instant that had completed at a version wrote into a log file.

    `requested`: the requested time of a completed instant; empty to ask about all instants. An instant whose
    metadata are lost counts as having written. Cost: reads the metadata of that instant; if `requested` is
    empty, of each write that was requested at or after the instant in the log file's name.
    """
    if requested and requested not in versions.requested:
        return True
    complete = (versions.instants[index] for index in versions.between(0, version))
    writes = (i for i in complete if i.action in WRITES and i.requested >= log.instant)
    commits = (read(instant) for instant in writes if requested in ("", instant.requested))
    return any(log in commit.logs or not commit.is_known for commit in commits)


def known_commit(timeline: Timeline, instant: Instant) -> Commit:
    """Read the effect of an instant, which must have metadata."""
    commit = read_commit(timeline, instant)
    if not commit.is_known:
        raise MalformedLogError(file=instant.file, reason=f"it has no metadata of {instant.requested}")
    return commit


def build_snapshot(
    versions: Versions, version: Version, timestamp_ms: int, files: ListedFiles
) -> HudiSnapshot:
    """Return the snapshot of a version from the data files that are there.

    Cost: reads the metadata of the active instants that replaced file groups, and of the newest instants
    until one has a schema. Groups that archived instants replaced are gone, so these are not read.
    """
    timeline = versions.timeline
    complete = [versions.instants[index] for index in versions.between(0, version)]
    replaced: set[FileGroup] = set()
    for instant in complete:
        if instant.action == "replacecommit" and instant.row < 0:
            replaced |= read_commit(timeline, instant).replaced
    avro, newest = _schema_in_force(timeline, complete)
    files = _with_lost(files, _not_cleaned(newest, complete))
    bases = (f for f in files.bases if versions.is_complete(f.requested, version))
    groups = newest_of_groups(bases, replaced)
    live = [f[0] if len(f) == 1 else _right_one(f, timeline, complete) for f in groups.values()]
    shown = {file.group: file for file in live}
    logs = {}
    if timeline.properties.is_merged:
        logs = _logs_in_force(versions, version, files.logs, shown, replaced)
    check_folders_of(versions, version, [*shown, *logs])
    reader = group_reader(versions, version)
    look_ahead(reader.storage, [log.path for own in logs.values() for log in own])
    slices = [file.slice() for file in live if file.group not in logs]
    for group, own in logs.items():
        base = shown.get(group)
        slices += reader.slices(None if base is None else base.slice(), own)
    check_partitions_of(versions, version, avro)
    slices.sort(key=lambda slice_: slice_.path)
    listed = HudiFiles.of([avro.marked(slice_) for slice_ in slices], timeline.properties.active)
    return snapshot_of(versions, version, timestamp_ms, listed, avro, frozenset(replaced), logs)


def _not_cleaned(commits: Sequence[tuple[Instant, Commit]], complete: Sequence[Instant]) -> Iterator[Commit]:
    """Yield the commits that no archived instant follows: it may have replaced the files that they wrote."""
    followed = {instant.key for instant in takewhile(lambda instant: instant.row < 0, reversed(complete))}
    return (commit for instant, commit in commits if instant.key in followed)


def _with_lost(files: ListedFiles, commits: Iterable[Commit]) -> ListedFiles:
    """Return the files, and those that commits name although their group has no file of that instant."""
    named = [*commits]
    instants = {f.requested for commit in named for f in commit.written}
    of_logs = {log.instant for commit in named for log in commit.logs}
    bases = {(file.group, file.requested) for file in files.bases if file.requested in instants}
    logs = {(log.group, *log.order[:2]) for log in files.logs if log.instant in of_logs}
    lost = [f for commit in named for f in commit.written if (f.group, f.requested) not in bases]
    gone = [log for commit in named for log in commit.logs if (log.group, *log.order[:2]) not in logs]
    return ListedFiles([*files.bases, *lost], [*files.logs, *gone]) if lost or gone else files


def check_folders_of(versions: Versions, version: Version, groups: Iterable[FileGroup]) -> None:
    """Check that the folders of groups have names in which Spark finds the values that were written."""
    folders, timeline = {group.folder for group in groups}, versions.timeline
    check_folders(folders, timeline.properties, timeline.storage.root, versions.name_of(version))


def check_partitions_of(versions: Versions, version: Version, avro: AvroSchema) -> None:
    """Check that Spark reads the partition columns of a schema as they were written."""
    properties, root = versions.timeline.properties, versions.timeline.storage.root
    if avro.text and avro.partitioned:
        check_partition_columns(avro.parse(), properties, root, versions.name_of(version))


def _logs_in_force(
    versions: Versions,
    version: Version,
    logs: Iterable[LogFile],
    shown: Mapping[FileGroup, BaseFile],
    replaced: Collection[FileGroup],
) -> dict[FileGroup, tuple[LogFile, ...]]:
    """Return, by group, the log files that belong to the base file shown; all if the group shows none.

    From table version 8 on, only log files of completed instants count; in version 6 their blocks tell. Among
    files of one instant and number, left by a retried task, the metadata of the instant name the right one.
    """
    named = versions.timeline.properties.has_completion_times
    by_group: dict[FileGroup, dict[tuple[object, ...], list[LogFile]]] = {}
    for log in logs:
        base = shown.get(log.group)
        if log.group in replaced or (named and not versions.is_complete(log.instant, version)):
            continue
        if base is None or versions.follows_base(log, base.requested):
            key = log.order[:2] if named else log.order
            by_group.setdefault(log.group, {}).setdefault(key, []).append(log)
    out = {}
    for group, same in by_group.items():
        right = (own if len(own) == 1 else _right_logs(own, versions) for own in same.values())
        out[group] = tuple(sorted(chain.from_iterable(right), key=lambda log: log.order))
    return out


def _right_logs(logs: Sequence[LogFile], versions: Versions) -> Sequence[LogFile]:
    """Return the log files that count among those of one group, instant and number.

    The file that the instant names counts. If it names none of them, but other files of the group, later
    instants wrote all of them before the table's upgrade, and all are returned: their blocks tell.
    """
    index = versions.place(versions.requested.get(logs[0].instant, -1))
    instant = None if index is None else versions.instants[index]
    commit = Commit() if instant is None else read_commit(versions.timeline, instant)
    right = [log for log in logs if log in commit.logs]
    if not right and logs[0].group in {f.group for f in commit.written} | {log.group for log in commit.logs}:
        return logs
    if len(right) != 1:
        names = ", ".join(sorted(log.path for log in logs))
        reason = f"the commit {logs[0].instant} leaves open which file is right: {names}"
        file = versions.timeline.properties.active if instant is None else instant.file
        raise MalformedLogError(file=file, reason=reason)
    return right


def snapshot_of(
    versions: Versions,
    version: Version,
    timestamp_ms: int,
    files: HudiFiles,
    avro: AvroSchema,
    replaced: frozenset[FileGroup],
    logs: Mapping[FileGroup, tuple[LogFile, ...]],
) -> HudiSnapshot:
    """Return the snapshot with the given parts."""
    root = versions.timeline.storage.root
    shared: dict[str, Any] = {"avro": avro, "replaced": replaced, "logs": logs}
    return HudiSnapshot(root, version, timestamp_ms, files, avro.parse, **shared)


def _right_one(files: Sequence[BaseFile], timeline: Timeline, complete: Iterable[Instant]) -> BaseFile:
    """Return the one that the instant names, of several files of one group and instant."""
    requested = files[0].requested
    own = [i for i in complete if i.requested == requested and i.action in WRITES]
    named = {f.path for instant in own for f in read_commit(timeline, instant).written}
    right = [file for file in files if file.path in named]
    if len(right) != 1:
        names = ", ".join(sorted(file.path for file in files))
        reason = f"the commit {requested} leaves open which file is right: {names}"
        raise MalformedLogError(file=own[0].file if own else timeline.properties.active, reason=reason)
    return right[0]


def _schema_in_force(
    timeline: Timeline, complete: Iterable[Instant]
) -> tuple[AvroSchema, list[tuple[Instant, Commit]]]:
    """Return the schema of the greatest requested instant that has one, else that of the table's creation.

    The second part of the result: the instants read for it, greatest request first, with their commits.
    """
    properties = timeline.properties
    folders = partition_columns(properties)
    empty = AvroSchema(with_meta=properties.has_meta_columns, partitioned=folders)
    commits: list[tuple[Instant, Commit]] = []
    for instant in sorted(complete, key=lambda instant: instant.requested, reverse=True):
        if instant.action in WRITES:
            commit = read_commit(timeline, instant)
            commits.append((instant, commit))
            schema = empty.after(commit, instant)
            if schema.text:
                return schema, commits
    return replace(empty, text=properties.values.get("hoodie.table.create.schema", "")), commits
