"""Which versions can be read still: the cleaner takes files away, and a rollback takes instants back.

The oldest version of which the cleaner has deleted no file. A file that a clean lists as deleted was shown
until a later file of its group, or an instant that replaced the group, completed: no version before that
instant can be read any more. The instant that a clean names as the earliest to retain is one commit too late.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import MalformedLogError
from tailbit.tables.hudi.files import ListedFiles, check_folder, read_commit
from tailbit.tables.hudi.groups import BaseFile, FileGroup, LogFile, base_file, log_file
from tailbit.tables.hudi.instants import CHANGES, Instant, decode_metadata
from tailbit.tables.hudi.schema import READING_RULES
from tailbit.tables.hudi.snapshot import HudiSnapshot
from tailbit.tables.hudi.timeline import Timeline
from tailbit.tables.hudi.versions import Versions
from tailbit.tables.model import UNKNOWN_SIZE, Fingerprint, Version


def earliest_readable(versions: Versions, files: ListedFiles) -> Version:
    """Return the oldest version from which every version up to the head can be rebuilt.

    `files`: the data files that are there. Cost: reads the metadata of the newest cleans. An older clean
    deleted only files superseded before it completed: it is read only if it may raise the result further.
    """
    search = _Search.of(versions, files)
    earliest = versions.numbers[0]
    for file in _planned(versions.timeline):
        earliest = max(earliest, search.superseded(file, versions.head))
    before = _newest_before(versions)
    for instant in reversed(versions.timeline.completed):
        if instant.action != "clean":
            continue
        upto = before[instant.key]
        if upto is None or upto <= earliest:
            break
        metadata = versions.timeline.metadata(instant)
        if metadata is None:
            return upto
        for file in _deleted(metadata, instant, versions.timeline.storage.root):
            earliest = max(earliest, search.superseded(file, upto))
    return earliest


def is_saved(timeline: Timeline, instant: Instant, snapshot: HudiSnapshot) -> bool:
    """Return whether a savepoint keeps all files of an instant's snapshot from the cleaner."""
    saved = [i for i in timeline.active if i.action == "savepoint" and i.requested == instant.requested]
    saved_files: set[str] = set()
    for savepoint in saved:
        for folder, named in ((timeline.metadata(savepoint) or {}).get("partitionMetadata") or {}).items():
            names = (named.get("savepointDataFile") if isinstance(named, dict) else None) or ()
            saved_files |= {f"{folder}/{name}" if folder else str(name) for name in names}
    return bool(saved) and saved_files == snapshot.data_files()


def _newest_before(versions: Versions) -> dict[tuple[str, str], Version | None]:
    """Return, for each clean, the newest version that completed before the clean; None if there was none."""
    numbers = {i.key: number for number, i in zip(versions.numbers, versions.instants, strict=True)}
    newest: Version | None = None
    out: dict[tuple[str, str], Version | None] = {}
    for instant in versions.timeline.completed:
        newest = numbers.get(instant.key, newest)
        if instant.action == "clean":
            out[instant.key] = newest
    return out


@dataclass
class _Search:
    """A search for the version that superseded a file: by a later file of the group, or by a replacement."""

    versions: Versions
    groups: dict[FileGroup, set[str]]
    """The requested times of the base files of each group, both of existing and of deleted ones."""
    present: frozenset[str]
    _replacements: Mapping[FileGroup, Version] | None = None

    @classmethod
    def of(cls, versions: Versions, files: ListedFiles) -> _Search:
        """Return a search that knows the files that are there."""
        groups: dict[FileGroup, set[str]] = defaultdict(set)
        present = set()
        for file in files.bases:
            groups[file.group].add(file.requested)
            present.add(file.path)
        present.update(log.path for log in files.logs)
        return cls(versions, groups, frozenset(present))

    def superseded(self, file: BaseFile | LogFile, upto: Version) -> Version:
        """Return the first version that no longer showed a deleted file; 0 if no version ever showed it.

        `upto`: the newest version before the deletion; returned if nothing tells what superseded the file.
        """
        version_of = self.versions.requested
        written = file.instant if isinstance(file, LogFile) else file.requested
        if isinstance(file, BaseFile):
            self.groups[file.group].add(file.requested)
        if file.path in self.present or not self.versions.is_complete(written, upto):
            return 0
        later = [version_of[r] for r in self.groups[file.group] if r in version_of and self._ends(file, r)]
        replaced = self._replaced().get(file.group)
        ends = later if replaced is None else [*later, replaced]
        return max(min(ends, default=upto), version_of.get(written, 0))

    def _ends(self, file: BaseFile | LogFile, requested: str) -> bool:
        """Return whether the base file of a completed instant is shown in place of a file."""
        if isinstance(file, LogFile):
            return not self.versions.follows_base(file, requested)
        return requested > file.requested

    def _replaced(self) -> Mapping[FileGroup, Version]:
        """Return, by file group, the first version that replaced the group."""
        if self._replacements is None:
            replaced: dict[FileGroup, Version] = {}
            for number, instant in zip(self.versions.numbers, self.versions.instants, strict=True):
                if instant.action == "replacecommit":
                    for group in read_commit(self.versions.timeline, instant).replaced:
                        replaced.setdefault(group, number)
            self._replacements = replaced
        return self._replacements


