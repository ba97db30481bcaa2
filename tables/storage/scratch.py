"""A temporary file of one task, for data that does not fit in memory."""

from __future__ import annotations

import errno
import os
import weakref

import pyarrow as pa

from tailbit.base.errors import StorageError

_OF_SPARK = "SPARK_LOCAL_DIRS"
"""The environment variable with Spark's scratch folders, separated by commas, in Python workers."""


class Scratch:
    """A file without a name, made at the first write, in Spark's scratch folder or the system's.

    The system frees the file when the task is done, fails or is killed: there is nothing to remove. A disk
    that is full or refuses raises StorageError.
    """

    def __init__(self, folder: str | None = None) -> None:
        self._folder = folder or os.environ.get(_OF_SPARK, "").partition(",")[0] or None
        self._end = 0

    def append(self, data: pa.Buffer) -> tuple[int, int]:
        """Append bytes to the file; return their offset and size, which `read` takes."""
        import tempfile

        place = self._end, data.size
        try:
            if not self._end:
                self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)
                weakref.finalize(self, self._file.close)
            remaining = memoryview(data)
            while remaining:
                remaining = remaining[self._file.write(remaining) :]
        except OSError as refused:
            raise self._refusal(refused) from refused
        self._end += data.size
        return place

    def read(self, place: tuple[int, int]) -> pa.Buffer:
        """Return the bytes at an offset and size that `append` returned."""
        begin, size = place
        data, filled = memoryview(bytearray(size)), 0
        try:
            # One call reads 2 GiB at most.
            while filled < size:
                count = os.preadv(self._file.fileno(), [data[filled:]], begin + filled)
                if not count:
                    raise OSError(errno.EIO, "the temporary file is shorter than what was written")
                filled += count
        except OSError as refused:
            raise self._refusal(refused) from refused
        return pa.py_buffer(data)

    def _refusal(self, refused: OSError) -> StorageError:
        where = self._folder or "the system's folder of temporary files"
        return StorageError(path=where, reason=refused.strerror or str(refused))
