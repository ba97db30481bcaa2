"""An answer as a Delta table that copies no data: it names the source's files and hides rows by vectors.

The view is a Delta table of its own beside the source: later commits to either table do not show in the
other. The view can be read for as long as the source keeps the data files of the answer's version: VACUUM of
the source deletes the files that its newer versions no longer name, by default after a week, and a reader of
the view then fails. VACUUM of the view deletes no file of the source.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

from tailbit.base.errors import DataFileError, UsageError, ViewExistsError
from tailbit.base.system import check_system
from tailbit.index.query.selection import Selection
from tailbit.tables.delta.view import ShownFile, view_log, view_table
from tailbit.tables.storage import Storage, open_storage

FIRST_COMMIT = f"_delta_log/{0:020d}.json"


def write_view(selection: Selection, target: str) -> str:
    """Write the view and return its absolute path.

    Cost: finding the positions, and one file of bitmaps. A failed write leaves no file behind.

    Raises:
        ViewExistsError: there is something at `target`.
        UsageError: the source cannot be named from outside, `target` lies in it, or readers of Delta cannot
            read the rows from its files: some lie in log blocks, or a file stores a column by another type.
        DataFileError: a data file of the answer is gone.
    """
    check_system()
    snapshot, storage = selection.snapshot, open_storage(target)
    if selection.storage.uri is None:
        hint = "Write the rows instead: `read` gives them as Arrow."
        raise UsageError(reason=f"no table can be written over the files of {snapshot.root}", hint=hint)
    if f"{_real(storage)}/".startswith(f"{_real(selection.storage)}/"):
        hint = "Give a path outside of the table: a source table is never written to."
        raise UsageError(reason=f"the view {target} would lie in the table {snapshot.root}", hint=hint)
    if storage.exists("") or storage.contents() is None:
        raise ViewExistsError(path=storage.root)
    shown = list(shown_files(selection))
    slices = [file.slice_ for file in shown]
    table = view_table(snapshot, selection.schema, selection.storage, slices)
    log, vectors = view_log(table, selection.schema, selection.storage, shown)
    _write(storage, vectors.name, bytes(vectors.data), log)
    return storage.root


def _real(storage: Storage) -> str:
    """Return the real path of a root, with symbolic links resolved."""
    return os.path.realpath(storage.root) if os.path.isabs(storage.root) else storage.root


def shown_files(selection: Selection) -> Iterator[ShownFile]:
    """Yield the data files of an answer, each with the rows that the view shows."""
    hits, storage = selection.hits(), selection.storage
    slices = []
    for hit in hits:
        located = storage.locate(hit.slice_.path)[1]
        if located is None:
            raise DataFileError(file=hit.slice_.path, reason="the file is missing")
        slices.append(replace(hit.slice_, size=located.size))
    for slice_, hit, rows in zip(slices, hits, selection.physical_rows(hits), strict=True):
        yield ShownFile(slice_, rows, hit.positions)


def _write(storage: Storage, vectors: str, data: bytes, log: bytes) -> None:
    """Write the deletion vectors before the commit: the view exists as soon as its commit does."""
    storage.make_root()
    storage.put_if_absent(vectors, data)
    try:
        storage.put_if_absent(FIRST_COMMIT, log)
    except BaseException as failed:
        storage.delete(vectors)
        if isinstance(failed, FileExistsError):
            raise ViewExistsError(path=storage.root) from None
        raise
