"""Lookup of the rows of a table of file records by path and by row space, in some 20 bytes a file."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Ints, Longs
from tailbit.base.once import once
from tailbit.index.model import FileRecord
from tailbit.tables import compute as pc
from tailbit.tables.arrow import filled, in_one, numpy_of

_PART = 1 << 14
"""Number of paths that are held as Python strings at a time."""


class FoundRows:
    """The rows of a table of kind `files` with one row per path, in one chunk; threads may share it."""

    def __init__(self, table: pa.Table) -> None:
        self._paths, self._spaces = in_one(table["path"]), in_one(table["space"])

    def get(self, path: str) -> int | None:
        """Return the row of a path, or None. Cost: a binary search; at first, one pass over all paths."""
        hashes, order = self._by_hash
        number = hash(path)
        for at in range(bisect_left(hashes, number), len(hashes)):
            if hashes[at] != number:
                break
            if self._paths[order[at]].as_py() == path:
                return order[at]
        return None

    def space_of(self, row: int) -> str | None:
        """Return the row space of which a row claims a range; None if it claims none."""
        space: str | None = self._spaces[row].as_py()
        return space

    def claiming(self, space: str) -> Longs:
        """Return the rows that claim a range of a row space, int64, ascending."""
        order, cuts = self._by_space
        begin, end = cuts.get(space, (0, 0))
        return order[begin:end].astype(np.int64)

    def claims(self) -> dict[str, int]:
        """Return the number of rows that claim a range of each row space."""
        return {space: end - begin for space, (begin, end) in self._by_space[1].items()}

    @once
    def _by_hash(self) -> tuple[Sequence[int], Sequence[int]]:
        """Return the hashes of the paths, ascending, and the row of each, as numbers of Python."""
        hashes = np.empty(len(self._paths), dtype=np.int64)
        for start in range(0, len(hashes), _PART):
            part = self._paths.slice(start, _PART).to_pylist()
            hashes[start : start + len(part)] = np.fromiter(map(hash, part), np.int64, len(part))
        order = np.argsort(hashes, kind="stable").astype(np.int32)
        return hashes[order].data, order.data

    @once
    def _by_space(self) -> tuple[Ints, dict[str, tuple[int, int]]]:
        """Return the rows with a claim by row space, and where each row space begins and ends among them."""
        spaces = pc.dictionary_encode(self._spaces)
        codes = numpy_of(filled(spaces.indices, -1), dtype=np.int32)
        order = np.argsort(codes, kind="stable").astype(np.int32)
        names = spaces.dictionary.to_pylist()
        cuts = np.searchsorted(codes[order], np.arange(len(names) + 1)).tolist()
        return order, dict(zip(names, pairwise(cuts), strict=True))


class NewerClaims:
    """The claims of records that replace rows of a table; a replaced row loses its claim.

    `counts`: the number of claims of each row space, claims of rows that are not replaced included.
    """

    def __init__(self, rows: FoundRows, records: Iterable[FileRecord]) -> None:
        self._rows, self.counts = rows, rows.claims()
        self._paths: dict[str, set[str]] = {}
        for record in records:
            self.note(record, None)

    def note(self, record: FileRecord, known: FileRecord | None) -> None:
        """Add the newest record of a path; `known`: the newer record that it replaces, else None."""
        path, space = record.path, record.space
        before = self._space_of_row(path) if known is None else known.space
        if before is not None:
            self._paths.get(before, set()).discard(path)
            self._count(before, -1)
        if space is not None:
            self._paths.setdefault(space, set()).add(path)
            self._count(space, 1)

    def of(self, space: str) -> set[str]:
        """Return the paths of newer records that claim a range of a row space."""
        return self._paths.get(space, set())

    def _space_of_row(self, path: str) -> str | None:
        row = self._rows.get(path)
        return None if row is None else self._rows.space_of(row)

    def _count(self, space: str, more: int) -> None:
        left = self.counts.get(space, 0) + more
        if left:
            self.counts[space] = left
        else:
            # Each small commit creates a row space and a merge empties it, so empty entries would pile up.
            del self.counts[space]
            self._paths.pop(space, None)
