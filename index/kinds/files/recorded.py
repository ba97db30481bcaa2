"""The recorded state of every file in memory: columnar for queries, by path for the indexer.

The base is one Arrow table with the newest record per path. Later records lie over it, by path, until a
caller needs the whole table. So a commit costs what it records, and a query never builds one object per file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tailbit.base.lazy import lazy
from tailbit.base.once import once
from tailbit.index.kinds.files.rows import column_sets, files_from_arrow, files_to_arrow, newest_per_path
from tailbit.index.model import FileRecord
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, arrow_scalar, filled, in_one, numpy_of
from tailbit.tables.model import FileSlice

if TYPE_CHECKING:
    from tailbit.index.kinds.files import found
else:
    found = lazy("tailbit.index.kinds.files.found")

_MANY = 256
"""At least this many newer rows are folded into the base at once instead of becoming objects."""

_SHARE = 64
"""Newer rows are folded into the base when they exceed 1/64 of its rows: amortised, a constant per record.

A row takes a quarter of the memory of an object.
"""

Claimed = list[tuple[FileSlice, FileRecord]]
"""File slices, each with the record of its file."""


def sample(files: Claimed, count: int) -> Claimed:
    """Return some `count` of the files, spread over all of them."""
    return files[:: max(1, len(files) // count)]


class RecordedFiles:
    """The newest `files` record per path.

    Invariant: every method returns what `extend` or `extend_rows` last received about a path.
    """

    def __init__(self, rows: pa.Table) -> None:
        self._base = newest_per_path(rows).combine_chunks()
        self._newer: dict[str, FileRecord] = {}
        self._claims: found.NewerClaims | None = None
        self._spent: tuple[int, set[str]] | None = None

    def __len__(self) -> int:
        return len(self._base) + sum(self._rows.get(path) is None for path in self._newer)

    def get(self, path: str) -> FileRecord | None:
        """Return the record of a path, or None if nothing was ever recorded. Cost: one lookup."""
        newer = self._newer.get(path)
        if newer is not None:
            return newer
        row = self._rows.get(path)
        return None if row is None else files_from_arrow(self._base.slice(row, 1))[0]

    def records(self) -> Iterator[FileRecord]:
        """Yield every record, in row order of the table."""
        table = self.table()
        for start in range(0, len(table), 1 << 14):
            yield from files_from_arrow(table.slice(start, 1 << 14))

    def live(self) -> Iterator[FileRecord]:
        """Yield the records of the files that are still in the source."""
        return (record for record in self.records() if record.left is None)

    def built(self, slices: Sequence[FileSlice], ids: Set[str]) -> Claimed:
        """Return the slices that have been indexed for one of some definitions, with their records."""
        records = {record.path: record for record in self.live() if not ids.isdisjoint(record.built)}
        named = ((slice_, records.get(slice_.path)) for slice_ in slices)
        return [(slice_, record) for slice_, record in named if record is not None and record.is_of(slice_)]

    def table(self) -> pa.Table:
        """Return one row per path, all columns of kind `files`, in one chunk.

        Cost: nothing if nothing was recorded since the last call, else one vectorised pass over all files.
        """
        if self._newer:
            self._fold(files_to_arrow(list(self._newer.values())))
        return self._base

    def extend(self, records: Iterable[FileRecord]) -> None:
        """Add newer records. Cost: proportional to their number, amortised."""
        for record in records:
            if self._claims is not None:
                self._claims.note(record, self._newer.get(record.path))
            self._newer[record.path] = record
        if len(self._newer) > max(_MANY, len(self._base) // _SHARE):
            self.table()

    def extend_rows(self, rows: pa.Table) -> None:
        """Add newer rows as read from files of the index; a row older than the known record is ignored."""
        if len(rows) >= _MANY:
            self.table()
            self._fold(rows)
        else:
            known = ((record, self.get(record.path)) for record in files_from_arrow(rows))
            self.extend([record for record, old in known if old is None or old.seq <= record.seq])

    def get_all(self, paths: Iterable[str]) -> list[FileRecord]:
        """Return the records of some paths, in no order, without paths never recorded. Cost: one take."""
        paths = list(paths)
        newer = [self._newer[path] for path in paths if path in self._newer]
        at = (self._rows.get(path) for path in paths if path not in self._newer)
        rows = [row for row in at if row is not None]
        return newer + files_from_arrow(self._base.take(np.array(rows, dtype=np.int64)))

    def claims(self, space: str) -> list[FileRecord]:
        """Return the records that claim a range of a row space, by base."""
        kept = files_from_arrow(self._claiming(space))
        records = [record for record in kept if record.path not in self._newer]
        records += [self._newer[path] for path in self._newer_claims().of(space)]
        return sorted(records, key=lambda record: record.base or 0)

    def claimed_rows(self, space: str) -> int:
        """Return the total rows of all claims of a row space."""
        kept = self._claiming(space).select(["path", "rows"]).to_pylist()
        total = sum(row["rows"] for row in kept if row["path"] not in self._newer)
        return int(total) + sum(self._newer[path].rows for path in self._newer_claims().of(space))

    def claim_counts(self) -> Mapping[str, int]:
        """Map row space to the number of claims, none of them 0; built on first use, then kept up to date."""
        return self._newer_claims().counts

    def _claiming(self, space: str) -> pa.Table:
        return pc.take(self._base, arrow_array(self._rows.claiming(space)))

    def _newer_claims(self) -> found.NewerClaims:
        if self._claims is None:
            self._claims = found.NewerClaims(self._rows, self._newer.values())
        return self._claims

    def identities(self) -> set[str]:
        """Return the identities of the hidden rows with which files are counted now.

        Cost: one pass over all files.
        """
        return set(pc.unique(self.table()["hidden"]).to_pylist()) - {"", None}

    def footers(self) -> pa.StringArray:
        """Return the distinct hashes of the footers of files with a claim. Cost: one pass over all files."""
        rows = self.table()
        return pc.unique(in_one(pc.filter(rows, pc.is_valid(rows["space"]))["footer"]))

    def unposted(self, columns: Iterable[str]) -> dict[str, int]:
        """Map column id to the number of live files without postings of it.

        Cost: one pass over all files.
        """
        live = pc.filter(self.table(), pc.is_null(self._base["left"]))
        claimed = pc.filter(live, pc.is_valid(live["space"]))
        bare = len(live) - len(claimed)
        codes, posted = column_sets(claimed["columns"])
        files = np.bincount(numpy_of(codes, dtype=np.int64), minlength=len(posted)).tolist()
        return {
            c: bare + sum(n for n, held in zip(files, posted, strict=True) if c not in held) for c in columns
        }

    def errors(self) -> dict[str, int]:
        """Count the live files that are not covered, per reason. Cost: one pass over all files."""
        live = pc.filter(self.table(), pc.is_null(self._base["left"]))
        counted = pc.value_counts(pc.drop_null(live["error"])).to_pylist()
        return {entry["values"]: entry["counts"] for entry in counted}

    def unread(self) -> list[str]:
        """Return the live files that could not be read when they were added.

        Cost: one pass over all files.
        """
        rows = self.table()
        left, claimed = (pc.is_valid(self._base[name]) for name in ("left", "space"))
        away = pc.or_(pc.or_(left, claimed), pc.or_(rows["counted"], pc.is_null(rows["error"])))
        return list(pc.filter(rows, pc.invert(away))["path"].to_pylist())

    def mostly_unreachable(self, earliest: int) -> set[str]:
        """Return the row spaces with half or more of their claimed rows in files removed by `earliest`.

        Cost: one pass over all files, once per `earliest`; later changes are ignored until `earliest`
        changes.
        """
        if self._spent is None or self._spent[0] != earliest:
            claimed = pc.filter(self.table(), pc.is_valid(self._base["space"]))
            spaces = pc.dictionary_encode(in_one(claimed["space"]))
            codes, rows = numpy_of(spaces.indices), numpy_of(claimed["rows"], dtype=np.float64)
            gone = numpy_of(filled(pc.less_equal(claimed["left"], arrow_scalar(earliest)), False), dtype=bool)
            lost = np.bincount(codes, rows * gone, minlength=len(spaces.dictionary))
            spent = np.flatnonzero(2 * lost >= np.bincount(codes, rows, minlength=len(spaces.dictionary)))
            self._spent = (earliest, set(pc.take(spaces.dictionary, arrow_array(spent)).to_pylist()))
        return self._spent[1]

    @once
    def _rows(self) -> found.FoundRows:
        return found.FoundRows(self._base)

    def _fold(self, rows: pa.Table) -> None:
        self._base = newest_per_path(pa.concat_tables([self._base, rows])).combine_chunks()
        self._newer, self._claims = {}, None
        self.__dict__.pop("_rows", None)
