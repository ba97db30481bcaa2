"""One task of a batch: from recorded states to wanted states of some files.

Input: a `BuildTask`. Output: index files written (not yet visible) and the new record of every file. Runs on
a Spark worker or in the driver alike. New files are laid end to end into one row space; bits are posted for
every physical row, hidden ones included, since they are a function of an immutable file; the pairs (old, new)
of what became visible or hidden are folded into value counts. One column is in memory at a time.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap

from tailbit.errors import CorruptIndexError, DataFileError
from tailbit.index.bitmaps import bitmaps
from tailbit.index.containers import BLOCK, containers
from tailbit.index.files import write_index_file, write_parquet
from tailbit.index.hidden import HiddenRowsReader
from tailbit.index.model import FileRecord, IndexFile
from tailbit.index.rows import fetch, visible_positions
from tailbit.index.segment import Postings, write_segment
from tailbit.index.tally import Tally, write_value_counts
from tailbit.index.value_changes import CodedColumn, code_column, entering, leaving
from tailbit.index.values import key_type_of
from tailbit.tables.data_file import footer_hash, open_data_file, partition_array, read_columns
from tailbit.tables.model import Column, FileSlice, Version
from tailbit.tables.storage import Storage

Positions = npt.NDArray[np.uint64]

_HIDDEN = "hidden_rows"
_HIDDEN_SCHEMA = pa.schema([("id", pa.string()), ("cardinality", pa.int64()), ("bitmap", pa.binary())])


@dataclass(frozen=True, slots=True)
class IndexedColumn:
    """A column as it is at the target version, and the type of its keys."""

    column: Column
    key_type: str

    @classmethod
    def of(cls, column: Column) -> IndexedColumn:
        """The column with the key type of its current type."""
        return cls(column, key_type_of(column.type))


@dataclass(frozen=True, slots=True)
class FileWork:
    """One file: what is recorded of it, what is wanted (None: not live), and the columns still to post."""

    target: FileSlice | None
    record: FileRecord | None
    post: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BuildTask:
    """Files to bring to the state of source version `version`."""

    root: str
    index_path: str
    columns: tuple[IndexedColumn, ...]
    works: tuple[FileWork, ...]
    lineage: int
    version: Version


@dataclass(frozen=True, slots=True)
class TaskResult:
    """New records and the files they rest on, to be committed together."""

    records: tuple[FileRecord, ...]
    files: tuple[IndexFile, ...]
    rows: int
    bytes_read: int


@dataclass
class _Claimed:
    """A file on its way into a row space: the columns to post there, and its data."""

    work: FileWork
    target: FileSlice
    space: str
    base: int
    rows: int
    columns: frozenset[str]
    file: pq.ParquetFile


@dataclass
class _Run:
    """The state of one task while it runs."""

    task: BuildTask
    source: Storage
    index: Storage
    hidden: HiddenRowsReader
    tally: Tally = field(default_factory=Tally)
    files: list[IndexFile] = field(default_factory=list)
    rows: int = 0
    bytes_read: int = 0


def run_task(task: BuildTask) -> TaskResult:
    """Post what is not posted, count what has changed, and say what is now recorded.

    Idempotent by state: only the difference between record and target has an effect, and a file already as
    wanted has none.

    Raises:
        DataFileError: a data file whose values are needed is missing or is not Parquet.
        StorageError: the index cannot be written; nothing of it is visible.
    """
    run = _Run(task, Storage(task.root), Storage(task.index_path), HiddenRowsReader(task.index_path))
    kept = {id(w): _same_content(w, run) for w in task.works}
    posting = [w for w in task.works if w.target is not None and (w.post or not kept[id(w)])]
    claimed = _claims(posting, kept, run)
    for space in dict.fromkeys(c.space for c in claimed):
        _post(space, [c for c in claimed if c.space == space], run)
    for work in task.works:
        _count_without_posting(work, kept[id(work)], run)
    if changes := write_value_counts(run.index, run.tally):
        run.files.append(changes)
    if hidden := _write_hidden(run):
        run.files.append(hidden)
    by_work = {id(c.work): c for c in claimed}
    records = tuple(_record(w, by_work.get(id(w)), kept[id(w)], run) for w in task.works)
    return TaskResult(records, tuple(run.files), run.rows, run.bytes_read)


def _same_content(work: FileWork, run: _Run) -> bool:
    """Whether the file is the one whose bits are posted; by its footer where lineage or time is another."""
    record, target = work.record, work.target
    if record is None or record.space is None or (target is not None and record.size != target.size):
        return False
    if target is None or (record.mtime == target.mtime and record.lineage == run.task.lineage):
        return True
    return footer_hash(run.source, target.path) == record.footer


def _claims(posting: Sequence[FileWork], kept: dict[int, bool], run: _Run) -> list[_Claimed]:
    """Give every file to post its place: where its claim is, else behind the others in a new row space."""
    fresh, base = uuid.uuid4().hex, 0
    every = frozenset(c.column.id for c in run.task.columns)
    out = []
    for work in posting:
        target, record = work.target, work.record
        assert target is not None
        file = open_data_file(run.source, target.path, target.size)
        rows = int(file.metadata.num_rows)
        if kept[id(work)] and record is not None and record.space is not None:
            out.append(_Claimed(work, target, record.space, record.base or 0, rows, frozenset(work.post), file))
        else:
            out.append(_Claimed(work, target, fresh, base, rows, every, file))
            base += rows
        run.bytes_read += target.size
        run.rows += rows
    return out


def _post(space: str, files: list[_Claimed], run: _Run) -> None:
    """Write the postings of some files of one row space, and count the rows of the columns posted."""
    extent = max(c.base + c.rows for c in files)
    columns = sorted(
        (c for c in run.task.columns if any(c.column.id in f.columns for f in files)), key=_order
    )
    if not columns or not extent:
        return
    postings = (part for indexed in columns for part in _column(indexed, files, extent, run))
    run.files.append(write_segment(run.index, run.task.index_path, space, extent, postings))


def _order(indexed: IndexedColumn) -> str:
    return indexed.column.id


def _column(indexed: IndexedColumn, files: list[_Claimed], extent: int, run: _Run) -> Iterator[Postings]:
    mine = [f for f in files if indexed.column.id in f.columns]
    parts = [_values(f, indexed.column) for f in mine]
    whole = pa.chunked_array([chunk for part in parts for chunk in part.chunks], parts[0].type)
    coded = code_column(whole, indexed.key_type)
    start = 0
    for claim in mine:
        codes = coded.codes[start : start + claim.rows]
        _count_entering(claim, indexed, CodedColumn(coded.keys, codes), run)
        start += claim.rows
    codes = _placed(coded, mine, extent).view(np.uint32)
    limit = len(coded.keys)
    blocks = (containers(at // BLOCK, codes[at : at + BLOCK], limit) for at in range(0, extent, BLOCK))
    for slab in bitmaps(blocks, limit):
        keys = coded.keys.slice(slab.first, len(slab.cardinality))
        yield Postings(indexed.column.id, indexed.key_type, keys, slab.cardinality, slab.arrow())


def _values(claim: _Claimed, column: Column) -> pa.ChunkedArray:
    if column.partition:
        text = claim.target.partition.get(column.physical[0])
        return pa.chunked_array([partition_array(column, text, claim.rows)])
    return read_columns(claim.file, [column])[column.id]


def _placed(coded: CodedColumn, files: list[_Claimed], extent: int) -> npt.NDArray[np.int32]:
    """Codes by position of the row space; -1 where none of these files lies."""
    if len(coded.codes) == extent:
        return coded.codes
    out = np.full(extent, -1, dtype=np.int32)
    start = 0
    for claim in files:
        out[claim.base : claim.base + claim.rows] = coded.codes[start : start + claim.rows]
        start += claim.rows
    return out


def _count_entering(claim: _Claimed, indexed: IndexedColumn, column: CodedColumn, run: _Run) -> None:
    hidden = run.hidden.of_slice(run.source, claim.target)
    if not hidden:
        at = np.arange(claim.rows, dtype=np.uint32)
        changes = entering(column, at)
    else:
        at = visible_positions(claim.rows, hidden).astype(np.uint32)
        changes = entering(CodedColumn(column.keys, column.codes[at]), at)
    run.tally.add(indexed.column.id, indexed.key_type, column.keys, changes.counts())


def _count_without_posting(work: FileWork, kept: bool, run: _Run) -> None:
    """Count the rows whose visibility changed in columns that were counted before, or are posted already."""
    record, target = work.record, work.target
    before = record if record is not None and record.counted else None
    if before is not None and (target is None or not kept):
        gone = visible_positions(before.rows, run.hidden.of_record(before))
        _count(before, _columns(before, run), gone, -1, run)
    if target is None or not kept or record is None:
        return
    columns = [c for c in _columns(record, run) if c.column.id not in work.post]
    now = run.hidden.of_slice(run.source, target) or BitMap()
    if before is None:
        _count(record, columns, visible_positions(record.rows, now), +1, run, target)
    elif before.hidden != target.hidden_id:
        then = run.hidden.of_record(before) or BitMap()
        _count(record, columns, _positions(now - then), -1, run, target)
        _count(record, columns, _positions(then - now), +1, run, target)


def _columns(record: FileRecord, run: _Run) -> list[IndexedColumn]:
    return [c for c in run.task.columns if c.column.id in record.columns]


def _positions(bits: BitMap) -> Positions:
    return np.frombuffer(bits.to_array(), dtype=np.uint32).astype(np.uint64)


def _count(
    record: FileRecord,
    columns: Sequence[IndexedColumn],
    positions: Positions,
    sign: int,
    run: _Run,
    target: FileSlice | None = None,
) -> None:
    """Count rows of a file: values from the data file while it is the one recorded, else from postings."""
    if not len(positions) or not columns:
        return
    run.rows += len(positions)
    piece = target or FileSlice(record.path, record.size, record.mtime, record.rows, record.partition)
    try:
        if target is None and footer_hash(run.source, record.path) != record.footer:
            raise DataFileError(file=record.path, reason="it is not the file that was indexed")
        counted = list(_from_data(piece, columns, positions, sign, run))
    except DataFileError:
        counted = list(_from_postings(record, columns, positions, sign, run))
    for indexed, keys, counts, key_type in counted:
        run.tally.add(indexed.column.id, key_type, keys, counts)


_Counted = tuple[IndexedColumn, pa.BinaryArray, npt.NDArray[np.int64], str]


def _from_data(
    piece: FileSlice, columns: Sequence[IndexedColumn], positions: Positions, sign: int, run: _Run
) -> Iterator[_Counted]:
    start = 0
    for table in fetch(run.source, piece, [c.column for c in columns], positions):
        at = positions[start : start + table.num_rows].astype(np.uint32)
        start += table.num_rows
        for indexed in columns:
            coded = code_column(table[indexed.column.id], indexed.key_type)
            changes = entering(coded, at) if sign > 0 else leaving(coded, at)
            yield indexed, coded.keys, changes.counts(), indexed.key_type


def _from_postings(
    record: FileRecord, columns: Sequence[IndexedColumn], positions: Positions, sign: int, run: _Run
) -> Iterator[_Counted]:
    """Values by the postings of the record's claim. Cost: every key of the column in that row space."""
    if record.space is None:
        raise CorruptIndexError(file=record.path, reason="its rows are counted, but it has no postings")
    wanted = _bitmap(positions).shift(record.base or 0)
    for indexed in columns:
        for segment in run.hidden.index.segments_of(record.space):
            if indexed.column.id not in segment.columns:
                continue
            keys, bitmaps = segment.select(indexed.column.id, [(None, False, None, False)])
            counts = [wanted.intersection_cardinality(b) for b in bitmaps]
            nulls = segment.lookup(indexed.column.id, None)
            every = pa.array([*keys, None] if nulls is not None else keys, pa.binary())
            counts += [] if nulls is None else [wanted.intersection_cardinality(nulls)]
            yield indexed, every, sign * np.array(counts, dtype=np.int64), segment.columns[indexed.column.id]


