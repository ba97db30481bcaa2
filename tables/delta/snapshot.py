"""The snapshot of a Delta table at one version: protocol, metadata, schema, live files.

A snapshot is built from the newest usable log checkpoint and the commits after it, or extended from an
earlier snapshot by the commits since. Each commit that is read passes the protocol gate; commits before the
checkpoint are not read. An unreadable checkpoint is skipped if an older base and all commits since are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import CommitGapError, MalformedLogError, VersionNotFoundError
from tailbit.base.lazy import lazy
from tailbit.tables.arrow import no_rows
from tailbit.tables.delta.actions import Actions, LogicalFile, Metadata, logical_file
from tailbit.tables.delta.files import STORED, DeltaFiles, Outcomes, reconcile
from tailbit.tables.delta.log import DeltaLog, LogCheckpoint, commit_name
from tailbit.tables.delta.protocol import MAX_WRITER_VERSION, Protocol, check_configuration, check_protocol
from tailbit.tables.delta.schema import parse_schema
from tailbit.tables.delta.words import LOG
from tailbit.tables.model import FileSlice, Version
from tailbit.tables.schema import Schema
from tailbit.tables.snapshot import Snapshot
from tailbit.tables.storage import at_once

if TYPE_CHECKING:
    from tailbit.tables.delta import checkpoint as log_checkpoint
else:
    log_checkpoint = lazy("tailbit.tables.delta.checkpoint")


@dataclass(frozen=True)
class DeltaSnapshot(Snapshot):
    """A Delta table at one version, with the metadata and protocol in force."""

    metadata: Metadata
    protocol: Protocol

    @property
    def table_id(self) -> str:
        """Return the id in the metaData action.

        The id does not identify the table: a REPLACE changes it, and a RESTORE brings an old id back.
        """
        return self.metadata.id

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Logical names of the partition columns, in order."""
        return self.metadata.partition_columns

    @property
    def configuration(self) -> Mapping[str, str]:
        """Table properties."""
        return self.metadata.configuration


@lru_cache(maxsize=1)
def _no_files() -> pa.Table:
    return no_rows(STORED)


@lru_cache(maxsize=64)
def _schema(text: str, partition_columns: tuple[str, ...], mode: str, generates: bool, file: str) -> Schema:
    schema = parse_schema(text, partition_columns, {"delta.columnMapping.mode": mode}, file)
    if generates or not schema.generated:
        return schema
    return Schema(tuple(replace(column, generated="") for column in schema.columns))


class _State(NamedTuple):
    """The state of a log replay after some commits.

    `blank`: the versions of commits that hold no action. `twice`: the slices of paths that a log checkpoint
    holds more than once; they are not in `files`.
    """

    version: Version
    protocol: Protocol | None
    metadata: Metadata | None
    files: DeltaFiles
    blank: tuple[Version, ...] = ()
    twice: Outcomes = MappingProxyType({})


def build_snapshot(log: DeltaLog, version: Version) -> DeltaSnapshot:
    """Build the snapshot of a version from the log alone; the snapshot's timestamp is left 0.

    Cost: the newest checkpoint at or before the version, and the commits after it.
    """
    return _snapshot(log, _build(log, version, files=True))


def build_metadata(log: DeltaLog, version: Version) -> Metadata:
    """Return the metadata of a version. Cost and errors: as `build_snapshot`, but no file action is read."""
    return _in_force(log, _build(log, version, files=False))[0]


def _build(log: DeltaLog, version: Version, files: bool) -> _State:
    """Replay the log up to a version; without `files` the state's file list is empty."""
    try:
        return _from_base(log, version, files)
    except (FileNotFoundError, CommitGapError, MalformedLogError):
        # The cached listing may be older than the last log cleanup and the newest log checkpoint; a cleanup
        # between the reads of a checkpoint's manifest and sidecar looks like damage.
        log.relist()
    try:
        return _from_base(log, version, files)
    except FileNotFoundError as gone:
        raise not_found(log, version, "a log checkpoint vanished while it was read") from gone


def _from_base(log: DeltaLog, version: Version, files: bool) -> _State:
    damaged: MalformedLogError | None = None
    for base in log.listing.bases(version):
        if log.listing.gap(base, version) is not None:
            continue
        first = 0 if base is None else base.version + 1
        steps: Iterator[Callable[[], Any]] = chain(
            [partial(_base_state, log, base, files)], log.reads(first, version)
        )
        # A store is asked for the log checkpoint and the commits after it at once.
        replies = at_once(log.storage, steps)
        try:
            state = next(replies)
        except MalformedLogError as wrong:
            damaged = damaged or wrong
            continue
        commits = (
            log.commit(number, read) for number, read in zip(range(first, version + 1), replies, strict=True)
        )
        return _replay(log, state, version, files, commits)
    if damaged is not None:
        raise damaged
    raise _unreachable(log, version)


def _unreachable(log: DeltaLog, version: Version) -> Exception:
    """Return the error that explains why no base leads to a version: not there yet, cleaned up, or a gap."""
    listing = log.listing
    if version > listing.latest:
        return not_found(log, version, "it is not there yet")
    if listing.earliest is not None and version < listing.earliest:
        return not_found(log, version, "its log has been cleaned up")
    missing = listing.gap(next(listing.bases(version)), version)
    return log.gap(version if missing is None else missing)


