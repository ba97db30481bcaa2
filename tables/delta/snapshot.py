"""The state of a Delta table at one version: protocol, metadata, schema, live files.

Rebuilt from the newest usable log checkpoint and the commits after it, or from an earlier snapshot and the
commits since. Every commit that is read passes the protocol gate; commits older than the base are never read.
A checkpoint that cannot be read is passed over where an older base and all commits since are there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import pyarrow as pa

from tailbit.errors import CommitGapError, MalformedLogError, VersionNotFoundError
from tailbit.tables.arrow import no_rows
from tailbit.tables.delta.files import STORED, DeltaFiles
from tailbit.tables.delta.log.actions import Metadata
from tailbit.tables.delta.log.checkpoint import read_checkpoint
from tailbit.tables.delta.log.commits import DeltaLog
from tailbit.tables.delta.log.listing import LOG, LogCheckpoint, commit_name
from tailbit.tables.delta.log.protocol import (
    MAX_WRITER_VERSION,
    Protocol,
    check_configuration,
    check_protocol,
)
from tailbit.tables.delta.schema import parse_schema
from tailbit.tables.model import FileSlice, Version
from tailbit.tables.schema import Schema
from tailbit.tables.snapshot import Snapshot


@dataclass(frozen=True)
class DeltaSnapshot(Snapshot):
    """A Delta table at one version, with the metadata and protocol in force."""

    metadata: Metadata
    protocol: Protocol

    @property
    def table_id(self) -> str:
        """The metaData id: not an identity of the table (a REPLACE changes it, a RESTORE brings it back)."""
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
def _schema(text: str, partition_columns: tuple[str, ...], mode: str, file: str) -> Schema:
    return parse_schema(text, partition_columns, {"delta.columnMapping.mode": mode}, file)


@dataclass(frozen=True)
class _State:
    """A replay under way: what the base and the commits so far say; `blank`: commits without an action."""

    version: Version
    protocol: Protocol | None
    metadata: Metadata | None
    files: DeltaFiles
    blank: tuple[Version, ...] = ()


def build_snapshot(log: DeltaLog, version: Version) -> DeltaSnapshot:
    """The snapshot of a version from the log alone; its time is left 0.

    Cost: the newest checkpoint at or before the version, and the commits after it.

    Raises:
        VersionNotFoundError: the version has been cleaned up, or is not there yet.
        CommitGapError: a commit that it needs is missing.
        MalformedLogError: a commit or every usable checkpoint is damaged.
        UnsupportedFeatureError: the table demands a feature that is not understood.
    """
    return _snapshot(log, _build(log, version, files=True))


def build_metadata(log: DeltaLog, version: Version) -> Metadata:
    """The metadata of a version. Cost and errors are those of `build_snapshot`, but no file is looked at."""
    return _in_force(log, _build(log, version, files=False))[0]


def _build(log: DeltaLog, version: Version, files: bool) -> _State:
    """The state of a version; without `files` its list is empty."""
    try:
        return _from_base(log, version, files)
    except (FileNotFoundError, CommitGapError):
        # What is known of the log may be older than its last clean-up, and its newest log checkpoint.
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
        try:
            state = _base_state(log, base, files)
        except MalformedLogError as wrong:
            damaged = damaged or wrong
            continue
        return _replay(log, state, version, files)
    if damaged is not None:
        raise damaged
    raise _unreachable(log, version)


def _unreachable(log: DeltaLog, version: Version) -> Exception:
    """Why no base leads to a version: not there, cleaned up, or a hole in the log."""
    listing = log.listing
    if version > listing.latest:
        return not_found(log, version, "it is not there yet")
    if listing.earliest is not None and version < listing.earliest:
        return not_found(log, version, "its log has been cleaned up")
    missing = listing.gap(next(listing.bases(version)), version)
    return log.gap(version if missing is None else missing)


def not_found(log: DeltaLog, version: Version, reason: str) -> VersionNotFoundError:
    """The error for a version outside what can be read."""
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
    found = read_checkpoint(log.storage, base, files)
    if found.protocol is None or found.metadata is None:
        raise MalformedLogError(file=base.files[0], reason="the log checkpoint lacks protocol or metaData")
    check_protocol(found.protocol, log.storage.root, base.version)
    check_configuration(found.metadata.configuration, log.storage.root, base.version)
    live = found.files if files else _no_files()
    listed = DeltaFiles.sorted(live, base.files[0], found.late_stats)
    return _State(base.version, found.protocol, found.metadata, listed)


def _replay(log: DeltaLog, state: _State, version: Version, files: bool) -> _State:
    """Apply the commits after a state up to a version. Per path the newest commit decides."""
    changes: dict[str, FileSlice | None] = {}
    protocol, metadata, blank = state.protocol, state.metadata, list(state.blank)
    for at in range(state.version + 1, version + 1):
        actions = log.commit(at)
        protocol, metadata = actions.protocol or protocol, actions.metadata or metadata
        if actions.unvalued and metadata is not None and metadata.partition_columns:
            reason = f"the add of {actions.unvalued!r} has no partitionValues, the table is partitioned"
            raise MalformedLogError(file=commit_name(at), reason=reason)
        if files:
            changes.update(actions.outcome())
        if actions.blank:
            blank.append(at)
    return _State(version, protocol, metadata, state.files.overlaid(changes), tuple(blank))


def _check_protocol_serves(log: DeltaLog, state: _State) -> None:
    """Refuse what the log uses and its protocol does not have: readers would disagree about the rows.

    Raises:
        MalformedLogError: deletion vectors, or column mapping, without the table feature.
    """
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
    schema = partial(_schema, metadata.schema_text, metadata.partition_columns, mode, file)
    return DeltaSnapshot(
        log.storage.root,
        state.version,
        0,
        state.files,
        schema,
        metadata,
        protocol,
        blank_commits=state.blank,
    )


def _in_force(log: DeltaLog, state: _State) -> tuple[Metadata, Protocol]:
    if state.protocol is None or state.metadata is None:
        raise MalformedLogError(
            file=f"{log.storage.root}/{LOG}", reason="no commit has protocol and metaData"
        )
    return state.metadata, state.protocol


def extend_snapshot(log: DeltaLog, before: DeltaSnapshot, version: Version) -> DeltaSnapshot:
    """The snapshot of a later version from an earlier one; with the same metadata, it shares the schema.

    Cost: the commits in between, and one copy of the paths.

    Raises:
        CommitGapError: a commit in between is missing.
        MalformedLogError: a commit in between is damaged.
        UnsupportedFeatureError: a commit in between demands a feature that is not understood.
    """
    assert isinstance(before.files, DeltaFiles)
    state = _State(before.version, before.protocol, before.metadata, before.files, before.blank_commits)
    found = _replay(log, state, version, True)
    metadata, protocol = _in_force(log, found)
    if metadata != before.metadata:
        return _snapshot(log, found)
    _check_protocol_serves(log, found)
    return replace(
        before,
        version=version,
        timestamp_ms=0,
        files=found.files,
        protocol=protocol,
        blank_commits=found.blank,
    )
