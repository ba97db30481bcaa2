"""Where a predicate is TRUE in one version of a table: per data file, the matching positions.

Input: a bound predicate and a `Coverage`. A selection first evaluates the bitmaps of the covered row spaces,
then reads the data of the rows that the index leaves open, and scans the uncovered files with the same
semantics. Counts, facets, rows, explanations and outputs to other tools are computed from a selection.

Right at any lag. For every readable version of the table, every predicate and every state of the index
(absent, half built, behind, complete), the answer is what Spark SQL returns at that version.

Other tools get, per file, the slice and the positions, and for all files together the schema and version.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.arrays import Longs
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import CorruptIndexError
from tailbit.base.lazy import lazy
from tailbit.base.once import once
from tailbit.index.evaluation.access import SpaceQuestion, count_true
from tailbit.index.evaluation.row_space import Bounds, SpaceView
from tailbit.index.predicate.tree import Node
from tailbit.index.query.coverage import Coverage, Damages
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, numpy_of
from tailbit.tables.model import FileSlice, Version
from tailbit.tables.schema import Schema
from tailbit.tables.snapshot import Snapshot
from tailbit.tables.storage import Storage

if TYPE_CHECKING:
    from tailbit.index.evaluation import side_by_side
    from tailbit.index.predicate import pruning
    from tailbit.index.query.scan import Scan
    from tailbit.tables.parquet.rows import Positions
else:
    pruning = lazy("tailbit.index.predicate.pruning")
    side_by_side = lazy("tailbit.index.evaluation.side_by_side")


def _nothing(_: SpaceQuestion) -> int:
    """Return 0: counting reads little of each row space."""
    return 0


class HitSource(enum.Enum):
    """The source by which the matching positions of a file are determined."""

    INDEX = "index"
    """Only bitmaps were read."""

    RECHECK = "recheck"
    """The bitmaps, and the data of the rows that the bitmaps left open."""

    SCAN = "scan"
    """The data of a file that the index does not cover."""

    PRUNED = "pruned"
    """The log: by partition values every row matches, or by partition values or statistics no row does.

    No values were read. If every row matches, the number of rows was read from the footer.
    """

    @property
    def read(self) -> bool:
        """Return whether data of the file was read."""
        return self in (HitSource.RECHECK, HitSource.SCAN)


class FileHits(NamedTuple):
    """The matching positions of one file (ascending, physical, 0-based, uint64) and their source."""

    slice_: FileSlice
    positions: Positions
    source: HitSource


@dataclass(frozen=True, eq=False)
class Selection:
    """The rows of one version of a table where a predicate is TRUE, computed on demand.

    `schema`: the schema of the table at that version. `damages`: index files that could not be read for this
    selection. `by_file`: the predicate, extended by the conditions on generated columns that it implies.

    Invariant: a selection does not change while table and index move on. Threads may share it: a value that
    two threads compute is the same.
    """

    node: Node
    coverage: Coverage
    storage: Storage
    schema: Schema
    damages: Damages = field(default_factory=Damages)
    by_file: Node | None = None

    @property
    def pruning(self) -> Node:
        """Return the predicate by which files are pruned; it is TRUE for the same rows as `node`."""
        return self.by_file or self.node

    @property
    def snapshot(self) -> Snapshot:
        """Return the snapshot of the answer."""
        return self.coverage.snapshot

    @property
    def version(self) -> Version:
        """Return the source version of the answer."""
        return self.snapshot.version

    @property
    def damaged(self) -> list[CorruptIndexError]:
        """Return the index files found damaged so far; the data was read instead, so the answer is right."""
        return list(Damages(*self.coverage.damages, *self.damages))

    @once
    def _questions(self) -> Sequence[SpaceQuestion]:
        """Return, per covered row space, the predicate with that row space."""
        return [SpaceQuestion(self.node, space) for space in self.coverage.spaces]

    @once
    def bounds(self) -> Sequence[tuple[SpaceView, Bounds]]:
        """Evaluate the bounds per row space; a row space with a damaged segment is left out and scanned."""
        bounds_of_spaces = side_by_side.each_space(
            self._questions,
            attrgetter("bounds"),
            lambda question: side_by_side.unread_by(question.node, question.space),
            self.coverage.spaces,
        )
        out = []
        for question, bounds in zip(self._questions, bounds_of_spaces, strict=True):
            if isinstance(bounds, CorruptIndexError):
                self.damages.note(bounds)
            else:
                out.append((question.space, bounds))
        return tuple(out)

    @once
    def to_scan(self) -> list[int]:
        """Return the numbers (in the snapshot) of uncovered files and of files in damaged row spaces."""
        served = {id(space) for space, _ in self.bounds}
        lost = [s.files for s in self.coverage.spaces if id(s) not in served]
        return [int(n) for files in (self.coverage.uncovered, *lost) for n in files.tolist()]

    @once
    def _hits_and_scans(self) -> tuple[list[FileHits], list[Scan], list[HitSource]]:
        """Return the hits known from the source log alone, the scans of other files, and the source per scan.

        From the log, partition values or statistics prove that all or no rows of a file match.
        """
        served = {id(space) for space, bounds in self.bounds if not bounds.exact}
        inexact = [question for question in self._questions if id(question.space) in served]
        if not inexact and not self.to_scan:
            return [], [], []
        scans = [search for question in inexact for search in self._rechecks(question)]
        hits, uncovered = self._known_and_uncovered()
        sources = [HitSource.RECHECK] * len(scans) + [HitSource.SCAN] * len(uncovered)
        return hits, scans + uncovered, sources

    @once
    def read_hits(self) -> Sequence[FileHits]:
        """Return the hits that need data to be read: rechecked rows and uncovered files."""
        hits, scans, sources = self._hits_and_scans
        if not scans:
            return tuple(hits)
        from tailbit.index.query.scan import scan

        scanned = zip(scans, scan(self.storage, scans), sources, strict=True)
        return *hits, *(FileHits(search.slice_, positions, source) for search, positions, source in scanned)

    @once
    def _counted_in_data(self) -> int:
        """Count the rows of the read hits. Cost: less than finding these rows, unless they are known."""
        if "read_hits" in self.__dict__:
            return sum(len(hit.positions) for hit in self.read_hits)
        hits, scans, _ = self._hits_and_scans
        total = sum(len(hit.positions) for hit in hits)
        if scans:
            from tailbit.index.query.scan import count

            total += count(self.storage, scans)
        return total

    def _rechecks(self, question: SpaceQuestion) -> Iterator[Scan]:
        """Yield scans of the rows that bitmaps of a row space leave open, for what these do not decide."""
        from tailbit.index.query.scan import Scan

        node, space, bounds = question.open_condition(), question.space, question.bounds
        whole, rest = space.split_whole(bounds.maybe - bounds.sure)
        scans = [Scan(self.snapshot.files[n], node, self.coverage.hidden_of(n)) for n in whole]
        scans += [Scan(slice_, node, None, among) for slice_, among in self.by_slice(space, rest)]
        truths = pruning.FileTruths(self.pruning, [search.slice_ for search in scans])
        for order, search in enumerate(scans):
            if truths.can_match[order]:
                yield search if node is not self.node else replace(search, node=truths.narrowed(order))

    def _known_and_uncovered(self) -> tuple[list[FileHits], list[Scan]]:
        """Divide the files that no bitmap serves into hits that the log proves, and scans."""
        from tailbit.index.query.scan import Scan
        from tailbit.tables.parquet.rows import row_counts, visible_positions

        hits, scans, whole = list[FileHits](), list[Scan](), list[tuple[FileSlice, BitMap | None]]()
        numbers = self.to_scan
        truths = pruning.FileTruths(self.pruning, self.snapshot.files.at(numbers))
        for order, number in enumerate(numbers):
            slice_ = truths.slices[order].of_any_size()
            if not truths.can_match[order]:
                hits.append(FileHits(slice_, np.zeros(0, np.uint64), HitSource.PRUNED))
                continue
            hidden = self.coverage.hidden_of(number)
            if truths.all_rows[order]:
                whole.append((truths.slices[order], hidden))
            else:
                scans.append(Scan(slice_, truths.narrowed(order), hidden))
        counts = row_counts(self.storage, [slice_ for slice_, _ in whole])
        for (slice_, hidden), rows in zip(whole, counts, strict=True):
            positions = visible_positions(rows, hidden)
            hits.append(FileHits(slice_.of_any_size(), positions, HitSource.PRUNED))
        return hits, scans

    def physical_rows(self, hits: Sequence[FileHits]) -> list[int]:
        """Return the physical row counts of the files of some hits: as recorded, else by their footers.

        Cost: one pass over the paths of the snapshot; a footer for each file that is not covered.
        """
        from tailbit.tables.parquet.rows import row_counts

        paths = self.snapshot.files.paths
        recorded = np.full(len(paths), -1, dtype=np.int64)
        for space, _ in self.bounds:
            recorded[space.files] = space.rows
        numbers = pc.index_in(arrow_array([hit.slice_.path for hit in hits], pa.string()), value_set=paths)
        out = recorded[numpy_of(numbers, dtype=np.int64)]
        unknown = np.flatnonzero(out < 0)
        out[unknown] = row_counts(self.storage, [hits[n].slice_ for n in unknown.tolist()])
        return [int(rows) for rows in out.tolist()]

    def by_slice(self, space: SpaceView, bits: BitMap) -> Iterator[tuple[FileSlice, Positions]]:
        """Yield the positions of a row space file by file, for the files that have any."""
        for number, positions in space.split(bits):
            yield self.snapshot.files[number], positions

    @property
    def files_scanned(self) -> int:
        """Return the number of files whose data was or will be read to find the rows.

        Cost: the postings of the keys touched.
        """
        if self.counted_by_index is not None:
            return 0
        return len({search.slice_.path for search in self._hits_and_scans[1]})

    @property
    def bytes_scanned(self) -> int:
        """Return the bytes of the files of `files_scanned`."""
        if self.counted_by_index is not None:
            return 0
        return sum({search.slice_.path: search.slice_.size for search in self._hits_and_scans[1]}.values())

    def count(self) -> int:
        """Count the rows where the predicate is TRUE.

        Cost: the postings of the keys touched; plus the rows that must be rechecked and the uncovered files.
        """
        if self.counted_by_index is not None:
            return self.counted_by_index
        sure = sum(len(bounds.sure) for _, bounds in self.bounds)
        return sure + self._counted_in_data

    @once
    def counted_by_index(self) -> int | None:
        """Count the matching rows by the index alone; None if it cannot count them all."""
        if len(self.coverage.uncovered):
            return None
        total = 0
        for counted in side_by_side.each_space(self._questions, count_true, _nothing, self.coverage.spaces):
            if counted is None or isinstance(counted, CorruptIndexError):
                return None
            total += counted
        return total

    def hits(self) -> list[FileHits]:
        """Return the matching positions per file, ascending, in path order, for the files with a match.

        The arrays are the caller's own.
        """
        merged: dict[str, FileHits] = {}
        for space, bounds in self.bounds:
            for slice_, positions in self.by_slice(space, bounds.sure):
                merged[slice_.path] = FileHits(slice_, positions, HitSource.INDEX)
        for hit in self.read_hits:
            if len(hit.positions):
                before = merged.get(hit.slice_.path)
                positions = (
                    hit.positions.copy() if before is None else np.union1d(before.positions, hit.positions)
                )
                merged[hit.slice_.path] = FileHits(hit.slice_, positions, hit.source)
        return [merged[path] for path in sorted(merged)]


def candidate_numbers(selection: Selection) -> list[int]:
    """Return the numbers of the files that neither the index nor the log prunes, ascending.

    Every file with a matching row is a candidate. Cost: the postings of the keys touched, and the statistics
    of the files that the index does not cover, or leaves open.
    """
    candidates = [open_to_the_log(selection, np.array(selection.to_scan, dtype=np.int64))]
    for space, bounds in selection.bounds:
        open_files = space.files[np.flatnonzero(space.counts_by_file(bounds.maybe))]
        # The log may rule out more files: for example, footers may lack the statistics of timestamps.
        candidates.append(open_files if bounds.exact else open_to_the_log(selection, open_files))
    numbers: list[int] = np.unique(np.concatenate(candidates)).tolist()
    return numbers


def open_to_the_log(selection: Selection, numbers: Longs) -> Longs:
    """Return the numbers of the files that the log does not prune, among `numbers` (int64).

    Memory: the statistics of some thousand files, whatever the length of `numbers`.
    """
    files = [np.zeros(0, dtype=np.int64)]
    for start in range(0, len(numbers), _AT_ONCE):
        some = numbers[start : start + _AT_ONCE]
        truths = pruning.FileTruths(selection.pruning, selection.snapshot.files.at(some.tolist()))
        files.append(some[truths.can_match])
    return np.concatenate(files)


_AT_ONCE = 1 << 12
"""Files whose statistics are looked at together."""
