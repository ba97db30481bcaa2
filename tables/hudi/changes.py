"""The effect of commits on a snapshot: the snapshot after the commits, and their net effect per path.

Both are computed by one fold of the commits. The latest fold is cached: the planner, the indexer of a batch,
the lag and a query afterwards all fold the same commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from functools import cached_property

from tailbit.base.dataclass import dataclass
from tailbit.tables.hudi.files import Commit
from tailbit.tables.hudi.groups import FileGroup, LogFile, requested_of
from tailbit.tables.hudi.log_files.blocks import look_ahead
from tailbit.tables.hudi.snapshot import (
    AvroSchema,
    HudiSnapshot,
    check_folders_of,
    check_partitions_of,
    group_reader,
    known_commit,
    snapshot_of,
)
from tailbit.tables.hudi.versions import Versions
from tailbit.tables.model import Changes, CommitInfo, FileSlice, SliceChange, Version, after


@dataclass
class Fold:
    """The effect of some instants, one after the other, on a snapshot.

    `replaced`: the file groups that the instants replaced. `slices`: the slice after them per changed path;
    None if it is gone. `shown`: the live base file of each group that changed; None if it has none. `logs`:
    the log files of the groups whose logs changed.
    """

    versions: Versions
    before: HudiSnapshot
    replaced: set[FileGroup] = field(default_factory=set)
    slices: dict[str, FileSlice | None] = field(default_factory=dict)
    shown: dict[FileGroup, FileSlice | None] = field(default_factory=dict)
    logs: dict[FileGroup, tuple[LogFile, ...]] = field(default_factory=dict)

    def holds(self, versions: Versions, before: HudiSnapshot) -> bool:
        """Return whether the fold also holds for a later look at the versions, after the same snapshot."""
        same = self.versions is versions or self.versions.begins(versions.timeline)
        return same and self.before is before

    def apply(self, commit: Commit) -> tuple[int, int, int]:
        """Apply an instant; return the numbers of files added and of files removed, and the bytes added."""
        came, gone, size = 0, 0, 0
        for file in commit.written:
            old = self._live(file.group)
            if self._is_replaced(file.group):
                continue
            if old is not None and file.requested <= requested_of(old.path):
                continue
            gone += self._hide(file.group)
            self.shown[file.group] = self.slices[file.path] = file.slice()
            self._keep_logs(file.group, file.requested)
            came, size = came + 1, size + file.size
        if self.versions.timeline.properties.is_merged:
            came, size = came + self._append(commit.logs), size + commit.log_bytes
        for group in commit.replaced:
            gone += self._hide(group)
            self.replaced.add(group)
            self._keep_logs(group, None)
        return came, gone, size

    def settle(self, version: Version, avro: AvroSchema) -> None:
        """Read the log files of groups whose logs or base files changed, as of a version and its schema."""
        reader = group_reader(self.versions, version)
        look_ahead(reader.storage, [log.path for logs in self.logs.values() for log in logs])
        for group, logs in self.logs.items():
            live = self._live(group)
            base = None if live is None else replace(live, hidden=None)
            now = {slice_.path: slice_ for slice_ in reader.slices(base, logs)}
            for path in self.before.files.blocks_of(group):
                self.slices[path] = None
            self.slices |= now
        if avro.mark != self.before.avro.mark:
            untouched = (slice_ for slice_ in self.before.files if slice_.path not in self.slices)
            self.slices |= {slice_.path: slice_ for slice_ in untouched}
        if avro.mark or self.before.avro.mark:
            for path, slice_ in self.slices.items():
                self.slices[path] = None if slice_ is None else avro.marked(slice_)

    def all_logs(self) -> Mapping[FileGroup, tuple[LogFile, ...]]:
        """Return the log files of all groups that have any."""
        if not self.logs:
            return self.before.logs
        return {group: logs for group, logs in {**self.before.logs, **self.logs}.items() if logs}

    def _append(self, logs: Iterable[LogFile]) -> int:
        """Add log files to their groups; return the number of log files added."""
        came = 0
        for log in logs:
            if not self._is_replaced(log.group):
                logs_of_group, base = self._logs(log.group), self._live(log.group)
                belongs = base is None or self.versions.follows_base(log, requested_of(base.path))
                is_new = belongs and log not in logs_of_group
                self.logs[log.group] = (*logs_of_group, log) if is_new else logs_of_group
                came += is_new
        return came

    def _keep_logs(self, group: FileGroup, requested: str | None) -> None:
        """Keep the log files that belong to a group's new base file; none if the group is replaced."""
        logs_of_group = self._logs(group)
        if logs_of_group:
            remaining = () if requested is None else logs_of_group
            self.logs[group] = tuple(
                log for log in remaining if self.versions.follows_base(log, requested or "")
            )

    def _logs(self, group: FileGroup) -> tuple[LogFile, ...]:
        return self.logs[group] if group in self.logs else self.before.logs.get(group, ())

    def _is_replaced(self, group: FileGroup) -> bool:
        return group in self.before.replaced or group in self.replaced

    def _live(self, group: FileGroup) -> FileSlice | None:
        if group in self.shown:
            return self.shown[group]
        path = self.before.files.of_group(group)
        return None if path is None else self.before.files.get(path)

    def _hide(self, group: FileGroup) -> int:
        """Remove the live base file of a group; return the number of files removed, 0 or 1."""
        old = self._live(group)
        self.shown[group] = None
        if old is None:
            return 0
        self.slices[old.path] = None
        return 1


