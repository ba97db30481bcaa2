"""An unfinished object: spooled in this process until it is put into the object store as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO

import pyarrow as pa

from tailbit.tables.storage.door import Unfinished

Publish = Callable[[str, IO[bytes], int], None]
"""A function that puts a file: takes the name, the file, read from its first byte, and its size in bytes."""


class Spooled(Unfinished):
    """An object written to a private file of this process until it is put."""

    def __init__(self, spool: IO[bytes], publish: Publish) -> None:
        self._spool, self._publish = spool, publish
        self.sink = pa.PythonFile(_Open(spool), mode="w")

    def written(self) -> pa.NativeFile:
        """Close the sink and return the written bytes to read back."""
        self.sink.close()
        self._spool.seek(0)
        return pa.PythonFile(_Open(self._spool), mode="r")

    def publish(self, name: str) -> None:
        """Put the object under its name."""
        size = self._spool.seek(0, 2)
        self._spool.seek(0)
        self._publish(name, self._spool, size)


class _Open:
    """A file that stays open when its user closes it."""

    closed = False

    def __init__(self, file: IO[bytes]) -> None:
        self.read, self.write, self.flush = file.read, file.write, file.flush
        self.seek, self.tell = file.seek, file.tell

    def close(self) -> None:
        """Do nothing: the file stays open."""
