"""Check whether a data file can be read, in the way in which a task would read it."""

from __future__ import annotations

from collections.abc import Sequence

from tailbit.base.errors import HiddenRowsError, SourceError
from tailbit.index.write.posting import DataFiles
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.storage import Storage


def why_unreadable(storage: Storage, slice_: FileSlice, columns: Sequence[Column]) -> str | None:
    """Return why the footer, one of `columns` or the hidden rows cannot be read, or None if all can.

    Cost: the footer, and the values of the columns, some row groups at a time.
    """
    data = DataFiles(storage, columns)
    try:
        rows = int(data.open(slice_).metadata.num_rows)
        for column in columns:
            for _ in data.values(slice_, rows, column):
                pass
        if slice_.hidden is not None:
            slice_.hidden.read(storage)
    except HiddenRowsError as error:
        return f"data file {slice_.path}: {error}"
    except SourceError as error:
        return str(error)
    return None
