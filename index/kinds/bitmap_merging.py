"""Row spaces merged into one: which are due, where their positions move, and postings united by key.

Moves of positions from old row spaces to the merged one, applied to bitmaps and to arrays. The claim of a
file is its range `[base, base + rows)` of a row space. Positions outside the kept claims vanish. Neighbouring
claims that stay neighbours move together, so a row space without gaps costs one mask and one shift per
bitmap.

Worked example: a row space of files a, b and c, of which b is dropped, and then a row space of file d.

    old position     0    1    2    3    4    5    6    7    |    0    1    2
    file, row        a 0  a 1  a 2  b 0  b 1  b 2  c 0  c 1  |  d 0  d 1  d 2
    starts, ends     [0, 3) and [6, 8)                       |  [0, 3)
    targets          0 and 3                                 |  5
    new position     0    1    2    -    -    -    3    4    |    5    6    7

    posting of UA    {0 2 4 7} becomes {0 2 4}               |  {1} becomes {6}; united: {0 2 4 6}
    posting of AA    {3} vanishes

Union of the postings of several row spaces, key by key, as postings of one row space. Sparse postings are
moved all at once, as arrays; each dense one costs a few C calls. Each key is encoded again by its merged
size: a sparse key may become dense, and vice versa.

Claims are laid end to end, and postings of equal keys are united. Memory: one row group of every input.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.arrays import Longs
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import ColumnTypeError, CorruptIndexError
from tailbit.base.once import once
from tailbit.index.index_files import aligned, regrouped, sort, starts
from tailbit.index.keys import widen_keys, widest
from tailbit.index.kinds.files import RecordedFiles
from tailbit.index.kinds.kind import FAN_IN, Merged, MergeGroup, View, size_class
from tailbit.index.kinds.settings import PostingForms
from tailbit.index.model import ROWS_PER_SPACE, FileRecord, NewClaim, Settings, raised_id
from tailbit.index.postings import gaps
from tailbit.index.postings.gaps import FIRST, Gaps, encoded
from tailbit.index.postings.layout import NAME
from tailbit.index.postings.postings import Postings, write_paged_segment, write_segment
from tailbit.index.postings.row_group import read_bitmap
from tailbit.index.postings.segment import STORED, Segment
from tailbit.index.roaring.containers import pays, ranges, roaring_bytes
from tailbit.tables.arrow import arrow_array, numpy_of
from tailbit.tables.positions import BitPositions, bitmap_of, positions_in
from tailbit.tables.storage import Storage

Spaces = Mapping[str, Sequence[Segment]]


def due_spaces(
    spaces: Spaces, view: View, recorded: RecordedFiles, earliest: int | None
) -> Iterator[MergeGroup]:
    """Yield the merges that are due: row spaces of one size class together, then single row spaces.

    Row spaces are merged together if their class is full and their rows fit into one row space. A row space
    is merged alone if it has no claims, if half or more of its claimed rows are unreachable, or if it has
    postings of a dropped column.
    """
    claims = recorded.claim_counts()
    classes: dict[int, list[str]] = {}
    spent = {space for space in spaces if space not in claims} | _with_dropped(spaces, view.settings)
    if earliest is not None:
        spent |= recorded.mostly_unreachable(earliest) & spaces.keys()
    for space, segments in spaces.items():
        size = sum(view.files[s.path].size for s in segments)
        classes.setdefault(size_class(size, claims.get(space, 0)), []).append(space)
    alone = spent
    for number, members in sorted(classes.items()):
        if len(members) >= FAN_IN:
            fitting = _fitting(recorded, _alike(spaces, [s for s in members if s not in spent]))
            if len(fitting) > 1:
                alone = alone - set(fitting)
                yield _group(spaces, fitting, number)
    yield from (_group(spaces, [space], 0) for space in sorted(alone))


def _group(spaces: Spaces, members: Sequence[str], number: int) -> MergeGroup:
    inputs = tuple(segment.path for space in members for segment in spaces[space])
    return MergeGroup(NAME, inputs, tuple(members), number)


def _with_dropped(spaces: Spaces, settings: Settings) -> set[str]:
    """Return the row spaces with postings of a dropped column.

    Cost: reads the footers of segments, if any column was dropped.
    """
    gone = set(settings.dropped).difference(definition.id for definition in settings.definitions)
    if not gone:
        return set()
    return {
        space for space, segments in spaces.items() if any(not gone.isdisjoint(s.columns) for s in segments)
    }


def _alike(spaces: Spaces, members: Sequence[str]) -> list[str]:
    """Return the largest set of row spaces whose keys are compatible in every column.

    After REPLACE TABLE a column may have a new type, to which the old type does not widen, or widens without
    some of the old values.
    """
    groups: list[tuple[list[str], dict[str, set[str]]]] = []
    for space in members:
        types = _types(spaces[space])
        for group, types_of_group in groups:
            united = {
                column: types_of_group.get(column, set()) | key_types for column, key_types in types.items()
            }
            if _all_widen((*group, space), spaces, united):
                group.append(space)
                for column, key_types in types.items():
                    types_of_group.setdefault(column, set()).update(key_types)
                break
        else:
            groups.append(([space], types))
    return max((group for group, _ in groups), key=len, default=[])


def _all_widen(members: Sequence[str], spaces: Spaces, types: Mapping[str, set[str]]) -> bool:
    """Return whether the keys of some row spaces widen to one type in every column.

    Widening keeps the order, so that the least and the greatest key of a segment speak for all.
    """
    wide = {column: widest(key_types) for column, key_types in types.items()}
    if None in wide.values():
        return False
    several = {column: to for column, to in wide.items() if len(types[column]) > 1}
    if not several:
        return True
    try:
        for segment in (segment for space in members for segment in spaces[space]):
            for column, to in several.items():
                if to is not None and segment.columns.get(column, to) != to:
                    ends = arrow_array(segment.ends(column), pa.binary())
                    widen_keys(ends, segment.columns[column], to)
    except ColumnTypeError:
        return False
    return True


def _types(segments: Sequence[Segment]) -> dict[str, set[str]]:
    """Map each column of a row space to the key types of its segments."""
    types: dict[str, set[str]] = {}
    for segment in segments:
        for column, key_type in segment.columns.items():
            types.setdefault(column, set()).add(key_type)
    return types


def _fitting(recorded: RecordedFiles, spaces: Sequence[str]) -> list[str]:
    """Return the smallest row spaces, as many as fit into one row space together."""
    rows = {space: recorded.claimed_rows(space) for space in spaces}
    chosen, total = [], 0
    for space in sorted(spaces, key=lambda s: (rows[s], s)):
        if total + rows[space] > ROWS_PER_SPACE:
            break
        chosen.append(space)
        total += rows[space]
    return chosen


_FEW_RUNS = 8


@dataclass(frozen=True)
class Moves:
    """Moves of one old row space: int64 starts, ends and new starts of its runs, sorted by start.

    Invariant: runs do not overlap, before or after.
    """

    starts: Longs
    ends: Longs
    targets: Longs

    @once
    def remaining(self) -> BitMap:
        """Return the old positions that move; all others vanish."""
        bits = BitMap()
        for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True):
            bits.add_range(start, end)
        return bits

    def move(self, bits: BitMap) -> BitMap:
        """Move a bitmap to its new positions. Cost: a mask and a shift per run, or one array pass."""
        shifts = (self.targets - self.starts).tolist()
        if len(shifts) == 1 and bits and self.starts[0] <= bits.min() and bits.max() < self.ends[0]:
            return bits.shift(shifts[0])
        bits = bits & self.remaining
        if len(shifts) == 1 or not bits:
            return bits.shift(shifts[0]) if bits else bits
        if len(shifts) <= _FEW_RUNS:
            runs = zip(self.starts.tolist(), self.ends.tolist(), shifts, strict=True)
            return BitMap.union(*((bits & BitMap(range(a, b))).shift(by) for a, b, by in runs))
        moved = self.positions(positions_in(bits).astype(np.int64))
        return bitmap_of(moved)

    def positions(self, old: Longs) -> Longs:
        """Return the new positions of old ones; -1 for those that vanish."""
        if not len(self.starts):
            return np.full(len(old), -1, dtype=np.int64)
        run = np.searchsorted(self.starts, old, side="right") - 1
        inside = (run >= 0) & (old < self.ends[run])
        return np.where(inside, old - self.starts[run] + self.targets[run], -1)


class Input(NamedTuple):
    """An input segment of a merge: its row space's moves, its path, and the row count of its row space."""

    moves: Moves
    path: str
    rows: int


