"""Eight index files of one size class become one, all kinds in one commit of removes and adds.

Size classes grow by eight, so a record is rewritten a constant number of times however long the history, and
a question meets at most seven files a class. Merging drops what no retained source version can reach; whoever
drops a file's bits drops its claim in the same commit, so that a RESTORE finds the file uncovered and indexes
it again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailbit.errors import ColumnTypeError, CommitConflictError
from tailbit.faults import Fault, fault_point
from tailbit.index.keys import widen_keys, widening_factor
from tailbit.index.kinds import records as kinds
from tailbit.index.kinds.bitmap_index.moves import Input, Moves, NewClaim, combine, lay_out
from tailbit.index.kinds.bitmap_index.segment import Postings, Segment, write_segment
from tailbit.index.kinds.lookups import add_up, row_groups
from tailbit.index.model import FileRecord, IndexFile
from tailbit.index.parquet.index_file import open_index_file
from tailbit.index.parquet.sorted_rows import aligned, regrouped, sort
from tailbit.index.store.table import IndexTable

FAN_IN = 8
"""Files of one size class that become one."""

MAX_ROWS = 1 << 26
"""Most rows of a merged row space."""

_SMALLEST = 4096
"""Bytes below eight times which all files are of one class."""

_ATTEMPTS = 5


@dataclass(frozen=True)
class MergeGroup:
    """Index files of one kind that become one or vanish; of segments, all those of some row spaces."""

    kind: str
    inputs: tuple[str, ...]
    spaces: tuple[str, ...] = ()
    size_class: int = 0


@dataclass(frozen=True)
class MergePlan:
    """What one merge commit does; files of source versions from `earliest` on keep their bits."""

    groups: tuple[MergeGroup, ...]
    earliest: int | None


@dataclass
class _Output:
    """What a written merge adds and removes, how claims move, and which hidden rows are dropped."""

    adds: list[IndexFile] = field(default_factory=list)
    removes: list[str] = field(default_factory=list)
    moved: list[NewClaim] = field(default_factory=list)
    forgotten: set[str] = field(default_factory=set)


def size_class(size: int, members: int = 0) -> int:
    """The class of a file by its bytes, of a row space by its bytes or its files, whichever is higher."""
    return max((max(1, size // _SMALLEST).bit_length() - 1) // 3, (max(1, members).bit_length() - 1) // 3)


def merge_due(index: IndexTable, earliest_version: int | None = None) -> list[MergePlan]:
    """The merge that is due, as one plan or none.

    `earliest_version`: the earliest source version that a reader may still ask for; None keeps every file's
    bits. Cost: one pass over the live index files; where that version has moved, one vectorised pass over the
    records.
    """
    groups = [*_small_groups(index), *_space_groups(index, earliest_version)]
    return [MergePlan(tuple(groups), earliest_version)] if groups else []


def run_merge(index: IndexTable, plan: MergePlan) -> bool:
    """Write and commit a merge; False where another writer has taken away its inputs meanwhile.

    Merged files are functions of immutable inputs and of claims. So when another writer commits something
    else first, only the moved claims are computed anew, on the reloaded state. Memory: one row group of every
    input.

    Raises:
        CorruptIndexError: an input does not check.
        StorageError: the storage refused; nothing is visible.
        CommitConflictError: other writers were first again and again.
    """
    if not all(_still_there(index, group) for group in plan.groups):
        return False
    output = _Output()
    for group in plan.groups:
        _WRITERS[group.kind](index, group, plan, output)
    fault_point(Fault.MERGE_WRITTEN)
    for attempt in range(_ATTEMPTS):
        try:
            _commit(index, output)
            break
        except CommitConflictError:
            if attempt == _ATTEMPTS - 1:
                raise
            index.refresh()
            if not all(_still_there(index, group) for group in plan.groups) or _came_back(index, output):
                return False
    fault_point(Fault.MERGE_COMMITTED)
    return True


def merge_all(index: IndexTable, earliest_version: int | None = None) -> int:
    """Merge until nothing is due; the number of merges committed.

    Raises:
        CommitConflictError: an indexer committed again and again at the same moments; try again.
    """
    done = 0
    while plans := merge_due(index, earliest_version):
        done += sum(run_merge(index, plan) for plan in plans)
    return done


def reachable(record: FileRecord, earliest: int | None) -> bool:
    """Whether a source version from `earliest` on holds the file."""
    return earliest is None or record.left is None or record.left > earliest


def _commit(index: IndexTable, output: _Output) -> None:
    index.commit(
        list(_rebased(index, output.moved)), output.adds, None, removes=output.removes, data_change=False
    )


def _rebased(index: IndexTable, moved: Sequence[NewClaim]) -> Iterator[FileRecord]:
    """The newest records with their new claims; a file that claims another range by now is left alone."""
    now = {record.path: record for record in index.recorded.get_all(claim.path for claim in moved)}
    for claim in moved:
        record = now.get(claim.path)
        if record is not None and (record.space, record.base) == (claim.space, claim.base):
            yield kinds.reclaimed(record, claim.new_space, claim.new_base)


def _still_there(index: IndexTable, group: MergeGroup) -> bool:
    """Whether the inputs are live, and are still all there is of their row spaces."""
    present = {s.path for space in group.spaces for s in index.segments_of(space)}
    return all(path in index.files for path in group.inputs) and present <= set(group.inputs)


def _came_back(index: IndexTable, output: _Output) -> bool:
    """Whether something that the merge has dropped is in use again, as after a RESTORE of the source."""
    dropped = index.recorded.get_all(claim.path for claim in output.moved if claim.new_space is None)
    if any(record.left is None for record in dropped):
        return True
    return bool(output.forgotten) and not output.forgotten.isdisjoint(index.recorded.identities())


def _small_groups(index: IndexTable) -> Iterator[MergeGroup]:
    for kind in (kinds.FILES, kinds.VALUE_COUNTS, kinds.HIDDEN_ROWS):
        classes: dict[int, list[str]] = {}
        for file in index.files_of(kind):
            classes.setdefault(size_class(file.size), []).append(file.path)
        for number, paths in classes.items():
            if len(paths) >= FAN_IN:
                yield MergeGroup(kind, tuple(paths), size_class=number)


def _space_groups(index: IndexTable, earliest: int | None) -> Iterator[MergeGroup]:
    claimed = index.recorded.by_space
    classes: dict[int, list[str]] = {}
    spent = {space for space in index.spaces() if not claimed.get(space)} | _with_dropped(index)
    if earliest is not None:
        spent |= index.recorded.mostly_unreachable(earliest) & index.spaces().keys()
    for space, segments in index.spaces().items():
        size = sum(index.files[s.path].size for s in segments)
        classes.setdefault(size_class(size, len(claimed.get(space, ()))), []).append(space)
    taken = spent
    for number, spaces in sorted(classes.items()):
        if len(spaces) >= FAN_IN:
            fitting = _fitting(index, _alike(index, [s for s in spaces if s not in spent]))
            if len(fitting) > 1:
                taken = taken - set(fitting)
                yield _space_group(index, fitting, number)
    yield from (_space_group(index, [space], 0) for space in sorted(taken))


def _with_dropped(index: IndexTable) -> set[str]:
    """Row spaces that hold bits of a column that is not indexed any more: no file has it posted.

    Cost: what is in the footers of segments, once some column is dropped.
    """
    gone = set(index.settings.dropped).difference(column.id for column in index.settings.columns)
    spaces = index.spaces().items() if gone else ()
    return {space for space, held in spaces if any(not gone.isdisjoint(s.columns) for s in held)}


def _space_group(index: IndexTable, spaces: Sequence[str], number: int) -> MergeGroup:
    inputs = tuple(s.path for space in spaces for s in index.segments_of(space))
    return MergeGroup(kinds.BITMAP_INDEX, inputs, tuple(spaces), number)


def _alike(index: IndexTable, spaces: Sequence[str]) -> list[str]:
    """The most row spaces whose keys of every column can be of one type.

    After REPLACE TABLE a column may have another type, to which that of the old files does not widen.
    """
    groups: list[tuple[list[str], dict[str, set[str]]]] = []
    for space in spaces:
        types = _types(index, space)
        for members, known in groups:
            if all(_unites(known.get(column, set()) | found) for column, found in types.items()):
                members.append(space)
                for column, found in types.items():
                    known.setdefault(column, set()).update(found)
                break
        else:
            groups.append(([space], types))
    return max((members for members, _ in groups), key=len, default=[])


def _types(index: IndexTable, space: str) -> dict[str, set[str]]:
    """Column to the types of its keys in a row space."""
    found: dict[str, set[str]] = {}
    for segment in index.segments_of(space):
        for column, key_type in segment.columns.items():
            found.setdefault(column, set()).add(key_type)
    return found


def _unites(key_types: Set[str]) -> bool:
    return len(key_types) == 1 or _widest(key_types) is not None


def _fitting(index: IndexTable, spaces: Sequence[str]) -> list[str]:
    """As many row spaces, smallest first, as fit into one."""
    rows = {space: index.recorded.claimed_rows(space) for space in spaces}
    chosen, total = [], 0
    for space in sorted(spaces, key=lambda s: (rows[s], s)):
        if total + rows[space] > MAX_ROWS:
            break
        chosen.append(space)
        total += rows[space]
    return chosen


def _merge_files(index: IndexTable, group: MergeGroup, plan: MergePlan, output: _Output) -> None:
    """Newest record per path; a record that says "nothing is known" goes where no older one can come back."""
    rows = kinds.newest_per_path(
        pa.concat_tables([kinds.read_records(index.storage, path) for path in group.inputs])
    )
    others = [f.path for f in index.files_of(kinds.FILES) if f.path not in group.inputs]
    oldest_outside = min((_lowest_seq(index, path) for path in others), default=1 << 62)
    blank = pc.and_(pc.is_null(rows["space"]), pc.is_valid(rows["left"]))
    blank = pc.and_(blank, pc.and_(pc.invert(rows["counted"]), pc.is_null(rows["error"])))
    rows = rows.filter(pc.invert(pc.and_(blank, pc.less(rows["seq"], oldest_outside))))
    _replace(output, group, [kinds.write_records(index.storage, rows, kinds.FILES)] if len(rows) else [])


def _lowest_seq(index: IndexTable, path: str) -> int:
    seqs = kinds.read_records(index.storage, path)["seq"]
    return int(pc.min(seqs).as_py() or 0)


def _merge_counts(index: IndexTable, group: MergeGroup, plan: MergePlan, output: _Output) -> None:
    by = ["column", "key_type", "key"]
    inputs = [_batches(index, path, kinds.VALUE_COUNTS) for path in group.inputs]
    sums = (add_up(rows).select(kinds.SCHEMAS[kinds.VALUE_COUNTS].names) for rows in aligned(inputs, by))
    _replace(output, group, kinds.write_stream(index.storage, sums, kinds.VALUE_COUNTS))


def _merge_hidden(index: IndexTable, group: MergeGroup, plan: MergePlan, output: _Output) -> None:
    """One row per identity; in larger merges only those in use now, since the source has the rest."""
    current = None if group.size_class == 0 else pa.array(list(index.recorded.identities()), pa.string())
    inputs = [_batches(index, path, kinds.HIDDEN_ROWS) for path in group.inputs]
    kept = (_distinct(rows, current, output.forgotten) for rows in aligned(inputs, ["id"]))
    _replace(output, group, kinds.write_stream(index.storage, kept, kinds.HIDDEN_ROWS))


def _distinct(rows: pa.Table, current: pa.Array | None, forgotten: set[str]) -> pa.Table:
    if current is not None:
        kept = pc.is_in(rows["id"], value_set=current)
        forgotten.update(rows["id"].filter(pc.invert(kept)).to_pylist())
        rows = rows.filter(kept)
    codes = np.asarray(rows["id"].combine_chunks().dictionary_encode().indices)
    first = np.unique(codes, return_index=True)[1]
    rows = rows.take(pa.array(first))
    return sort(rows, ["id"])


def _merge_spaces(index: IndexTable, group: MergeGroup, plan: MergePlan, output: _Output) -> None:
    claims = [index.recorded.claims(space) for space in group.spaces]
    space = uuid.uuid4().hex
    moves, moved, rows = lay_out(claims, lambda record: reachable(record, plan.earliest), space)
    output.moved += moved
    posted = {column for records in claims for record in records for column in record.columns}
    postings = _postings(index, group, moves, posted)
    _replace(output, group, [write_segment(index.storage, space, rows, postings)] if rows else [])


def _postings(
    index: IndexTable, group: MergeGroup, moves: Sequence[Moves], posted: Set[str]
) -> Iterator[Postings]:
    """The merged postings, column by column, keys in order; none of a column that no file has posted."""
    sources = [(n, s) for n, space in enumerate(group.spaces) for s in index.segments_of(space)]
    for column in sorted(posted & {c for _, s in sources for c in s.columns}):
        mine = [(n, s) for n, s in sources if column in s.columns]
        key_type = widest({s.columns[column] for _, s in mine})
        inputs = [Input(moves[n], s.path, s.rows) for n, s in mine]
        read = [_posting_batches(index, s, column, key_type, at) for at, (_, s) in enumerate(mine)]
        for part in regrouped(combine(sort(rows, ["key"]), inputs) for rows in aligned(read, ["key"])):
            cardinality = np.asarray(part["cardinality"], dtype=np.int64)
            yield Postings(column, key_type, _whole(part["key"]), cardinality, _whole(part["bitmap"]))


def widest(key_types: Set[str]) -> str:
    """The one of some key types of a column that all others widen to.

    Raises:
        ColumnTypeError: there is none; row spaces of such types are not merged with each other.
    """
    found = _widest(key_types)
    if found is None:
        types = ", ".join(sorted(key_types))
        raise ColumnTypeError(column="", type=types, reason="none holds the values of all others")
    return found


def _widest(key_types: Set[str]) -> str | None:
    held = (c for c in sorted(key_types) if all(_widens(other, c) for other in key_types))
    return next(held, None)


def _widens(narrow: str, wide: str) -> bool:
    try:
        return widening_factor(narrow, wide) > 0
    except ColumnTypeError:
        return False


def _whole(column: pa.ChunkedArray) -> pa.BinaryArray:
    return column.combine_chunks()


def _posting_batches(
    index: IndexTable, segment: Segment, column: str, key_type: str, source: int
) -> Iterator[pa.Table]:
    stored = segment.columns[column]
    for rows in _batches(index, segment.path, kinds.BITMAP_INDEX, column):
        rows = rows.filter(pc.equal(rows["column"], column)).select(["key", "cardinality", "bitmap"])
        if stored != key_type:
            rows = rows.set_column(0, "key", widen_keys(rows["key"].combine_chunks(), stored, key_type))
        yield rows.append_column("source", pa.array(np.full(len(rows), source, dtype=np.int64)))


def _batches(index: IndexTable, path: str, kind: str, column: str | None = None) -> Iterator[pa.Table]:
    """The row groups of one index file, of those that hold `column` where one is given."""
    with kinds.reading(path), open_index_file(index.storage, path) as file:
        groups: Iterable[int] = range(file.metadata.num_row_groups)
        if column is not None:
            groups = row_groups(file.metadata, "column", column)
        for group in groups:
            with kinds.reading(path):
                rows = file.read_row_group(group)
            yield kinds.conform(rows, kind)


def _replace(output: _Output, group: MergeGroup, written: Sequence[IndexFile]) -> None:
    output.adds += written
    output.removes += group.inputs


_WRITERS: Mapping[str, Callable[[IndexTable, MergeGroup, MergePlan, _Output], None]] = {
    kinds.FILES: _merge_files,
    kinds.VALUE_COUNTS: _merge_counts,
    kinds.HIDDEN_ROWS: _merge_hidden,
    kinds.BITMAP_INDEX: _merge_spaces,
}
