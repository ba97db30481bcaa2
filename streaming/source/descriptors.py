"""The rows of the streaming source: what happened in a range of the log, never data.

A batch reads only the row of its range, and derives its work from the recorded state. The other rows are
there for Spark to count: its progress events and its UI show the input rows of a batch.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from tailbit.tables.model import Version


class Happening(Enum):
    """The kind of event that a row describes."""

    RANGE = "range"
    """The batch covers the log between two offsets; `note` has both as JSON. This row always exists, first.
    """

    VERSION = "version"
    """A version was committed; `note` is its operation."""

    ENTER = "enter"
    """A file slice became live; `note` identifies its hidden rows, as in the two kinds below."""

    LEAVE = "leave"
    """A file slice is no longer live."""

    HIDDEN = "hidden"
    """The hidden rows of a file slice changed."""


class Descriptor(NamedTuple):
    """One row; `files`, `rows` and `bytes` are those of the row's version or file slice."""

    kind: Happening
    round: int
    version: Version
    path: str = ""
    files: int = 0
    rows: int = 0
    bytes: int = 0
    note: str = ""

    def as_row(self) -> tuple[str, int, Version, str, int, int, int, str]:
        """Return the row as a plain tuple of `DESCRIPTOR_SCHEMA`, as Spark needs it."""
        return (self.kind.value, *self[1:])


DESCRIPTOR_SCHEMA = (
    "kind string, round bigint, version bigint, path string, "
    "files bigint, rows bigint, bytes bigint, note string"
)