def move_all(inputs: Sequence[Input], source: Longs, counts: Longs, old: Longs) -> Longs:
    """Return the new positions of postings of several row spaces, end to end; -1 for those that vanish.

    `old`: the old positions, one posting after the other. `source`, `counts`: per posting, the number of its
    input, and its number of positions. Cost: some vector operations per position.
    """
    if all(len(i.moves.starts) == 1 for i in inputs):
        low, high, to = (
            np.array([side[0] for side in sides], dtype=np.int64)
            for sides in zip(*((i.moves.starts, i.moves.ends, i.moves.targets) for i in inputs), strict=True)
        )
        moved = old + np.repeat((to - low)[source], counts)
        if all(i.moves.starts[0] == 0 and i.moves.ends[0] == i.rows for i in inputs):
            return moved
        inside = (old >= np.repeat(low[source], counts)) & (old < np.repeat(high[source], counts))
        return np.where(inside, moved, -1)
    far = [(number << 33) for number in range(len(inputs))]
    every = Moves(
        np.concatenate([i.moves.starts + by for i, by in zip(inputs, far, strict=True)]),
        np.concatenate([i.moves.ends + by for i, by in zip(inputs, far, strict=True)]),
        np.concatenate([i.moves.targets for i in inputs]),
    )
    return every.positions(old + np.repeat(source << 33, counts))


