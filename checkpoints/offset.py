"""The position of the stream in the source log, as Spark's checkpoint stores it.

A round starts with a snapshot, pinned at one version and read file by file in path order. When all its files
are read, the round continues along the log, version by version. A new round is opened if the log can no
longer be followed from the position of the index.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tailbit.base.dataclass import dataclass
from tailbit.tables.model import Fingerprint, Version, after


@dataclass(frozen=True, slots=True)
class Offset:
    """A position in the source log: files and commits before the position are read, later ones are not.

    `round`: number of the round, which is a snapshot and the log after it. `file`: while the snapshot of
    `version` is read, the number of its files already read, in path order; then None, and `version` is the
    lower bound of the versions left to read. `fp`: start of the hash of the last commit read, or of the
    snapshot's commit, to notice a log that was replaced; empty if the log no longer has that commit. Offsets
    compare by round first: a stream never goes back.
    """

    round: int
    version: Version
    file: int | None = None
    fp: str = ""

    @property
    def key(self) -> tuple[int, Version, int]:
        """Return the sort key of offsets: round, version, files read."""
        return self.round, self.version, self.file or 0

    @property
    def in_snapshot(self) -> bool:
        """Return whether the round still reads its starting snapshot."""
        return self.file is not None

    @property
    def stands_at(self) -> Version:
        """Return the version that the stream has reached: the snapshot's, or the last commit read."""
        return self.version if self.in_snapshot else self.read_through

    @property
    def read_through(self) -> Version:
        """Return the newest version that is read whole: every commit up to it is read, none after it.

        A snapshot counts as read once all its files are read.
        """
        return self.version - 1

    def after_snapshot(self) -> Offset:
        """Return the offset once every file of the pinned snapshot is read."""
        return replace(self, version=after(self.version), file=None)

    def to_json(self) -> dict[str, Any]:
        """Return the offset as Spark keeps it: fixed key order, since Spark compares the text."""
        return {"round": self.round, "version": self.version, "file": self.file, "fp": self.fp}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Offset:
        """Parse the offset that `to_json` wrote; unknown keys are ignored."""
        file = value.get("file")
        return cls(
            int(value["round"]),
            int(value["version"]),
            None if file is None else int(file),
            value.get("fp", ""),
        )


def short_fingerprint(fingerprint: Fingerprint | None) -> str:
    """Return the part of a commit's hash that an offset carries; empty if the commit is gone."""
    return "" if fingerprint is None else fingerprint.sha256[:16]


def snapshot_start(round_: int, fingerprint: Fingerprint | None, version: Version) -> Offset:
    """Return the first offset of a round that begins with the snapshot of `version`."""
    return Offset(round_, version, 0, short_fingerprint(fingerprint))


def log_start(round_: int, fingerprint: Fingerprint | None, version: Version) -> Offset:
    """Return the first offset of a round that continues after `version`, which is already covered."""
    return Offset(round_, after(version), None, short_fingerprint(fingerprint))