def _bitmap(positions: Positions) -> BitMap:
    import array

    return BitMap(array.array("I", positions.astype(np.uint32).tobytes()))


def _write_hidden(run: _Run) -> IndexFile | None:
    """The hidden rows that these files are counted under from now on, where they were under others."""
    found: dict[str, BitMap] = {}
    for work in run.task.works:
        target = work.target
        if target is not None and target.hidden is not None:
            if work.record is None or work.record.hidden != target.hidden.id:
                found[target.hidden.id] = run.hidden.of_slice(run.source, target) or BitMap()
    if not found:
        return None
    ids = sorted(found)
    table = pa.table(
        [ids, [len(found[i]) for i in ids], [found[i].serialize() for i in ids]], schema=_HIDDEN_SCHEMA
    )
    return write_index_file(
        run.index, _HIDDEN, _HIDDEN, lambda path: write_parquet(path, _HIDDEN_SCHEMA, [table])
    )


def _record(work: FileWork, claim: _Claimed | None, kept: bool, run: _Run) -> FileRecord:
    record, target = work.record, work.target
    if target is None:
        assert record is not None
        return replace(record, counted=False, hidden="", left=run.task.version)
    columns = tuple(sorted(c.column.id for c in run.task.columns))
    if record is None or not kept:
        assert claim is not None
        record = FileRecord(
            path=target.path,
            size=target.size,
            mtime=target.mtime,
            rows=claim.rows,
            footer=footer_hash(run.source, target.path),
            partition={},
            space=claim.space,
            base=claim.base,
            columns=(),
            counted=True,
            hidden="",
            lineage=run.task.lineage,
            entered=run.task.version,
            left=None,
        )
    return replace(
        record,
        mtime=target.mtime,
        partition=dict(target.partition),
        columns=columns,
        counted=True,
        hidden=target.hidden_id,
        lineage=run.task.lineage,
        left=None,
        error=None,
    )