def lay_out(
    claims: Sequence[Sequence[FileRecord]], keep: Callable[[FileRecord], bool], space: str
) -> tuple[list[Moves], list[NewClaim], int]:
    """Lay the claims of old row spaces end to end in the new row space `space`.

    `claims`: per old row space, by base. A file for which `keep` is False loses its claim.

    Returns: the moves of each old row space, the new claims, and the rows of the new row space.
    """
    moves, moved, top = [], [], 0
    for old in claims:
        runs: list[list[int]] = []
        for record in old:
            base, rows = record.base or 0, record.rows or 0
            if not keep(record):
                moved.append(NewClaim(record.path, record.space or "", base, None, None))
                continue
            if runs and runs[-1][1] == base:
                runs[-1][1] += rows
            elif rows:
                runs.append([base, base + rows, top])
            moved.append(NewClaim(record.path, record.space or "", base, space, top))
            top += rows
        moves.append(Moves(*np.array(runs, dtype=np.int64).reshape(-1, 3).T))
    return moves, moved, top


def combine(rows: pa.Table, inputs: Sequence[Input]) -> pa.Table:
    """Merge the postings per key; return one row per key that keeps a position.

    `rows`: the columns `segment.STORED` and source (number in `inputs`) of one column, sorted by key, so that
    equal keys are neighbours. Returns those columns in the same order.
    """
    group = np.cumsum(np.bincount(starts(rows, ["key"]), minlength=len(rows))) - 1
    source = numpy_of(rows["source"], dtype=np.int64)
    counts = numpy_of(rows["cardinality"], dtype=np.int64)
    dense = numpy_of(rows[FIRST].is_null())
    as_bits = (np.bincount(group, weights=dense) > 0)[group]
    merged = [_sparse(rows, group, source, counts, np.flatnonzero(~as_bits), inputs)]
    if as_bits.any():
        merged.append(_dense(rows, group, source, counts, np.flatnonzero(as_bits), inputs))
    out = pa.concat_tables([_encoded(piece) for piece in merged])
    row_numbers = np.concatenate([piece.rows for piece in merged])
    keys = rows["key"].combine_chunks()
    if len(merged) > 1:
        order = np.argsort(row_numbers)
        row_numbers, out = row_numbers[order], out.take(arrow_array(order))
    return out.add_column(
        0, "key", keys if len(row_numbers) == len(keys) else keys.take(arrow_array(row_numbers))
    )


class _Merged:
    """Merged keys that keep at least one position.

    `at`: row of each key in the input. `counts`: number of its positions. `bitmaps`: bitmap of each key, or
    None if its positions are in `positions`; the whole list is None if no key has a bitmap.
    """

    def __init__(
        self,
        rows: Longs,
        counts: Longs,
        positions: BitPositions,
        bitmaps: Sequence[bytes | None] | None = None,
    ) -> None:
        self.rows, self.counts, self.positions, self.bitmaps = rows, counts, positions, bitmaps


def _encoded(piece: _Merged) -> pa.Table:
    cardinality = arrow_array(piece.counts)
    counts = piece.counts
    if piece.bitmaps is None:
        bitmaps = pa.nulls(len(counts), pa.binary())
    else:
        bitmaps = arrow_array(piece.bitmaps, pa.binary())
        counts = np.where(numpy_of(bitmaps.is_null()), counts, 0)
    sparse = encoded(piece.positions, counts)
    return sparse.add_column(0, "cardinality", cardinality).add_column(1, "bitmap", bitmaps)


