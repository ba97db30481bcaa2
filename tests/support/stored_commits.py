"""What holds of commits to an index in any object store."""

from __future__ import annotations

import threading

from support.faulty_proxy import Fault, Proxy
from support.index_records import ledger, new_index
from tailbit.errors import CommitConflictError
from tailbit.index.store.table import MetadataTable
from tailbit.tables.storage import StorageOptions


def check_committed_once(proxy: Proxy, root: str, options: StorageOptions, fault: Fault) -> None:
    """A commit that meets a fault on its way to the store is there once, and the next one follows it."""
    new_index(root, options=options)
    index = MetadataTable.open(root, options=options)
    with proxy.failing(fault, 1, lambda r: r.method == "PUT" and r.path.endswith("1.json")) as met:
        index.commit([], [], ledger(0))
    index.commit([], [], ledger(1))
    assert len(met) == 1
    again = MetadataTable.open(root, options=options)
    assert (again.version, again.state.seq) == (index.version, index.state.seq) == (2, 2)


def check_one_wins(root: str, options: StorageOptions, versions: int) -> None:
    """Of two writers that commit a version at once exactly one does; so for many versions."""
    new_index(root, options=options)
    for version in range(1, 1 + versions):
        won = list[int]()
        indexes = [MetadataTable.open(root, options=options) for _ in range(2)]
        together = threading.Barrier(len(indexes))

        def commit(number: int, index: MetadataTable, start: threading.Barrier, won: list[int]) -> None:
            start.wait()
            try:
                index.commit([], [], ledger(0))
                won.append(number)
            except CommitConflictError:
                pass

        threads = [
            threading.Thread(target=commit, args=(number, index, together, won))
            for number, index in enumerate(indexes)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        assert MetadataTable.open(root, options=options).version == version