def _planned(timeline: Timeline) -> Iterator[BaseFile | LogFile]:
    """Yield the data files that pending cleans plan to delete, whether the cleaner works or died."""
    folder, root = timeline.properties.active, timeline.storage.root
    for requested in sorted(timeline.deleting):
        name = f"{folder}/{requested}.clean.requested"
        with suppress(FileNotFoundError):
            plan = timeline.storage.read(name)
            paths = decode_metadata(plan, name).get("filePathsToBeDeletedPerPartition") if plan else None
            for partition, files in (paths or {}).items():
                check_folder(partition, root, name)
                listed = (str(file.get("filePath")).rpartition("/")[2] for file in files or ())
                data_files = (_data_file(partition, own) for own in listed)
                yield from (file for file in data_files if file is not None)


def _data_file(folder: str, name: str) -> BaseFile | LogFile | None:
    return base_file(folder, name, UNKNOWN_SIZE) or log_file(folder, name)


def _deleted(metadata: Mapping[str, Any], instant: Instant, root: str) -> Iterator[BaseFile | LogFile]:
    """Yield the data files that a clean deleted; older releases of Hudi name them by their full paths."""
    folders = metadata.get("partitionMetadata") or {}
    if not isinstance(folders, dict):
        raise MalformedLogError(file=instant.file, reason="partitionMetadata is no map")
    for folder, cleaned in folders.items():
        check_folder(folder, root, instant.file)
        names = cleaned.get("deletePathPatterns") if isinstance(cleaned, dict) else None
        for name in names or ():
            if not isinstance(name, str):
                raise MalformedLogError(file=instant.file, reason=f"it deleted a file named {name!r}")
            file = _data_file(folder, name.rpartition("/")[2])
            if file is not None:
                yield file


_UNDOES = ("rollback", "restore")
_LINEAGE = 10
"""Number of earlier versions that a fingerprint covers, to notice one that completes in the past."""
_HALF = 32
"""Hexadecimal digits of each half of a fingerprint: the hash of requested times, and the hash of contents."""


def why_missing(timeline: Timeline, name: str) -> str:
    """Return why a timeline has no version named `name`, the requested time of an instant.

    Cost: the metadata of the rollbacks and restores.
    """
    if name in timeline.pending:
        return "the instant has not completed"
    other = next((i.action for i in timeline.completed if i.requested == name), None)
    if other is not None and other not in CHANGES:
        return f"a {other} changes no rows: name the commit before it"
    for instant in reversed(timeline.completed):
        if name in _undone(timeline, instant):
            return f"the {instant.action} {instant.requested} took it back"
    return "there is no such instant"


def _undone(timeline: Timeline, instant: Instant) -> set[str]:
    """Return the requested times of the instants that an instant rolled back; empty for other actions."""
    if instant.action not in _UNDOES:
        return set()
    metadata = timeline.metadata(instant) or {}
    undone = metadata.get("commitsRollback") or metadata.get("instantsToRollback") or ()
    return {str(entry.get("commitTime") if isinstance(entry, dict) else entry) for entry in undone}


def lineage(versions: Versions, index: int) -> tuple[tuple[str, str], ...]:
    """Return the keys of a version's instant and of up to ten instants before it, in order."""
    return tuple(instant.key for instant in versions.instants[max(0, index - _LINEAGE) : index + 1])


def digest_of(versions: Versions, index: int, content: bytes) -> str:
    """Return the hash of a version: of the requested times up to it, and of its content and instant keys.

    The second hash is also of the rules by which data files are read: an index built by others checks them.
    """
    digest = hashlib.sha256(f"{READING_RULES}".encode() + content)
    for key in lineage(versions, index):
        digest.update(repr(key).encode())
    return (
        _hash_of_requests(requested for requested, _ in lineage(versions, index)) + digest.hexdigest()[:_HALF]
    )


def _hash_of_requests(requests: Iterable[str]) -> str:
    return hashlib.sha256(repr(tuple(requests)).encode()).hexdigest()[:_HALF]


def is_taken_back(versions: Versions, fingerprint: Fingerprint) -> bool:
    """Return whether later instants rolled back a version, while all versions before it are as they were.

    The bytes of the instant are gone. Its fingerprint proves which requested times led to it, and the
    metadata of the rollbacks name those that are gone. Every file that the table still shows is then the same
    as before, since names of files hold their instants. In table version 6 the names of log files do not, so
    a MERGE_ON_READ table of that version proves nothing.

    Cost: reads the metadata of the later rollbacks and restores.
    """
    properties = versions.timeline.properties
    unproven = properties.is_merged and not properties.has_completion_times
    if versions.place(fingerprint.version) is not None or unproven:
        return False
    index = bisect_left(versions.numbers, fingerprint.version)
    undone: set[str] = set()
    for instant in versions.instants[index:]:
        undone |= _undone(versions.timeline, instant)
    earlier = [instant.requested for instant in versions.instants[max(0, index - _LINEAGE) : index]]
    return fingerprint.sha256[:_HALF] in map(_hash_of_requests, _histories(earlier, sorted(undone)))


def _histories(earlier: Sequence[str], undone: Sequence[str]) -> Iterable[Sequence[str]]:
    """Yield the requested times that may have led to each rolled back instant, up to and including it."""
    for place, request in enumerate(undone):
        for before in ([], undone[:place]):
            yield [*earlier, *before, request][-(_LINEAGE + 1) :]