def _sparse(
    rows: pa.Table, group: Longs, source: Longs, counts: Longs, own_rows: Longs, inputs: Sequence[Input]
) -> _Merged:
    """Merge the keys that are sparse in every input."""
    if not len(own_rows):
        return _Merged(own_rows, own_rows, np.zeros(0, dtype=np.uint32))
    if len(own_rows) < len(rows):
        rows, group, source, counts = (
            rows.take(arrow_array(own_rows)),
            group[own_rows],
            source[own_rows],
            counts[own_rows],
        )
    moved = move_all(inputs, source, counts, _read(rows, source, counts, inputs))
    owner = np.repeat(group, counts)
    if moved.min() < 0:
        moved, owner = moved[moved >= 0], owner[moved >= 0]
    moved, owner = _rising(moved, owner)
    counts_of_groups = np.bincount(owner - group[0], minlength=int(group[-1] - group[0]) + 1)
    firsts = np.flatnonzero(np.diff(group, prepend=group[0] - 1))
    remaining = counts_of_groups[group[firsts] - group[0]]
    row_numbers = own_rows[firsts[remaining > 0]]
    return _as_they_pay(row_numbers, remaining[remaining > 0], moved.astype(np.uint32))


def _read(rows: pa.Table, source: Longs, counts: Longs, inputs: Sequence[Input]) -> Longs:
    """Return the positions of sparse postings in their old row spaces."""
    extents = np.array([i.rows for i in inputs], dtype=np.int64)
    sparse = Gaps.of(rows, counts, int(extents.max()))
    twice = np.flatnonzero(numpy_of(rows["bitmap"].is_valid()))
    try:
        if len(twice):
            raise ValueError("a posting has two forms")
        positions = sparse.positions(0, len(rows)).astype(np.int64)
        beyond = np.flatnonzero(positions[np.cumsum(counts) - 1] >= extents[source])
        if len(beyond):
            raise ValueError("a position is beyond the rows")
    except ValueError as damage:
        paths = ", ".join(sorted({inputs[number].path for number in np.unique(source).tolist()}))
        raise CorruptIndexError(file=paths, reason=str(damage)) from damage
    return positions


def _rising(moved: Longs, owner: Longs) -> tuple[Longs, Longs]:
    """Return positions and owners, sorted by owner and position, without duplicates.

    The input lacks this order only if segments of one row space share a key.
    """
    falls = (moved[1:] <= moved[:-1]) & (owner[1:] == owner[:-1])
    if not falls.any():
        return moved, owner
    order = np.lexsort((moved, owner))
    moved, owner = moved[order], owner[order]
    once = np.r_[True, (moved[1:] != moved[:-1]) | (owner[1:] != owner[:-1])]
    return moved[once], owner[once]


def _as_they_pay(row_numbers: Longs, counts: Longs, positions: BitPositions) -> _Merged:
    """Keep the sparse form of the keys for which it still pays; give the other keys bitmaps."""
    ends = np.cumsum(counts)
    if not len(row_numbers):
        return _Merged(row_numbers, counts, positions)
    firsts, lasts = positions[ends - counts].astype(np.int64), positions[ends - 1].astype(np.int64)
    sparse = pays(counts, firsts, lasts, roaring_bytes(positions, counts))
    if sparse.all():
        return _Merged(row_numbers, counts, positions)
    bitmaps: list[bytes | None] = [None] * len(row_numbers)
    for i in np.flatnonzero(~sparse).tolist():
        bits = bitmap_of(positions[ends[i] - counts[i] : ends[i]])
        bits.run_optimize()
        bitmaps[i] = bits.serialize()
    stay = positions[ranges((ends - counts)[sparse], counts[sparse])]
    return _Merged(row_numbers, counts, stay, bitmaps)


def _dense(
    rows: pa.Table, group: Longs, source: Longs, counts: Longs, own_rows: Longs, inputs: Sequence[Input]
) -> _Merged:
    """Merge the keys that are dense in some input."""
    cuts = np.append(np.flatnonzero(np.diff(group[own_rows], prepend=-1)), len(own_rows)).tolist()
    read = _Bitmaps(rows.take(arrow_array(own_rows)), source[own_rows], counts[own_rows], inputs)
    firsts: list[int] = []
    merged_bitmaps: list[BitMap] = []
    for a, b in pairwise(cuts):
        moved = [read.moved(i) for i in range(a, b)]
        bits = moved[0] if len(moved) == 1 else BitMap.union(*moved)
        if bits:
            firsts.append(int(own_rows[a]))
            merged_bitmaps.append(bits)
    data = [bits.serialize() for bits in merged_bitmaps]
    numbers = [
        (len(bits), bits.min(), bits.max(), len(d)) for bits, d in zip(merged_bitmaps, data, strict=True)
    ]
    sizes = np.array(numbers, dtype=np.int64).reshape(-1, 4)
    sparse = pays(*sizes.T)
    listed = [positions_in(merged_bitmaps[i]) for i in np.flatnonzero(sparse).tolist()]
    positions = np.concatenate([np.zeros(0, dtype=np.uint32), *listed])
    bitmaps = [None if alone else d for alone, d in zip(sparse.tolist(), data, strict=True)]
    return _Merged(np.array(firsts, dtype=np.int64), sizes[:, 0], positions, bitmaps)