@dataclass(frozen=True)
class Folded:
    """A fold of some commits. `avro`: the schema after the commits; `infos`: the effect of each commit."""

    fold: Fold
    avro: AvroSchema
    infos: tuple[CommitInfo, ...]

    @cached_property
    def slices(self) -> tuple[SliceChange, ...]:
        """The net effect per path, sorted. A block whose hidden rows are the same as before is left out."""
        new = self.fold.slices
        old = self.fold.before.files.live_of(new)
        changes = (SliceChange(path, old.get(path), new[path]) for path in sorted(new))
        return tuple(change for change in changes if change.old is None or change.old != change.new)


@dataclass
class Folds:
    """The folds of a table's commits, of which the latest is cached."""

    _latest: tuple[range, Folded] | None = field(default=None, repr=False)

    def extended(
        self, versions: Versions, before: HudiSnapshot, version: Version, timestamp_ms: int
    ) -> HudiSnapshot:
        """Return the snapshot of a version from an earlier one. Cost: reads the commits between the two."""
        folded = self._of(versions, before, versions.between(after(before.version), version))
        fold, avro = folded.fold, folded.avro
        check_folders_of(versions, version, [*fold.shown, *fold.logs])
        if avro.text != before.avro.text:
            check_partitions_of(versions, version, avro)
        files, replaced = before.files.overlaid(fold.slices), before.replaced | fold.replaced
        return snapshot_of(versions, version, timestamp_ms, files, avro, replaced, fold.all_logs())

    def changes(self, versions: Versions, before: HudiSnapshot, first: Version, last: Version) -> Changes:
        """Return the net effect of the versions `first` to `last`, which follow the snapshot `before`."""
        folded = self._of(versions, before, versions.between(first, last))
        return Changes(first, last, folded.slices, folded.infos, folded.avro.text != before.avro.text)

    def _of(self, versions: Versions, before: HudiSnapshot, indexes: range) -> Folded:
        """Return the fold of the commits at some indexes of the versions, which follow a snapshot."""
        if self._latest is not None:
            folded_indexes, folded = self._latest
            if folded_indexes == indexes and folded.fold.holds(versions, before):
                return folded
        fold, avro, infos = Fold(versions, before), before.avro, []
        for index in indexes:
            instant = versions.instants[index]
            commit = known_commit(versions.timeline, instant)
            came, gone, size = fold.apply(commit)
            avro = avro.after(commit, instant)
            number, time = versions.numbers[index], versions.times[index]
            infos.append(CommitInfo(number, time, commit.operation, came, gone, size))
        fold.settle(versions.numbers[indexes[-1]] if indexes else before.version, avro)
        folded = Folded(fold, avro, tuple(infos))
        self._latest = (indexes, folded)
        return folded
