"""The oldest version of which the cleaner has deleted no file.

A file that a clean lists as deleted was shown until a later file of its group, or an instant that replaced
the group, completed: no version before that instant can be read any more. The instant that a clean names as
the earliest to retain is one commit too late.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import MalformedLogError
from tailbit.tables.hudi.commits import read_commit
from tailbit.tables.hudi.files import ListedFiles, check_folder
from tailbit.tables.hudi.groups import BaseFile, FileGroup, LogFile, base_file, log_file
from tailbit.tables.hudi.log.instants import Instant
from tailbit.tables.hudi.log.metadata import decode_metadata
from tailbit.tables.hudi.log.timeline import Timeline
from tailbit.tables.hudi.snapshot import HudiSnapshot
from tailbit.tables.hudi.versions import Versions
from tailbit.tables.model import UNKNOWN_SIZE, Version


def earliest_readable(versions: Versions, files: ListedFiles) -> Version:
    """Return the oldest version from which every version up to the head can be rebuilt.

    `files`: the data files that are there. Cost: reads the metadata of the newest cleans. An older clean
    deleted only files superseded before it completed: it is read only if it may raise the result further.

    Raises:
        FileNotFoundError: a clean has been archived since the timeline was read.
        MalformedLogError: the metadata of a clean are damaged.
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
    """Return whether a savepoint keeps all files of an instant's snapshot from the cleaner.

    Raises:
        FileNotFoundError: the savepoint has been deleted since the timeline was read.
        MalformedLogError: the metadata of the savepoint are damaged.
    """
    saved = [i for i in timeline.active if i.action == "savepoint" and i.requested == instant.requested]
    kept: set[str] = set()
    for savepoint in saved:
        for folder, named in ((timeline.metadata(savepoint) or {}).get("partitionMetadata") or {}).items():
            names = (named.get("savepointDataFile") if isinstance(named, dict) else None) or ()
            kept |= {f"{folder}/{name}" if folder else str(name) for name in names}
    return bool(saved) and kept == snapshot.data_files()


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
        known = self.versions.requested
        written = file.instant if isinstance(file, LogFile) else file.requested
        if isinstance(file, BaseFile):
            self.groups[file.group].add(file.requested)
        if file.path in self.present or not self.versions.is_complete(written, upto):
            return 0
        later = [known[r] for r in self.groups[file.group] if r in known and self._ends(file, r)]
        replaced = self._replaced().get(file.group)
        ends = later if replaced is None else [*later, replaced]
        return max(min(ends, default=upto), known.get(written, 0))

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
            for part, files in (paths or {}).items():
                check_folder(part, root, name)
                listed = (str(file.get("filePath")).rpartition("/")[2] for file in files or ())
                data_files = (_data_file(part, own) for own in listed)
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
