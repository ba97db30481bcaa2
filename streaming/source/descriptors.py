"""The rows of the streaming source: what happened in a range of the log, never data.

A batch reads the row of its range alone, and derives what it does from the recorded state. The others are
counted by Spark: its progress events and its UI tell the input rows of a batch.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from tailbit.tables.model import Version


class Happening(Enum):
    """What a row tells."""

    RANGE = "range"
    """The batch goes from one offset to another; `note` has both as JSON. This row is always there, first."""

    VERSION = "version"
    """A version was committed; `note` is its operation."""

    ENTER = "enter"
    """A file slice came; `note` is the identity of its hidden rows, as of the two below."""

    LEAVE = "leave"
    """A file slice went."""

    HIDDEN = "hidden"
    """Other rows of a file slice are hidden than before."""


class Descriptor(NamedTuple):
    """One row; `files`, `rows` and `bytes` are those of the version or the file slice that it tells of."""

    kind: Happening
    round: int
    version: Version
    path: str = ""
    files: int = 0
    rows: int = 0
    bytes: int = 0
    note: str = ""

    def as_row(self) -> tuple[str, int, Version, str, int, int, int, str]:
        """The row as Spark takes it: a plain tuple of `DESCRIPTOR_SCHEMA`."""
        return (self.kind.value, *self[1:])


DESCRIPTOR_SCHEMA = (
    "kind string, round bigint, version bigint, path string, "
    "files bigint, rows bigint, bytes bigint, note string"
)