class _Bitmaps:
    """Reader of postings, dense or sparse, as bitmaps in the merged row space."""

    def __init__(self, rows: pa.Table, source: Longs, counts: Longs, inputs: Sequence[Input]) -> None:
        self._data = rows["bitmap"].to_pylist()
        self._counts, self._origins = counts.tolist(), [inputs[number] for number in source.tolist()]
        self._sparse = Gaps.of(rows, counts, max(i.rows for i in inputs))
        self._is_sparse = self._sparse.is_sparse.tolist()

    def moved(self, row: int) -> BitMap:
        """Return the posting of row `row`, moved to the merged row space."""
        origin = self._origins[row]
        moves: Moves = origin.moves
        if not self._is_sparse[row]:
            data = self._data[row] or b""
            bits = read_bitmap(data, self._counts[row], origin.rows, origin.path)
            return moves.move(bits)
        try:
            bits = bitmap_of(self._sparse.positions(row, row + 1))
        except ValueError as damage:
            raise CorruptIndexError(file=origin.path, reason=str(damage)) from damage
        if bits.max() >= origin.rows:
            reason = f"position {bits.max()} is beyond the {origin.rows} rows"
            raise CorruptIndexError(file=origin.path, reason=reason)
        return moves.move(bits)


def merge_spaces(
    storage: Storage,
    spaces: Sequence[Sequence[Segment]],
    claims: Sequence[Sequence[FileRecord]],
    earliest: int | None,
    forms: PostingForms,
) -> Merged:
    """Write the postings and claims of some row spaces as one row space; drop claims of unreachable files."""
    paged = forms.paged
    space = uuid.uuid4().hex
    moves, moved, rows = lay_out(claims, lambda record: record.is_reachable(earliest), space)
    built = {id_ for records in claims for record in records for id_ in record.built}
    posted = built | {raised_id(id_) for id_ in built}
    files = []
    in_pages = _has_any(spaces, posted & paged)
    if rows and (not in_pages or _has_any(spaces, posted - paged)):
        files.append(
            write_segment(storage, space, rows, _postings(spaces, moves, posted - paged), forms.share)
        )
    if rows and in_pages:
        postings = _postings(spaces, moves, posted & paged)
        files.append(write_paged_segment(storage, space, rows, postings, forms.packs))
    return Merged(tuple(files), tuple(moved))


def _has_any(spaces: Sequence[Sequence[Segment]], ids: Set[str]) -> bool:
    return bool(ids) and any(not ids.isdisjoint(s.columns) for segments in spaces for s in segments)


def _postings(
    spaces: Sequence[Sequence[Segment]], moves: Sequence[Moves], posted: Set[str]
) -> Iterator[Postings]:
    """Yield the merged postings, column by column, keys in order.

    Columns that no file has posted are left out.
    """
    sources = [(number, segment) for number, segments in enumerate(spaces) for segment in segments]
    for column in sorted(posted & {c for _, s in sources for c in s.columns}):
        own_segments = [(n, s) for n, s in sources if column in s.columns]
        types = {s.columns[column] for _, s in own_segments}
        key_type = widest(types)
        if key_type is None:
            type_names = ", ".join(sorted(types))
            raise ColumnTypeError(
                column=column, type=type_names, reason="none holds the values of all others"
            )
        inputs = [Input(moves[n], s.path, s.rows) for n, s in own_segments]
        batches = [_batches(s, column, key_type, place) for place, (_, s) in enumerate(own_segments)]
        for batch in regrouped(combine(sort(rows, ["key"]), inputs) for rows in aligned(batches, ["key"])):
            cardinality = numpy_of(batch["cardinality"], dtype=np.int64)
            keys, bitmaps = batch["key"].combine_chunks(), batch["bitmap"].combine_chunks()
            yield Postings(column, key_type, keys, cardinality, bitmaps, batch.select(gaps.COLUMNS))


def _batches(segment: Segment, column: str, key_type: str, source: int) -> Iterator[pa.Table]:
    stored = segment.columns[column]
    for _, read in segment.row_groups(column):
        rows = read(STORED)
        if stored != key_type:
            rows = rows.set_column(0, "key", widen_keys(rows["key"].combine_chunks(), stored, key_type))
        yield rows.append_column("source", pa.array(np.full(len(rows), source, dtype=np.int64)))
