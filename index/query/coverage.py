"""Which files of a snapshot the index covers, where their rows lie, and which of those rows are visible.

Input: a snapshot and the files that the index records. Output: one `SpaceView` per row space with its visible
rows, and the uncovered files. A file is covered only if its path, size and modification time are as recorded,
in the history of the source log that the ledger describes: an index that lags or belongs to another history
costs time, not rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.arrays import Longs, Mask
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import CorruptIndexError
from tailbit.index.evaluation.row_space import Access, FileNumbers, PartitionTexts, SpaceView
from tailbit.index.kinds.files import QUERY_COLUMNS, column_sets
from tailbit.index.model import Definition
from tailbit.index.store.state import IndexState
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, arrow_scalar, filled, in_one, numpy_of
from tailbit.tables.snapshot import Snapshot
from tailbit.tables.storage import Storage


class Damages:
    """Damaged files of an index, each once, in the order in which they were noticed.

    Threads that share an answer may note damages concurrently: noting is atomic, and so is iterating.
    """

    def __init__(self, *damages: CorruptIndexError) -> None:
        self._by_text = {str(damage): damage for damage in damages}

    def note(self, damage: CorruptIndexError) -> None:
        """Add a damage, unless it was noted before."""
        self._by_text.setdefault(str(damage), damage)

    def __iter__(self) -> Iterator[CorruptIndexError]:
        return iter(list(self._by_text.values()))


@dataclass(frozen=True)
class Coverage:
    """A snapshot divided into covered row spaces and uncovered files.

    `uncovered`: numbers of the files in `snapshot.files`. `hidden_of`: function from the number of a file to
    its hidden rows, None if none are hidden. `trusted`: whether the index describes this source log;
    `lineage`: the ledger's number of that history. `damages`: index files that could not be read; the source
    was read instead. `definitions`: the definitions of the index.
    """

    snapshot: Snapshot
    spaces: Sequence[SpaceView]
    uncovered: FileNumbers
    hidden_of: Callable[[int], BitMap | None]
    trusted: bool = False
    lineage: int = -1
    damages: Damages = field(default_factory=Damages)
    definitions: Sequence[Definition] = ()

    def posts_everywhere(self, column_id: str) -> bool:
        """Return whether every file of the snapshot is covered and has postings of this column."""
        return not len(self.uncovered) and all(
            column_id in space.column_sets[number]
            for space in self.spaces
            for number in np.unique(space.posted).tolist()
        )


def cover(
    snapshot: Snapshot,
    storage: Storage,
    index: IndexState | None,
    trusted: bool,
    before: Coverage | None = None,
    accesses: Sequence[Access] = (),
) -> Coverage:
    """Divide a snapshot by the recorded files of the index.

    Invariant: every live file is in exactly one row space or in `uncovered`; all are in `uncovered` if the
    records cannot be read. `trusted`: the index describes this history of the table; without it no file is
    covered. `accesses`: how definitions serve conditions on other columns than their own. `before`: the
    coverage of another version, whose visible rows are reused where they are the same. Cost: vectorised joins
    over the live files; hidden rows are loaded only for the row spaces that are evaluated, and only where
    they have changed.
    """
    damages = Damages()
    hidden_of = HiddenRowsOf(snapshot, storage, index, damages)
    everything = np.arange(len(snapshot.files), dtype=np.int64)
    nothing = Coverage(snapshot, (), everything, hidden_of, trusted, damages=damages)
    if index is None or index.ledger is None or not trusted or not len(everything):
        return nothing
    try:
        recorded = index.recorded.table().select(QUERY_COLUMNS)
    except CorruptIndexError as damage:
        damages.note(damage)
        return nothing
    lineage = index.ledger.lineage
    live = snapshot.files.core
    records = pc.index_in(live["path"], value_set=in_one(recorded["path"]))
    own_records = pc.take(recorded, records)
    same = [pc.equal(own_records[name], live[name]) for name in ("size", "mtime")]
    covered = _all(
        *same, pc.equal(own_records["lineage"], arrow_scalar(lineage)), pc.is_valid(own_records["space"])
    )
    spaces_before = (
        {s.space: s for s in before.spaces} if before is not None and before.lineage == lineage else {}
    )
    own_records, records = (pc.filter(column, arrow_array(covered)) for column in (own_records, records))
    moved = _moved(snapshot, index, everything[covered], records)
    spaces = _spaces(
        everything[covered], own_records, snapshot, index, hidden_of, spaces_before, accesses, moved
    )
    uncovered, definitions = everything[~covered], index.settings.definitions
    return Coverage(snapshot, spaces, uncovered, hidden_of, trusted, lineage, damages, definitions)


class _Moved(NamedTuple):
    """Covered files (a mask) whose partition values differ from those with which they were indexed.

    `ids`: the definitions that read partition columns; their entries for these files are of the old values.
    """

    files: Mask
    ids: frozenset[str]

    def apart(self, sets: list[frozenset[str]], posted: Longs) -> tuple[list[frozenset[str]], Longs]:
        """Return the sets of posted ids and the number of each file's set; sets of `files` lack `ids`."""
        if not self.files.any():
            return sets, posted
        return [*sets, *(ids - self.ids for ids in sets)], np.where(self.files, posted + len(sets), posted)


