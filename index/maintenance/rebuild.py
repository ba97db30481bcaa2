"""REBUILD of a definition, the live files that lack definitions, and how much of a table is built.

REBUILD of a definition: a newer one of the same name is built, and replaces the old one in one commit. Until
then, questions use the old definition. A bitmap of one column has the id of the column, so that two of them
cannot exist: the bitmap is removed from the records of all files, and until a file is indexed again, its rows
are scanned. The records tell which files still lack a definition, so that a rebuild continues after a restart
or a kill at any point.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import CommitGapError, VersionNotFoundError
from tailbit.index.keys import posting_type_of
from tailbit.index.kinds.files import column_sets
from tailbit.index.maintenance.alter import change_definitions, retried
from tailbit.index.maintenance.definitions import Requirements, definition_named, requirements_of
from tailbit.index.model import (
    DEFERRED,
    REPLACES,
    Definition,
    FileRecord,
    LedgerState,
    Settings,
    Term,
    TermColumn,
    new_id,
)
from tailbit.index.sql.terms import every_column, terms_anew
from tailbit.index.store.state import IndexState
from tailbit.index.store.table import MetadataTable
from tailbit.index.write.work import FileWork, Leave
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, arrow_scalar, filled, in_one, numpy_of
from tailbit.tables.model import DataType
from tailbit.tables.schema import Schema
from tailbit.tables.snapshot import Snapshot
from tailbit.tables.table import Table

WantedBy = Callable[[Mapping[str, str | None]], Collection[str]]
"""A function that returns the ids of the definitions that a file with some partition values wants."""


@dataclass(frozen=True)
class Lacking:
    """The live files that lack a definition. `rows`: of kind `files`; `missing`: the ids that each lacks."""

    rows: pa.Table
    missing: list[tuple[str, ...]]

    @classmethod
    def among(cls, records: pa.Table, wanted_by: WantedBy, *, by_partition: bool) -> Lacking:
        """Return the files that lack a definition; `by_partition`: what a file wants depends on its values.

        A file without postings has none of the definitions. Cost: vectorised over all files; with
        `by_partition` a step of Python per file.
        """
        live = pc.filter(records, pc.is_null(records["left"]))
        codes, built = column_sets(live["columns"])
        sets = [frozenset(ids) for ids in built]
        bare = ~numpy_of(filled(pc.is_valid(live["space"]), False), dtype=bool)
        if not by_partition:
            ids = tuple(wanted_by({}))
            kinds = [
                tuple(id_ for id_ in ids if id_ not in ids_of_set) for ids_of_set in [*sets, frozenset[str]()]
            ]
            which = np.where(bare, len(sets), numpy_of(codes, dtype=np.int64))
        else:
            which, kinds = _by_partition(live, wanted_by, codes, sets, bare)
        short = np.array([bool(missing) for missing in kinds], dtype=bool)[which]
        return cls(pc.filter(live, arrow_array(short)), [kinds[n] for n in which[short].tolist()])

    def unbuilt(self) -> dict[str, tuple[int, int]]:
        """Map the id of each definition that files lack to the number of these files, and of their rows."""
        totals: dict[str, tuple[int, int]] = {}
        for missing, rows in zip(self.missing, self.rows["rows"].to_pylist(), strict=True):
            for id_ in missing:
                files, so_far = totals.get(id_, (0, 0))
                totals[id_] = files + 1, so_far + rows
        return totals

    def fillable(self, lineage: int) -> pa.Table:
        """Return path and size of the files that have postings and counts, ordered by row space.

        Other files wait for a round, or cannot be read yet. Files of one row space that are filled together
        add one segment to the row space.
        """
        rows = self.rows
        sound = pc.and_(pc.is_valid(rows["space"]), pc.equal(rows["lineage"], arrow_scalar(lineage)))
        fillable = pc.filter(rows, pc.and_(sound, rows["counted"]))
        return fillable.sort_by([("space", "ascending"), ("base", "ascending")]).select(["path", "size"])


def _by_partition(
    live: pa.Table, wanted_by: WantedBy, codes: pa.Array, sets: list[frozenset[str]], bare: np.ndarray
) -> tuple[Longs, list[tuple[str, ...]]]:
    """Return, per file, the number of the set of definitions that the file lacks; and the sets by number."""
    numbers: dict[tuple[str, ...], int] = {}
    which = np.zeros(len(live), dtype=np.int64)
    partitions = live["partition"].to_pylist()
    for row, (code, partition) in enumerate(zip(codes.to_pylist(), partitions, strict=True)):
        ids_of_file = frozenset[str]() if bare[row] else sets[code]
        missing = tuple(id_ for id_ in wanted_by(dict(partition or ())) if id_ not in ids_of_file)
        which[row] = numbers.setdefault(missing, len(numbers))
    return which, list(numbers)


def rebuild(index: MetadataTable, name: str, schema: Schema) -> Definition:
    """Begin to build a definition anew; return the definition to be built.

    Its terms are bound to the schema: a renamed column is the same column, and a column whose type changed is
    indexed with its present type. An unfinished rebuild begins again. A deferred definition is built as it
    stands. Cost: one small commit; for a bitmap of one column, the cost of dropping it.
    """

    def attempt() -> Definition:
        old, definitions = definition_named(index, name), index.state.settings.definitions
        if old.is_deferred:
            built = old.without(DEFERRED)
            change_definitions(index, tuple(built if d is old else d for d in definitions), [])
            return built
        if old.is_of_column:
            built = _column_anew(old, schema)
            change_definitions(index, tuple(built if d is old else d for d in definitions), [old.id])
            return built
        newer = replace(
            old, terms=terms_anew(old, schema), id=new_id(), options={**old.options, REPLACES: old.id}
        )
        unfinished = [d.id for d in definitions if d.options.get(REPLACES) == old.id]
        staying = tuple(d for d in definitions if d.id not in unfinished)
        change_definitions(index, (*staying, newer), unfinished)
        return newer

    return retried(index, attempt)


def promoted_since(definitions: Iterable[Definition], schema: Schema) -> list[Definition]:
    """Return the bitmaps of columns whose type, and with it whose values, changed since they were defined.

    Postings and counts of files that the batch does not touch then hold values that nobody reads any more. A
    deferred definition has none.
    """
    present = {column.id: column.type for column in every_column(schema)}
    plain = ((definition, definition.terms[0]) for definition in definitions if definition.is_of_column)
    return [
        definition
        for definition, term in plain
        if definition.id in present
        and not definition.is_deferred
        and _has_other_values(term, present[definition.id])
    ]


def _has_other_values(then: Term, now: DataType) -> bool:
    """Return whether a column was promoted to a type with other values since a term of it was recorded."""
    value = now.fields[0].type if now.name == "array" else now
    return value.promoted and (then.type, then.key_type) != (str(now), posting_type_of(now))


def _column_anew(definition: Definition, schema: Schema) -> Definition:
    """Return the bitmap of one column, made again for the column as it is now; the label stays."""
    by_id = {column.id: column for column in every_column(schema)}
    column = by_id.get(definition.id) or schema.resolve(definition.label)
    now = Definition.of_column(column)
    (term,) = now.terms
    term_column = TermColumn(definition.label, column.id, term.type)
    return replace(
        definition, id=now.id, terms=(replace(term, text=definition.label, columns=(term_column,)),)
    )


def swap_rebuilt(index: MetadataTable, required: Requirements) -> list[Definition]:
    """Replace each definition by its rebuilt one if no file lacks the latter; keep the order of definitions.

    One commit drops the old ones, with their records and counts. Return the rebuilt ones as they are now.
    """

    def attempt() -> list[Definition]:
        state = index.state
        if not _pending(state.settings, required) or not _is_settled(state):
            return []
        # Files without postings lack the older definition too.
        unbuilt = lacking(state, required, claimed=True).unbuilt()
        whole = [d for d in _pending(state.settings, required) if d.id not in unbuilt]
        if not whole:
            return []
        swapped = {d.id: d.without(REPLACES) for d in whole}
        older = {d.id: d.options[REPLACES] for d in whole}
        gone = list(older.values())
        order = {d.id: place for place, d in enumerate(state.settings.definitions)}
        staying = [d for d in state.settings.definitions if d.id not in gone]
        staying.sort(key=lambda d: order.get(older.get(d.id, ""), order[d.id]))
        change_definitions(index, tuple(swapped.get(d.id, d) for d in staying), gone)
        return list(swapped.values())

    return retried(index, attempt)


def lacking(state: IndexState, required: Requirements, *, claimed: bool = False) -> Lacking:
    """Return the live files that lack a definition that they want; with `claimed`, only those with postings.

    Cost: one pass over the records.
    """
    records = state.recorded.table()
    records = records.filter(pc.is_valid(records["space"])) if claimed else records
    return Lacking.among(records, required.of, by_partition=bool(required.conditional))


def left_to_fill(table: Table, state: IndexState) -> bool:
    """Return whether a live file lacks a definition, or a rebuilt one waits to take its place.

    Files that cannot be read do not count. Cost: one pass over the records, and the schema of the version
    that the index covers.
    """
    ledger = state.ledger
    if ledger is None or not _is_settled(state):
        return False
    try:
        schema = table.snapshot(ledger.version).schema
    except (CommitGapError, VersionNotFoundError):
        return False
    required = requirements_of(state.settings.definitions, schema)
    return (
        bool(_pending(state.settings, required)) or len(lacking(state, required).fillable(ledger.lineage)) > 0
    )


def _pending(settings: Settings, required: Requirements) -> list[Definition]:
    """Return the definitions that will replace others once every file has them."""
    ids = {*required.everywhere, *required.conditional}
    return [d for d in settings.definitions if REPLACES in d.options and d.id in ids]


def _is_settled(state: IndexState) -> bool:
    """Return whether the index has finished its round and no new one is requested.

    An unfinished or requested round checks every file anyway.
    """
    ledger = state.ledger
    settled = ledger is not None and ledger.state is LedgerState.COMPLETE
    return settled and ledger is not None and ledger.settings_version == state.settings.version


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
    def unbuilt(self) -> Extent:
        """Return what is still to be built."""
        return self.whole - self.built


def build_extent_of(state: IndexState, snapshot: Snapshot) -> BuildExtent:
    """Return how much of a snapshot an index has built.

    A file that could not be read counts as built: nothing is to be done for it until it can be read.
    Cost: one pass over the records and one over the files of the snapshot; the log's statistics are read
    where a file has no record.
    """
    files, definitions = snapshot.files, state.settings.definitions
    missing = lacking(state, requirements_of(definitions, snapshot.schema))
    records = state.recorded.table()
    live = pc.filter(records, pc.is_null(records["left"]))
    unread = pc.filter(live, pc.is_valid(live["error"]))["path"]
    short = pc.and_not(
        pc.is_in(live["path"], value_set=in_one(missing.rows["path"])),
        pc.is_in(live["path"], value_set=in_one(unread)),
    )
    place = pc.index_in(files.paths, value_set=in_one(live["path"]))
    recorded = numpy_of(pc.is_valid(place), dtype=bool)
    record_numbers = numpy_of(filled(place, 0), dtype=np.int64)
    done = np.zeros(len(files), dtype=bool)
    rows = np.full(len(files), -1, dtype=np.int64)
    if len(live):
        done = recorded & ~numpy_of(short, dtype=bool)[record_numbers]
        rows = np.where(recorded, numpy_of(live["rows"], dtype=np.int64)[record_numbers], rows)
    if not recorded.all():
        rows = np.where(recorded, rows, numpy_of(filled(files.rows, -1), dtype=np.int64))
    sizes = numpy_of(files.core["size"], dtype=np.int64)
    counted_files = rows >= 0
    counted, size = int(rows[counted_files].sum()), int(sizes[counted_files].sum())
    rows = np.where(
        counted_files, rows, np.int64(0) if not size else (sizes * (counted / size)).astype(np.int64)
    )
    ids = {id_ for lacks in missing.missing for id_ in lacks} if recorded.all() else set[str]()
    names = tuple(definition.name for definition in definitions if definition.id in ids)
    return BuildExtent(
        Extent(len(files), int(rows.sum()), int(sizes.sum())),
        Extent(int(done.sum()), int(rows[done].sum()), int(sizes[done].sum())),
        bool(counted_files.all()),
        names if len(names) < len(definitions) else (),
    )


def unrecorded_by_definition(state: IndexState, snapshot: Snapshot) -> dict[str, int]:
    """Map the ids of definitions to the files of a snapshot that want them and have no record yet.

    Only an index whose first build goes on has such files of the version that it is built for. Cost: one
    look-up for all files; a step of Python for each such file if a definition is of some partitions.
    """
    files, required = snapshot.files, requirements_of(state.settings.definitions, snapshot.schema)
    recorded = state.recorded.table()
    live = pc.filter(recorded, pc.is_null(recorded["left"]))
    missing = pc.invert(pc.is_in(files.paths, value_set=in_one(live["path"])))
    count = int(numpy_of(missing, dtype=bool).sum())
    if not count:
        return {}
    if not required.conditional:
        return dict.fromkeys(required.everywhere, count)
    partitions = pc.filter(files.core["partition"], missing).to_pylist()
    return dict(Counter(id_ for partition in partitions for id_ in required.of(dict(partition or ()))))


def extent_of_works(works: Iterable[FileWork]) -> tuple[Extent, bool]:
    """Return the extent of the files that works bring up to date, and whether the log states their rows."""
    targets = [work.target for work in works if not isinstance(work, Leave)]
    rows, size = sum(target.rows or 0 for target in targets), sum(target.size for target in targets)
    return Extent(len(targets), rows, size), all(target.rows is not None for target in targets)


def extent_of_records(records: Iterable[FileRecord]) -> Extent:
    """Return the extent of the live files among some records."""
    live = [record for record in records if record.left is None]
    return Extent(len(live), sum(record.rows for record in live), sum(record.size for record in live))