def not_found(log: DeltaLog, version: Version, reason: str) -> VersionNotFoundError:
    """Return the error for a version outside the readable range."""
    earliest = log.listing.earliest
    return VersionNotFoundError(
        version=version,
        path=log.storage.root,
        reason=reason,
        earliest="none" if earliest is None else earliest,
        latest=log.listing.latest,
    )


def _base_state(log: DeltaLog, base: LogCheckpoint | None, files: bool) -> _State:
    if base is None:
        return _State(-1, None, None, DeltaFiles(_no_files(), LOG))
    checkpoint = log_checkpoint.read_checkpoint(log.storage, base, files)
    if checkpoint.protocol is None or checkpoint.metadata is None:
        raise MalformedLogError(file=base.files[0], reason="the log checkpoint lacks protocol or metaData")
    check_protocol(checkpoint.protocol, log.storage.root, base.version)
    check_configuration(checkpoint.metadata.configuration, log.storage.root, base.version)
    live = checkpoint.files if files else _no_files()
    listed, twice = DeltaFiles.parted(live, base.files[0], checkpoint.late_stats)
    outcomes = {logical_file(slice_.path, slice_.hidden): slice_ for slice_ in twice}
    if len(outcomes) < len(twice):
        raise MalformedLogError(file=base.files[0], reason=f"path {twice[0].path!r} is live twice")
    return _State(base.version, checkpoint.protocol, checkpoint.metadata, listed, twice=outcomes)


def _replay(
    log: DeltaLog, state: _State, version: Version, files: bool, commits: Iterable[Actions]
) -> _State:
    """Replay the commits after a state up to a version; the newest commit decides per logical file."""
    outcomes: dict[LogicalFile, FileSlice | None] = dict(state.twice)
    protocol, metadata, blank = state.protocol, state.metadata, list(state.blank)
    for number, actions in zip(range(state.version + 1, version + 1), commits, strict=True):
        protocol, metadata = actions.protocol or protocol, actions.metadata or metadata
        if actions.unvalued and metadata is not None and metadata.partition_columns:
            reason = f"the add of {actions.unvalued!r} has no partitionValues, the table is partitioned"
            raise MalformedLogError(file=commit_name(number), reason=reason)
        if files:
            outcomes.update(actions.outcome())
        if actions.blank:
            blank.append(number)
    live = reconcile(state.files, outcomes, log.storage.root, version)
    return _State(version, protocol, metadata, live, tuple(blank))


def _check_protocol_serves(log: DeltaLog, state: _State) -> None:
    """Refuse a log that uses a feature its protocol lacks: readers would disagree about the rows."""
    metadata, protocol = _in_force(log, state)
    mode = metadata.configuration.get("delta.columnMapping.mode", "none").lower()
    named = protocol.writer_version == MAX_WRITER_VERSION
    lacking = None
    if state.files.any_hidden and "deletionVectors" not in protocol.reader_features:
        lacking = "deletion vectors"
    elif named and mode != "none" and "columnMapping" not in protocol.writer_features:
        lacking = f"column mapping by {mode}"
    if lacking is not None:
        file = f"{log.storage.root}/{LOG} at version {state.version}"
        raise MalformedLogError(file=file, reason=f"it uses {lacking}, which its protocol does not have")


def _snapshot(log: DeltaLog, state: _State) -> DeltaSnapshot:
    metadata, protocol = _in_force(log, state)
    _check_protocol_serves(log, state)
    mode = metadata.configuration.get("delta.columnMapping.mode", "none")
    file = f"{log.storage.root}/{LOG} at version {state.version}"
    columns = (metadata.schema_text, metadata.partition_columns, mode, protocol.generates_columns, file)
    schema = partial(_schema, *columns)
    return DeltaSnapshot(
        log.storage.root, state.version, 0, state.files, schema, metadata, protocol, blank_commits=state.blank
    )


def _in_force(log: DeltaLog, state: _State) -> tuple[Metadata, Protocol]:
    if state.protocol is None or state.metadata is None:
        raise MalformedLogError(
            file=f"{log.storage.root}/{LOG}", reason="no commit has protocol and metaData"
        )
    return state.metadata, state.protocol


def extend_snapshot(log: DeltaLog, before: DeltaSnapshot, version: Version) -> DeltaSnapshot:
    """Extend an earlier snapshot to a later version; the schema is shared if it means the same.

    Cost: the commits in between, and one copy of the paths.
    """
    assert isinstance(before.files, DeltaFiles)
    state = _State(before.version, before.protocol, before.metadata, before.files, before.blank_commits)
    replayed = _replay(log, state, version, True, log.commits(before.version + 1, version))
    metadata, protocol = _in_force(log, replayed)
    if metadata != before.metadata or protocol.generates_columns != before.protocol.generates_columns:
        return _snapshot(log, replayed)
    _check_protocol_serves(log, replayed)
    return replace(
        before,
        version=version,
        timestamp_ms=0,
        files=replayed.files,
        protocol=protocol,
        blank_commits=replayed.blank,
    )