def _moved(snapshot: Snapshot, index: IndexState, covered: FileNumbers, records: pa.ChunkedArray) -> _Moved:
    """Return the covered files whose partition values differ from the recorded ones.

    `records`: the row of each covered file in the table of records. The log may add a file again with other
    values, and a question may be about an earlier version. Cost: none unless a definition that is not of a
    single column reads a partition column; else two texts per file and such column.
    """
    several = [d for d in index.settings.definitions if not d.is_of_column]
    read = {d.id: {c.id for term in d.terms for c in term.columns} for d in several}
    partitions = {c.id: c.physical[0] for c in snapshot.schema.columns if c.partition} if read else {}
    ids = frozenset(id_ for id_, columns in read.items() if columns & set(partitions))
    names = {partitions[id_] for set_ids in ids for id_ in read[set_ids] & set(partitions)}
    differ = np.zeros(len(covered), dtype=bool)
    if names:
        recorded, numbers = index.recorded.table()["partition"], arrow_array(covered)
        for name in sorted(names):
            then = pc.take(pc.map_lookup(recorded, arrow_scalar(name), "first"), records)
            now = pc.take(snapshot.files.partition_texts(name), numbers)
            same = filled(pc.equal(then, now), False)
            differ |= ~numpy_of(pc.or_(same, pc.and_(pc.is_null(then), pc.is_null(now))), dtype=bool)
    return _Moved(differ, ids)


def _all(*masks: pa.ChunkedArray) -> Mask:
    arrays = [numpy_of(filled(mask, False), dtype=bool) for mask in masks]
    out: Mask = np.logical_and.reduce(arrays)
    return out


def _spaces(
    files: FileNumbers,
    own_records: pa.Table,
    snapshot: Snapshot,
    index: IndexState,
    hidden_of: Callable[[int], BitMap | None],
    spaces_before: Mapping[str, SpaceView],
    accesses: Sequence[Access],
    moved: _Moved,
) -> list[SpaceView]:
    """Return a view per row space of the covered `files`; `own_records`: a record per file, in order."""
    if not len(files):
        return []
    names = pc.dictionary_encode(in_one(own_records["space"]))
    codes = numpy_of(names.indices, dtype=np.int64)
    bases = numpy_of(own_records["base"], dtype=np.int64)
    rows = numpy_of(own_records["rows"], dtype=np.int64)
    numbers, lists = column_sets(own_records["columns"])
    sets, posted_codes = moved.apart(list(map(frozenset, lists)), numpy_of(numbers, dtype=np.int64))
    hidden, partitions = hidden_ids(snapshot), PartitionTexts(snapshot.files)
    views = []
    for indexes in _by_space(codes, bases, rows):
        space = str(names.dictionary[int(codes[indexes[0]])])
        views.append(
            SpaceView(
                space=space,
                files=files[indexes],
                bases=bases[indexes],
                rows=rows[indexes],
                posted=posted_codes[indexes],
                column_sets=sets,
                hidden_ids=hidden[files[indexes]],
                hidden_of=hidden_of,
                segments=index.segments_of(space),
                partitions=partitions,
                accesses=accesses,
                before=spaces_before[space].origin if space in spaces_before else None,
            )
        )
    return views


def _by_space(codes: Longs, bases: Longs, rows: Longs) -> list[Longs]:
    """Return, per row space, the indices of its files in the arrays, ordered by base.

    A file without rows comes before the file with the same base, because `split` assigns a position to the
    last file whose base is not greater.

    >>> _by_space(np.array([1, 0, 1]), np.array([4, 0, 0]), np.array([4, 8, 4]))
    [array([1]), array([2, 0])]
    """
    order = np.lexsort((rows, bases, codes))
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)


def hidden_ids(snapshot: Snapshot) -> npt.NDArray[np.object_]:
    """Return, per file, the identity of its hidden rows; empty if none are hidden."""
    out = np.full(len(snapshot.files), "", dtype=object)
    vectors = snapshot.files.with_hidden
    if len(vectors):
        out[vectors] = pc.take(snapshot.files.hidden_ids, arrow_array(vectors)).to_pylist()
    return out


class HiddenRowsOf:
    """Function from the number of a live file to its hidden rows.

    They come from the index if it holds all of them, else from the source. Index files that cannot be read
    are noted in `damages`.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        storage: Storage,
        index: IndexState | None,
        damages: Damages,
    ) -> None:
        self._snapshot, self._storage, self._index, self._damages = snapshot, storage, index, damages

    def __call__(self, number: int) -> BitMap | None:
        """Return the hidden rows of a file; None if there are none."""
        hidden = self._snapshot.files.hidden(number)
        if hidden is None:
            return None
        indexed = self._indexed(hidden.id)
        if indexed is not None and hidden.cardinality in (None, len(indexed)):
            return indexed
        return hidden.read(self._storage)

    def _indexed(self, identity: str) -> BitMap | None:
        if self._index is None:
            return None
        try:
            return self._index.hidden_rows(identity)
        except CorruptIndexError as damage:
            self._damages.note(damage)
            return None
