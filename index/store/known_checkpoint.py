"""Replacement of an unreadable log checkpoint of the index by one of the state that this process holds."""

from __future__ import annotations

from tailbit.index.kinds.schemas import Kinds
from tailbit.index.model import IndexFile
from tailbit.index.store.state import IndexState
from tailbit.index.store.stored_log import StoredLog
from tailbit.tables.model import Version
from tailbit.tables.storage import Storage


def checkpoint_known(storage: Storage, path: str, kinds: Kinds, version: Version, state: IndexState) -> None:
    """Write a log checkpoint of a version of the index with the contents of `state`.

    It is not known any more which files were removed recently. Therefore every file in the folders that is
    not live becomes a tombstone, so that running queries can still read it. Cost: lists the folders of the
    kinds.

    Raises:
        StorageError: the store refused.
    """
    lying = (
        IndexFile(f"kind={kind.name}/{entry.name}", entry.size, 0)
        for kind in kinds
        for entry in storage.list(f"kind={kind.name}")
        if not entry.name.startswith(("_", "."))
    )
    gone = [file for file in lying if file.path not in state.files]
    log = StoredLog(storage, path, kinds.table_schema())
    log.checkpoint_of(version, state.index_id, state.seq, list(state.files.values()), gone)
