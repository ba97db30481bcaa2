"""What a predicate selects, bound to one version of the table: count, facets, positions, files, rows.

Input: a bound predicate and a `Coverage`. Every method first evaluates the bitmaps of the covered row spaces,
then rechecks on the data the rows that the index leaves open, and scans the uncovered files with the same
semantics.

Guarantee (right at any lag): for every readable version of the source, every predicate, and every state of
the index, the answer equals what Spark SQL returns on the table at that version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.errors import CorruptIndexError, UsageError
from tailbit.index.predicate.file_truth import FileTruths
from tailbit.index.predicate.tree import Node
from tailbit.index.query.coverage import Coverage, note
from tailbit.index.query.evaluate import Bounds, count_true, evaluate
from tailbit.index.query.facets import facet_counts
from tailbit.index.query.row_space import SpaceView
from tailbit.index.query.scan import scan
from tailbit.index.store.table import IndexTable
from tailbit.tables.delta.schema import Schema
from tailbit.tables.delta.snapshot import Snapshot
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.parquet.rows import Positions, fetch, visible_positions
from tailbit.tables.storage import Storage


@dataclass(frozen=True)
class FileHits:
    """The matching positions of one file and how they were found.

    `source`: `index` (bitmaps alone), `recheck` (bitmaps, then some rows read), `scan` (uncovered file read),
    `pruned` (excluded or accepted whole by partition values or statistics, without reading).
    """

    number: int
    positions: Positions
    source: str


@dataclass(frozen=True)
class RecordedCounts:
    """The value counts of an index, good as long as it stands where it stood: they are of one version only.

    `stand`: identity and number of the last change of the index; one built anew has another identity.
    """

    index: IndexTable
    stand: tuple[str, int]

    @classmethod
    def now(cls, index: IndexTable) -> RecordedCounts:
        """Those of an index as it stands now."""
        return cls(index, (index.index_id, index.seq))

    def of(self, column_id: str, key_type: str) -> tuple[pa.BinaryArray, npt.NDArray[np.int64]] | None:
        """Keys and visible rows of an indexed column; None where the index has moved on or lacks it.

        Raises:
            CorruptIndexError: a file of counts does not check.
            ColumnTypeError: counts of a type that does not widen to the column's.
        """
        with self.index.lock:
            settings, stand = self.index.settings, (self.index.index_id, self.index.seq)
            if stand != self.stand or column_id not in {c.id for c in settings.columns}:
                return None
            return self.index.value_counts(column_id, key_type)


@dataclass
class Selection:
    """The rows of one version of a table where a predicate is TRUE; nothing is computed unasked.

    `version`: the source version answered for. `covered_version`: the last version the index holds as a
    whole, or None. Both stay fixed while table and index move on. `counted`: the value counts, where they are
    those of just this version. `files_scanned`: files whose data had to be read to find the rows. `damages`:
    what of the index could not be read for this answer. `partition_zone`: the zone of times that partition
    values give without one.

    Threads may share an answer: each gets the same; at worst something is computed twice.
    """

    text: str | None
    node: Node
    coverage: Coverage
    storage: Storage
    covered_version: int | None
    counted: RecordedCounts | None = None
    files_scanned: int = 0
    damages: list[CorruptIndexError] = field(default_factory=list)
    partition_zone: str = "UTC"

    @property
    def damaged(self) -> list[CorruptIndexError]:
        """Files of the index found damaged so far; the data was read instead, so the answer is right."""
        out: list[CorruptIndexError] = []
        for damage in (*self.coverage.damaged, *self.damages):
            note(out, damage)
        return out

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot answered from."""
        return self.coverage.snapshot

    @property
    def version(self) -> int:
        """The source version answered for."""
        return self.snapshot.version

    @property
    def schema(self) -> Schema:
        """The table's schema at that version."""
        return self.snapshot.schema_in(self.partition_zone)

    @cached_property
    def bounds(self) -> list[tuple[SpaceView, Bounds]]:
        """Bounds per row space; a row space with a damaged segment is left to the scan of its files."""
        out = []
        for space in self.coverage.spaces:
            try:
                out.append((space, evaluate(self.node, space)))
            except CorruptIndexError as damage:
                note(self.damages, damage)
        return out

    @cached_property
    def _to_scan(self) -> list[int]:
        """Row numbers (in the snapshot) of the files that no bitmap serves."""
        served = {id(space) for space, _ in self.bounds}
        lost = [s.files for s in self.coverage.spaces if id(s) not in served]
        return [int(n) for part in (self.coverage.uncovered, *lost) for n in part.tolist()]

    @cached_property
    def read_hits(self) -> list[FileHits]:
        """Hits that had to be found by reading data: rechecked rows and uncovered files."""
        hits = [h for space, bounds in self.bounds if not bounds.exact for h in self._recheck(space, bounds)]
        numbers = self._to_scan
        truths = self._truths(numbers)
        hits += [self._scanned(number, truths, order) for order, number in enumerate(numbers)]
        self.files_scanned = len({h.number for h in hits if h.source != "pruned"})
        return hits

    def _truths(self, numbers: Sequence[int]) -> FileTruths:
        """What the log says of the predicate in some files, by their row numbers in the snapshot."""
        return FileTruths(self.node, [self.snapshot.files[number] for number in numbers])

    def _recheck(self, space: SpaceView, bounds: Bounds) -> Iterator[FileHits]:
        left = space.split(bounds.maybe - bounds.sure)
        truths = self._truths([number for number, _ in left])
        for order, (number, among) in enumerate(left):
            if not truths.can_match[order]:
                continue
            at = scan(self.storage, truths.pieces[order], truths.narrowed(order), None, among)
            yield FileHits(number, at, "recheck")

    def _scanned(self, number: int, truths: FileTruths, order: int) -> FileHits:
        piece = truths.pieces[order]
        if not truths.can_match[order]:
            return FileHits(number, np.zeros(0, np.uint64), "pruned")
        hidden = self.coverage.hidden_of(number)
        if truths.all_rows[order] and piece.rows is not None:
            return FileHits(number, visible_positions(piece.rows, hidden), "pruned")
        return FileHits(number, scan(self.storage, piece, truths.narrowed(order), hidden), "scan")

    def count(self) -> int:
        """Number of rows where the predicate is TRUE.

        Cost: the postings of the keys touched; plus the rows that must be rechecked and the uncovered files.
        """
        quick = self._counted_by_postings()
        if quick is not None:
            return quick
        sure = sum(len(bounds.sure) for _, bounds in self.bounds)
        return sure + sum(len(h.positions) for h in self.read_hits)

    def _counted_by_postings(self) -> int | None:
        """The count where no file has to be read and no bounds are known yet; None otherwise."""
        if "bounds" in self.__dict__ or len(self.coverage.uncovered):
            return None
        total = 0
        for space in self.coverage.spaces:
            try:
                found = count_true(self.node, space)
            except CorruptIndexError:
                return None
            if found is None:
                return None
            total += found
        return total

    def hits(self) -> list[FileHits]:
        """Matching positions per file, ascending, in path order; files without a match are left out."""
        merged: dict[int, FileHits] = {}
        for space, bounds in self.bounds:
            for number, at in space.split(bounds.sure):
                merged[number] = FileHits(number, at, "index")
        for hit in self.read_hits:
            if len(hit.positions):
                known = merged.get(hit.number)
                at = hit.positions if known is None else np.union1d(known.positions, hit.positions)
                merged[hit.number] = FileHits(hit.number, at, hit.source)
        return [merged[n] for n in sorted(merged)]

    def positions(self) -> dict[str, Positions]:
        """Path (as the log names it, decoded) to ascending 0-based physical row positions, uint64."""
        return {self._piece(h).path: h.positions for h in self.hits()}

    def files(self) -> list[str]:
        """Paths of the files that hold at least one matching row, in path order."""
        return [self._piece(h).path for h in self.hits()]

    def _piece(self, hit: FileHits) -> FileSlice:
        piece: FileSlice = self.snapshot.files[hit.number]
        return piece

    def facets(self, column: str) -> dict[Any, int]:
        """Matching rows per value of a column, the most frequent first; None stands for NULL.

        Served from the recorded value counts when all rows are asked for at the covered version, from the
        postings for covered files otherwise, and from the data for the rest.
        """
        return facet_counts(self, self.schema.resolve(column))

    def read(self, columns: Sequence[str] | None = None, limit: int | None = None) -> pa.Table:
        """The matching rows, in the order of path and position, in the table's logical schema.

        `columns`: names, nested ones as "address.city"; each is given once, in the order of first mention.
        No two have one name in the table: where a field s.a and a column named "s.a" are both read, that
        column is named "`s.a`", in backticks, as one asks for it.

        Raises:
            UnknownColumnError: no such column.
            UsageError: `limit` is below zero, or no column is named, or the table has none.
            DataFileError: a data file is gone or is not Parquet.
        """
        schema, tables = self.stream(columns, limit)
        return pa.concat_tables(list(tables) or [schema.empty_table()])

    def stream(
        self, columns: Sequence[str] | None = None, limit: int | None = None
    ) -> tuple[pa.Schema, Iterator[pa.Table]]:
        """The schema and the rows of `read`, a table per row group. Memory: a row group and all positions."""
        if limit is not None and limit < 0:
            raise UsageError(reason=f"limit {limit} is below zero", hint="Give a limit of 0 or more.")
        wanted = list(self.schema.columns)
        if columns is not None:
            wanted = list({c.id: c for c in map(self.schema.resolve, columns)}.values())
        if not wanted and columns is None:
            hint = "Ask for the count or the positions, or for a version that has columns."
            raise UsageError(reason=f"the table has no columns at version {self.snapshot.version}", hint=hint)
        if not wanted:
            raise UsageError(reason="no columns are named", hint="Name one, or give none for all.")
        schema = pa.schema([field.with_nullable(True) for field in self.schema.arrow(wanted)])
        return schema, (t.rename_columns(schema.names).cast(schema) for t in self._rows(wanted, limit))

    def _rows(self, columns: Sequence[Column], limit: int | None) -> Iterator[pa.Table]:
        """Matching rows per row group, columns named by id."""
        if limit == 0:
            return
        left = limit
        for hit in self.hits():
            at = hit.positions if left is None else hit.positions[:left]
            yield from fetch(self.storage, self._piece(hit), columns, at)
            left = None if left is None else left - len(at)
            if left == 0:
                return

    def explain(self) -> Mapping[str, Any]:
        """Per file: covered or not, kept or pruned and by what, rows; segments and bytes touched."""
        from tailbit.index.query.explain import explain

        return explain(self)
