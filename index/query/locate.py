"""Location of rows by key: for each key, the file and position of every row that has the key.

A key is a value of one column, or a tuple of values of several, none of them NULL. Where the key column, or a
tuple of exactly the key columns, has postings, the rows are found by these; those of long texts, which
postings truncate, are read and compared. All other rows are found by the condition `IN` over each key column.
For keys of several columns it also holds for rows that have no key, so the key columns of the found rows are
read and compared. So the result is right at any lag of the index.

Worked example: three keys of (carrier, flight): no row has the second, and two rows have the third.

    keys     rows where both columns are in                 path         position
    UA  1    UA 1 in a.parquet at 0                         a.parquet    0
    UA  6                                                   null         null
    DL  6    DL 6 in b.parquet at 1 and 2                   b.parquet    1
                                                            b.parquet    2
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import CorruptIndexError, DataFileError
from tailbit.base.once import once
from tailbit.index.evaluation.row_space import SpaceView
from tailbit.index.expression.indexed_term import IndexedTuple
from tailbit.index.functions.vectors import canonical
from tailbit.index.keys import MAX_KEY, encode_array, is_textual, key_type_of
from tailbit.index.postings.segment import Segment
from tailbit.index.postings.sorted_keys import LookupKeys, ascending, keys_at, order_by_digits
from tailbit.index.predicate.tree import Constant, Leaf, Node, all_of
from tailbit.index.predicate.value_sets import ValueSet
from tailbit.index.query.key_join import MANY, KeyJoin
from tailbit.index.query.lookup import KeyRows, are_most, by_hash, is_scanned, rechecked, rows_of_keys
from tailbit.index.query.selection import Selection
from tailbit.index.tuple_keys import join_parts, tuple_of
from tailbit.index.values.given_keys import converted
from tailbit.tables import compute as pc
from tailbit.tables.ahead import in_order
from tailbit.tables.arrow import arrow_array, arrow_scalar, in_one, numpy_of
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.parquet.rows import each_batch
from tailbit.tables.partition_values import partition_array
from tailbit.tables.schema import arrow_type

_PATH, _POSITION = "path", "position"
"""The result columns: the path as in the log, decoded, and the 0-based physical row."""


def place_names(keys: Iterable[str]) -> tuple[str, str]:
    """Return the names of the columns of paths and positions, beside key columns.

    Where a key column has one of these names, in whatever case, both begin with another underscore.

    >>> place_names(["id"]), place_names(["Path", "_position"])
    (('path', 'position'), ('__path', '__position'))
    """
    used, prefix = {name.lower() for name in keys}, ""
    while used & {prefix + _PATH, prefix + _POSITION}:
        prefix += "_"
    return prefix + _PATH, prefix + _POSITION


_SAMPLE = 1 << 10
"""Keys by which it is estimated how many of all keys may be in a row space."""


class _Ascending(NamedTuple):
    """Keys in ascending order of their bytes, and the number of each.

    `truncated`: mask, by number, of the keys whose bytes other keys may have; None if there are none.
    """

    keys: LookupKeys
    numbers: Longs
    truncated: Mask | None


@dataclass(frozen=True, eq=False)
class Keys:
    """Distinct keys to locate, in the order in which the caller first gave each of them.

    `columns`: the key columns of the table. `given`: a row per key, with its values as the caller gave them;
    `values`: per key column, the same values in the type in which they are compared; `_order`: the order of
    the keys by all columns, if it is known.
    """

    columns: Sequence[Column]
    given: pa.Table
    values: Sequence[pa.Array]
    _order: Longs | None = None
    _orders: dict[tuple[int, ...], _Ascending] = field(default_factory=dict)

    @staticmethod
    def of(columns: Sequence[Column], given: pa.Table) -> Keys:
        """Return the keys of a table whose rows are keys; `given` has a column per key column, in order."""
        values = [converted(column, array) for column, array in zip(columns, given.columns, strict=True)]
        return Keys._of_values(columns, given, values)

    @staticmethod
    def _of_values(columns: Sequence[Column], given: pa.Table, values: Sequence[pa.Array]) -> Keys:
        """Return the distinct keys; `values`: the given values, in the types in which they are compared."""
        keys = Keys(columns, given, values)
        if len(given) >= MANY and keys._join.is_distinct:
            return keys
        order, same = ascending(_codes(columns, values))
        if not same.any():
            return Keys(columns, given, values, order)
        rows = arrow_array(np.sort(order[~same]))
        return Keys(columns, pc.take(given, rows), [pc.take(array, rows) for array in values])

    def located(self, selection: Selection, by_file: Callable[[Node], Node | None]) -> pa.Table:
        """Return the keys with `path` (string) and `position` (int64) of each row that has them.

        `selection`: of all rows of the version asked for; `by_file`: extends a condition by what it implies
        for generated columns. A key that no row has gets one row in the result, with path and position null;
        a key of several rows gets a row for each of these, in the order of path and position.

        Cost: the row groups of postings that the keys fall into; where no index has the keys, what the
        condition costs, and the key columns of its rows.
        """
        key_rows, others = self._posted(selection)
        coverage = replace(selection.coverage, spaces=others)
        if others or len(coverage.uncovered):
            node = self._condition()
            rest = replace(selection, node=node, by_file=by_file(node), coverage=coverage)
            key_rows.append(self._read(rest))
        return _beside(self.given, selection.snapshot.files.paths, key_rows)

    def _posted(self, selection: Selection) -> tuple[list[KeyRows], list[SpaceView]]:
        """Return the rows found by postings, or by scans where these cost less; and all other row spaces."""
        key_rows, others = list[KeyRows](), list[SpaceView]()
        scanned = [space for space in selection.coverage.spaces if self._is_scanned(space)]
        if scanned:
            try:
                key_rows.append(self._scanned(scanned, selection))
            except DataFileError:  # postings also know the rows of files that are gone
                scanned = []
        for space in selection.coverage.spaces:
            if space in scanned:
                continue
            try:
                posted = self._posted_in(space, selection)
            except CorruptIndexError as damage:
                selection.damages.note(damage)
                posted = None
            if posted is None:
                others.append(space)
            else:
                key_rows.append(posted)
        return key_rows, others

    def _is_scanned(self, space: SpaceView) -> bool:
        """Return whether to read all key columns of a row space although it has postings of the keys."""
        stored = self._stored
        if stored is None:
            return False
        with suppress(CorruptIndexError):  # told of where the postings are read
            for posted, order, segments in stored._terms(space):
                if len(self.given) >= MANY:
                    some = stored._sample._ascending_in(order).keys
                    if are_most(space, posted.id, segments, some, len(stored.given)):
                        return True
                keys = stored._ascending_in(order).keys
                return is_scanned(space, posted.id, segments, keys, len(self.columns))
        return False

    def _posted_in(self, space: SpaceView, selection: Selection) -> KeyRows | None:
        """Return the rows of a row space found by postings; None if postings cannot find every row."""
        if any(column.partition for column in self.columns):
            return self._posted_by_partition(space, selection)
        for posted, order, segments in self._terms(space):
            keys = self._ascending_in(order)
            key_rows = rows_of_keys(space, posted.id, segments, keys.keys, keys.numbers)
            return self._whole_keys(key_rows, keys.truncated, selection)
        hashed = by_hash(space, self.columns, self.values)
        return None if hashed is None else rechecked(hashed, selection, self.columns, self._join.owners)

    def _whole_keys(self, key_rows: KeyRows, truncated: Mask | None, selection: Selection) -> KeyRows:
        """Return the rows that hold a key; rows of keys that `truncated` marks are read and compared."""
        if truncated is None:
            return key_rows
        some = truncated[key_rows.keys]
        sure, maybe = (KeyRows(*(array[which] for array in key_rows)) for which in (~some, some))
        read = rechecked(maybe, selection, self.columns, self._join.owners)
        return KeyRows(*(np.concatenate(arrays) for arrays in zip(sure, read, strict=True)))

    def _terms(self, space: SpaceView) -> Iterator[tuple[Column, tuple[int, ...], Sequence[Segment]]]:
        """Yield columns and tuples with postings of all rows, the order of the key columns, and segments."""
        for posted, order in self._indexed(space):
            key_type = key_type_of(posted.type)
            segments = space.serving(posted)
            same = all(segment.columns[posted.id] == key_type for segment in segments)
            if segments and same and space.unposted(posted.id) is None:
                yield posted, order, segments

    def _indexed(self, space: SpaceView) -> Iterator[tuple[Column, tuple[int, ...]]]:
        """Yield columns and tuples that may have postings of the keys, with the order of the key columns."""
        if len(self.columns) == 1:
            yield self.columns[0], (0,)
        number_of = {column.id: number for number, column in enumerate(self.columns)}
        for access in space.accesses:
            if isinstance(term := access.values, IndexedTuple) and {p.id for p in term.parts} == set(
                number_of
            ):
                yield term, tuple(number_of[part_column.id] for part_column in term.parts)

    def _posted_by_partition(self, space: SpaceView, selection: Selection) -> KeyRows | None:
        """Return the rows by the postings of the stored columns and the partition values in the log.

        Postings of partition values are not used: the log may change the values of an indexed file.
        """
        if self._stored is None:
            return None
        (stored, numbers), (partitions, partition_numbers) = self._split
        posted = stored._posted_in(space, selection)
        if posted is None or not len(posted.keys):
            return posted
        files, of_file = np.unique(posted.files, return_inverse=True)
        slices = [selection.snapshot.files[number] for number in files.tolist()]
        owners = partitions._owners_of_files(slices)[of_file]
        codes = numbers * len(partitions.given) + partition_numbers
        order = np.argsort(codes)
        codes_of_rows = posted.keys * len(partitions.given) + owners
        match = np.minimum(np.searchsorted(codes, codes_of_rows, sorter=order), len(codes) - 1)
        some = (owners >= 0) & (codes[order[match]] == codes_of_rows)
        return KeyRows(order[match][some], posted.files[some], posted.positions[some])

    @property
    def _stored(self) -> Keys | None:
        """The distinct keys of the stored columns; None if all are partition columns."""
        partitions = [column.partition for column in self.columns]
        return None if all(partitions) else self._split[0][0] if any(partitions) else self

    @once
    def _sample(self) -> Keys:
        """Return some of the keys, from everywhere among them."""
        rows = arrow_array(np.linspace(0, len(self.given) - 1, _SAMPLE).astype(np.int64))
        values = [pc.take(array, rows) for array in self.values]
        return Keys(self.columns, pc.take(self.given, rows), values)

    @once
    def _split(self) -> tuple[tuple[Keys, Longs], tuple[Keys, Longs]]:
        """Split the keys into stored and partition columns: distinct keys, and per full key their number."""
        partitions = [number for number, column in enumerate(self.columns) if column.partition]
        stored = [number for number, column in enumerate(self.columns) if not column.partition]
        return self._of_columns(stored), self._of_columns(partitions)

    def _of_columns(self, which: Sequence[int]) -> tuple[Keys, Longs]:
        """Return the distinct keys of some columns, and the number (int64) of each full key among them."""
        columns, values = (
            [self.columns[number] for number in which],
            [self.values[number] for number in which],
        )
        keys = Keys._of_values(columns, self.given.select(which), values)
        return keys, keys._join.owners(values)

    def _owners_of_files(self, slices: Sequence[FileSlice]) -> Longs:
        """Return, per file, the number (int64) of the key that equals its partition values, or -1."""
        arrays = [
            pa.chunked_array(
                [partition_array(column, slice_.partition.get(column.physical[0]), 1) for slice_ in slices],
                arrow_type(column.type, column.label),
            )
            for column in self.columns
        ]
        return self._join.owners(arrays)

    def _ascending_in(self, order: tuple[int, ...]) -> _Ascending:
        """Return the result of `_ascending`, cached: all row spaces look for the same keys."""
        if order not in self._orders:
            self._orders[order] = self._ascending(order)
        return self._orders[order]

    def _ascending(self, order: tuple[int, ...]) -> _Ascending:
        """Return the keys in ascending order of their bytes.

        `order`: the numbers of the key columns in the order of the parts of the key.
        """
        columns, values = (
            [self.columns[number] for number in order],
            [self.values[number] for number in order],
        )
        long = [
            numpy_of(pc.greater(pc.binary_length(array), arrow_scalar(MAX_KEY)))
            for column, array in zip(columns, values, strict=True)
            if is_textual(key_type_of(column.type))
        ]
        truncated = np.logical_or.reduce(long) if long else None
        codes = _codes(columns, values)
        order_known = self._order if order == tuple(range(len(order))) else None
        numbers = ascending(codes)[0] if order_known is None else order_known
        keys = LookupKeys(keys_at(codes, numbers))
        return _Ascending(keys, numbers, truncated if truncated is not None and truncated.any() else None)

    def _read(self, selection: Selection) -> KeyRows:
        """Return the rows of a selection that hold one of the keys; the key columns are read from data."""
        hits = selection.hits()
        reads = [(hit.slice_, hit.positions) for hit in hits]
        owners, rows, count = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)], 0
        joined = each_batch(
            selection.storage, reads, self.columns, lambda batch: (len(batch), *self._join.matches(batch))
        )
        for size, keys, matches in joined:
            owners.append(keys)
            rows.append(matches + count)
            count += size
        paths = arrow_array([hit.slice_.path for hit in hits], pa.string())
        files = numpy_of(pc.index_in(paths, value_set=selection.snapshot.files.paths), dtype=np.int64)
        ends = np.cumsum([len(hit.positions) for hit in hits])
        every = np.concatenate(rows)
        by_file = np.split(every, np.searchsorted(every, ends))[:-1]
        positions = [
            hit.positions[matches - (end - len(hit.positions))].astype(np.int64)
            for hit, matches, end in zip(hits, by_file, ends.tolist(), strict=True)
        ]
        return KeyRows(
            np.concatenate(owners),
            np.repeat(files, list(map(len, by_file))),
            np.concatenate([np.zeros(0, dtype=np.int64), *positions]),
        )

    def _scanned(self, spaces: Sequence[SpaceView], selection: Selection) -> KeyRows:
        """Return the visible rows of row spaces that hold one of the keys; all their key columns are read."""
        coverage = replace(selection.coverage, spaces=spaces, uncovered=selection.coverage.uncovered[:0])
        return self._read(replace(selection, node=Constant(True), by_file=None, coverage=coverage))

    @once
    def _join(self) -> KeyJoin:
        """Return the join of rows with the keys."""
        return KeyJoin([key_type_of(column.type) for column in self.columns], self.values)

    def _condition(self) -> Node:
        """Return the condition that each key column has a value of some key; TRUE in every row with a key."""
        leaves = []
        for column, array in zip(self.columns, self.values, strict=True):
            values = ValueSet.points(canonical(pc.unique(array), column.type))
            text = f"{column.label} IN ({len(values.intervals)} keys)"
            leaves.append(Leaf(column, values, values.others(), text))
        return all_of(leaves)


def _codes(columns: Sequence[Column], values: Sequence[pa.Array | pa.ChunkedArray]) -> pa.Array:
    """Return the keys of rows as bytes; `values`: per key column, the values in row order, none null."""
    types = [column.type for column in columns]
    arrays = [encode_array(array, key_type_of(type_)) for array, type_ in zip(values, types, strict=True)]
    return arrays[0] if len(arrays) == 1 else join_parts(arrays, key_type_of(tuple_of(types)))


def _ordered(key_rows: Sequence[KeyRows], ranks: Longs, absent: Longs) -> tuple[Longs, Longs, Longs]:
    """Return key, rank of the file, and position of rows, ordered by these; absent keys have the rank 0.

    `ranks`: the rank of each file of the snapshot, from 1 on.

    Cost: a number is sorted for each row, by some bits at a time; rows of a key in a file come in order.
    """
    many = [len(rows.keys) for rows in key_rows]
    most = [[int(numbers.max(initial=0)) for numbers in (rows.keys, rows.positions)] for rows in key_rows]
    highest = int(absent.max(initial=0))
    widths = [
        max([highest, *(key for key, _ in most)]),
        int(ranks.max(initial=0)),
        max([0, *(position for _, position in most)]),
    ]
    of_keys, of_files, of_positions = (width.bit_length() for width in widths)
    if of_keys + of_files + of_positions > _LONG_BITS:
        return _ordered_apart(key_rows, ranks, absent)
    numbers = np.empty(sum(many) + len(absent), dtype=np.int64)
    end = 0
    for rows, count in zip(key_rows, many, strict=True):
        some = numbers[end : end + count]
        np.left_shift(rows.keys, of_files, out=some)
        some |= ranks[rows.files]
        some <<= of_positions
        some |= rows.positions
        end += count
    np.left_shift(absent, of_files + of_positions, out=numbers[end:])
    numbers = numbers[order_by_digits(numbers, of_positions, of_positions + of_files + of_keys)]
    if (numbers[1:] < numbers[:-1]).any():
        numbers.sort(kind="stable")
    positions = numbers & ((1 << of_positions) - 1)
    numbers >>= of_positions
    files = numbers & ((1 << of_files) - 1)
    numbers >>= of_files
    return numbers, files, positions


def _ordered_apart(key_rows: Sequence[KeyRows], ranks: Longs, absent: Longs) -> tuple[Longs, Longs, Longs]:
    """Return what `_ordered` does, where a row is more than one number holds."""
    nowhere = np.zeros(len(absent), dtype=np.int64)
    keys = np.concatenate([*(rows.keys for rows in key_rows), absent])
    files = np.concatenate([*(ranks[rows.files] for rows in key_rows), nowhere])
    positions = np.concatenate([*(rows.positions for rows in key_rows), nowhere])
    order = np.lexsort((positions, files, keys))
    return keys[order], files[order], positions[order]


_LONG_BITS = 63
"""Bits of a number in an int64 that is not negative."""


def _beside(keys: pa.Table, paths: pa.StringArray, key_rows: Sequence[KeyRows]) -> pa.Table:
    """Return a table of keys and the places of their rows; `paths`: the paths of the snapshot's files."""
    present, used = np.zeros(len(keys), dtype=np.bool_), np.zeros(len(paths), dtype=np.bool_)
    for rows in key_rows:
        present[rows.keys] = True
        used[rows.files] = True
    files = np.flatnonzero(used)
    used_paths = pc.take(paths, arrow_array(files))
    in_order = pc.sort_indices(used_paths)
    ranks = np.zeros(len(paths), dtype=np.int64)
    ranks[files[numpy_of(in_order)]] = np.arange(1, len(files) + 1)
    absent = np.flatnonzero(~present)
    owners, of_files, positions = _ordered(key_rows, ranks, absent)
    ranked = pa.concat_arrays([pa.nulls(1, paths.type), pc.take(used_paths, in_order)])
    path = _values_at(ranked, of_files)
    position = arrow_array(positions, mask=of_files == 0 if len(absent) else None)
    located = keys
    if len(owners) > len(keys):  # else each key has one row, and they are in the order of the keys
        located = pa.table([_values_at(in_one(values), owners) for values in keys.columns], keys.column_names)
    names = place_names(keys.column_names)
    return located.append_column(names[0], path).append_column(names[1], position)


def _values_at(values: pa.Array, rows: Longs) -> pa.ChunkedArray:
    """Return values at some rows; Arrow copies an array of texts whenever it outgrows its guess of a size."""

    def chunk(start: int) -> Callable[[bool], pa.Array]:
        return lambda threads: pc.take(values, arrow_array(rows[start : start + _CHUNK]))

    return pa.chunked_array(in_order(map(chunk, range(0, len(rows), _CHUNK))), values.type)


_CHUNK = 1 << 17
"""Rows in one chunk of a result."""
