"""How much of a table an index has built: files, rows and bytes of all, found from the file records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from tailbit.base.dataclass import dataclass
from tailbit.index.maintenance.rebuild import lacking
from tailbit.index.maintenance.wanted import wanted_of
from tailbit.index.model import FileRecord
from tailbit.index.store.state import IndexState
from tailbit.index.write.work import FileWork, Leave
from tailbit.tables import compute as pc
from tailbit.tables.arrow import filled, in_one, numpy_of
from tailbit.tables.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Extent:
    """Data files, their rows and their bytes."""

    files: int = 0
    rows: int = 0
    bytes: int = 0

    def __add__(self, other: Extent) -> Extent:
        return Extent(self.files + other.files, self.rows + other.rows, self.bytes + other.bytes)

    def __sub__(self, other: Extent) -> Extent:
        return Extent(self.files - other.files, self.rows - other.rows, self.bytes - other.bytes)

    def within(self, most: Extent) -> Extent:
        """Return the extent, each number of it no higher than that of `most`."""
        return Extent(min(self.files, most.files), min(self.rows, most.rows), min(self.bytes, most.bytes))


@dataclass(frozen=True, slots=True)
class BuildExtent:
    """The files of a table, and those of them that an index has built.

    `rows_exact`: whether the log or the index states the rows of every file; else the rows of files without a
    number are estimated from their bytes, and are 0 if no file has a number. `definitions`: the names of the
    definitions that files lack; none if files lack all of them, as in a first build.
    """

    whole: Extent
    built: Extent
    rows_exact: bool = True
    definitions: tuple[str, ...] = ()

    @property
    def left(self) -> Extent:
        """Return what is still to be built."""
        return self.whole - self.built


def build_extent_of(state: IndexState, snapshot: Snapshot) -> BuildExtent:
    """Return how much of a snapshot an index has built.

    A file that could not be read counts as built: nothing is to be done for it until it can be read.
    Cost: one pass over the records and one over the files of the snapshot; the log's statistics are read
    where a file has no record.
    """
    files, definitions = snapshot.files, state.settings.definitions
    missing = lacking(state, wanted_of(definitions, snapshot.schema))
    records = state.recorded.table()
    live = pc.filter(records, pc.is_null(records["left"]))
    unread = pc.filter(live, pc.is_valid(live["error"]))["path"]
    short = pc.and_not(
        pc.is_in(live["path"], value_set=in_one(missing.rows["path"])),
        pc.is_in(live["path"], value_set=in_one(unread)),
    )
    place = pc.index_in(files.paths, value_set=in_one(live["path"]))
    recorded = numpy_of(pc.is_valid(place), dtype=bool)
    at = numpy_of(filled(place, 0), dtype=np.int64)
    done = np.zeros(len(files), dtype=bool)
    rows = np.full(len(files), -1, dtype=np.int64)
    if len(live):
        done = recorded & ~numpy_of(short, dtype=bool)[at]
        rows = np.where(recorded, numpy_of(live["rows"], dtype=np.int64)[at], rows)
    if not recorded.all():
        rows = np.where(recorded, rows, numpy_of(filled(files.rows, -1), dtype=np.int64))
    sizes = numpy_of(files.core["size"], dtype=np.int64)
    known = rows >= 0
    counted, size = int(rows[known].sum()), int(sizes[known].sum())
    rows = np.where(known, rows, np.int64(0) if not size else (sizes * (counted / size)).astype(np.int64))
    ids = {id_ for lacks in missing.missing for id_ in lacks} if recorded.all() else set[str]()
    names = tuple(definition.name for definition in definitions if definition.id in ids)
    return BuildExtent(
        Extent(len(files), int(rows.sum()), int(sizes.sum())),
        Extent(int(done.sum()), int(rows[done].sum()), int(sizes[done].sum())),
        bool(known.all()),
        names if len(names) < len(definitions) else (),
    )


def unrecorded_by_definition(state: IndexState, snapshot: Snapshot) -> dict[str, int]:
    """Map the ids of definitions to the files of a snapshot that want them and have no record yet.

    Only an index whose first build goes on has such files of the version that it is built for. Cost: one
    look-up for all files; a step of Python for each such file if a definition is of some partitions.
    """
    files, wanted = snapshot.files, wanted_of(state.settings.definitions, snapshot.schema)
    recorded = state.recorded.table()
    live = pc.filter(recorded, pc.is_null(recorded["left"]))
    missing = pc.invert(pc.is_in(files.paths, value_set=in_one(live["path"])))
    count = int(numpy_of(missing, dtype=bool).sum())
    if not count:
        return {}
    if not wanted.parts:
        return dict.fromkeys(wanted.everywhere, count)
    partitions = pc.filter(files.core["partition"], missing).to_pylist()
    return dict(Counter(id_ for partition in partitions for id_ in wanted.of(dict(partition or ()))))


def extent_of_works(works: Iterable[FileWork]) -> tuple[Extent, bool]:
    """Return the extent of the files that works bring up to date, and whether the log states their rows."""
    targets = [work.target for work in works if not isinstance(work, Leave)]
    rows, size = sum(target.rows or 0 for target in targets), sum(target.size for target in targets)
    return Extent(len(targets), rows, size), all(target.rows is not None for target in targets)


def extent_of_records(records: Iterable[FileRecord]) -> Extent:
    """Return the extent of the live files among some records."""
    live = [record for record in records if record.left is None]
    return Extent(len(live), sum(record.rows for record in live), sum(record.size for record in live))
