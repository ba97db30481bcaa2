"""Background reading of the files of an index in turn, so that damage is found before a query meets it.

A file that is missing or of another size is found at once; an altered file is found within a round through
the whole index, of which each pass reads a part.
"""

from __future__ import annotations

from bisect import bisect_right

from tailbit.base.errors import CorruptIndexError
from tailbit.index.repair.damage import why_damaged
from tailbit.index.store.table import MetadataTable

BYTES_A_PASS = 64 << 20
"""Bytes of index files that a pass reads, and at least one file."""


class Scrubber:
    """Reader of the files of one index, pass by pass; it needs an `index` object of its own.

    `last`: the file that was read last, after which the next pass goes on.

    Cost of a pass: a listing of each kind's folder, and the files that it reads. `is_through`: the last pass
    came to the end of a round through the whole index.
    """

    def __init__(self, index: MetadataTable, bytes_a_pass: int = BYTES_A_PASS, last: str = "") -> None:
        self._index, self._bytes = index, bytes_a_pass
        self.last = last
        self.is_through = False

    def look(self) -> list[CorruptIndexError]:
        """Return the damage that one pass finds in the newest version, one error per file.

        Raises:
            StorageError: the store refused.
            NoIndexError: the index has been deleted.
        """
        self._index.refresh()
        damaged = {path: reason for path, reason in self._of_sizes().items() if path in self._live_now()}
        for path in self._next():
            reason = why_damaged(self._index.storage, path, self._index.kinds)
            if reason is not None and path in self._live_now():
                damaged[path] = reason
        return [CorruptIndexError(file=path, reason=reason) for path, reason in sorted(damaged.items())]

    def _live_now(self) -> dict[str, object]:
        """Return the live files after a refresh, since files that left the index may be gone from disk."""
        self._index.refresh()
        return dict(self._index.state.files)

    def _of_sizes(self) -> dict[str, str]:
        """Return the live files that are missing or of another size than their commit says, and the reason.

        Files of a kind that this release does not know are skipped.
        """
        kinds = self._index.kinds
        live = {path: file for path, file in self._index.state.files.items() if kinds.of(path) is not None}
        sizes = {
            f"kind={kind.name}/{entry.name}": entry.size
            for kind in kinds
            for entry in self._index.storage.list(f"kind={kind.name}")
        }
        out = {}
        for path, file in live.items():
            if path not in sizes:
                out[path] = "it is missing"
            elif sizes[path] != file.size:
                out[path] = f"it has {sizes[path]} bytes, {file.size} were written"
        return out

    def _next(self) -> list[str]:
        """Return the files to read in this pass, by path."""
        files = self._index.state.files
        paths = sorted(files)
        at = bisect_right(paths, self.last) % max(1, len(paths))
        chosen: list[str] = []
        total = 0
        self.is_through = True
        for number, path in enumerate([*paths[at:], *paths[:at]]):
            total += files[path].size
            if chosen and total > self._bytes:
                self.is_through = number >= len(paths) - at
                break
            chosen.append(path)
        self.last = chosen[-1] if chosen else ""
        return chosen
