"""The state of an index beside its table: columns, covered version, head, lag, segments, sizes."""

from __future__ import annotations

from typing import Any

from tailbit.api import open_indexed
from tailbit.checkpoints.heartbeat import read_heartbeat
from tailbit.checkpoints.lag import Backlog
from tailbit.errors import NoIndexError
from tailbit.tables.storage import Storage


def status_of(path: str, index: str | None = None) -> dict[str, Any]:
    """A JSON-able account of an index.

    `state`: `empty` (nothing recorded yet), `building` (the first snapshot is being read), `complete`, or
    `other history` (the source log is not the one that was indexed; questions scan until the indexer has
    caught up). `lag`: versions, files and bytes in the log that are not covered, and seconds since the oldest
    of them.

    Raises:
        NoIndexError: there is no index.
    """
    opened = open_indexed(path, index)
    if opened.index is None:
        raise NoIndexError(path=opened.index_path)
    found, ledger = opened.index, opened.index.ledger
    head = opened.table.head()
    reached = -1 if ledger is None or not opened.trusted() else ledger.version
    lag = Backlog(opened.table).lag(reached, head)
    sizes = found.statistics()
    beat = read_heartbeat(Storage(found.path))
    return {
        "table": opened.table.root,
        "index": opened.index_path,
        "columns": [column.label for column in found.settings.columns],
        "state": "empty" if ledger is None else ledger.state if opened.trusted() else "other history",
        "covered_version": None if ledger is None else ledger.covered,
        "head": head,
        "lag": {
            "versions": lag.versions,
            "files": lag.files,
            "bytes": lag.bytes,
            "seconds": round(lag.seconds, 1),
        },
        "round": None if ledger is None else ledger.round,
        "uncounted_files": 0 if ledger is None else ledger.uncounted,
        "row_spaces": sizes.spaces,
        "segments": sizes.segments,
        "index_version": sizes.version,
        "index_bytes": dict(sizes.bytes),
        "indexer": None if beat is None else beat.owner,
    }
