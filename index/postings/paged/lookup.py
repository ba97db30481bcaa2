"""Lookups of many keys in the small pages of a paged segment: only pages that may hold a key are decoded.

The offsets and least keys of the pages of each row group are cached. The pages that may hold wanted keys, of
neighbouring row groups together, are joined to one small Parquet file in memory, which pyarrow decodes at
once. In the same way, positions are decoded from the pages in which keys were found. No step is taken key by
key.

Worked example: two row groups with pages of two keys, and the wanted keys 3, 8 and 9.

    row group        0               1
    pages            1 3 | 4 6       7 9 | 12 15
    decoded          1 3             7 9            8 is nowhere
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tailbit.arrays import Longs
from tailbit.errors import CorruptIndexError
from tailbit.imports.dataclass import dataclass
from tailbit.index.keys import ordered_of
from tailbit.index.postings.gaps import FIRST
from tailbit.index.postings.paged.places import Group, Pages
from tailbit.index.postings.paged_forms import Form, Lows, sixteen_of, values_of
from tailbit.index.postings.segment import POSTINGS, Segment
from tailbit.once import once
from tailbit.tables import compute as pc
from tailbit.tables.ahead import in_order
from tailbit.tables.arrow import arrow_array, filled, numpy_of
from tailbit.tables.parquet.file import MAGIC, ParquetFile
from tailbit.tables.parquet.row_assembly.footer import (
    written_chunk,
    written_end,
    written_leaf,
    written_row_group,
)
from tailbit.tables.positions import BitPositions

_NAMES = ("key", FIRST, "cardinality")

_TOGETHER = 1 << 11
"""Pages that are decoded together: few enough that the CPU cache holds their values until the search."""

_NEAR = 1 << 14
"""Up to this many bytes between wanted pages are read with them, which costs no more than another read."""

Spans = Sequence[tuple[int, int, int]]
"""(row group, low, high): the row group may hold the wanted keys `[low, high)`."""


class _Hits(NamedTuple):
    """Keys that were found: `owners`, their indices; `pages`, which hold them; `rows`, counted in `pages`."""

    owners: Longs
    pages: Longs
    rows: Longs


class _Part(NamedTuple):
    """Keys that were found: `owners` with one position each; `several`: the indices of all other keys."""

    owners: Longs
    positions: BitPositions
    several: Longs


@dataclass(frozen=True, eq=False)
class _Wanted:
    """Distinct keys, ascending, in the forms in which row groups store them."""

    codes: pa.BinaryArray

    @once
    def numbers(self) -> Longs:
        """Return keys of eight bytes as integers."""
        return numpy_of(ordered_of(self.codes))

    @once
    def uuids(self) -> tuple[Any, Any]:
        """Return keys as sixteen bytes, and which of them are UUIDs."""
        return sixteen_of(self.codes)

    @once
    def texts(self) -> list[bytes]:
        """Return the keys as bytes."""
        listed: list[bytes] = self.codes.to_pylist()
        return listed

    def among(self, form: Form, owners: Longs) -> tuple[Longs, Lows]:
        """Return the indices of those keys that can be stored in a form, and the keys in that form."""
        if form is Form.NUMBER:
            return owners, self.numbers[owners]
        if form is Form.TEXT:
            return owners, [self.texts[owner] for owner in owners.tolist()]
        values, are = self.uuids
        owners = owners[are[owners]]
        return owners, values[owners]


def placed(segment: Segment, column: str, spans: Spans, codes: pa.BinaryArray) -> tuple[Longs, BitPositions]:
    """Return (key, position) pairs as two arrays; a key is given by its index (int64) in `codes`.

    `codes`: distinct keys, ascending; `spans`: (row group, low, high) for the keys `[low, high)` it may hold.
    Cost: the pages that the keys fall into; whole row groups for keys of several positions.

    Raises:
        CorruptIndexError: the segment is damaged.
    """
    wanted, key_type = _Wanted(codes), segment.columns[column]
    parts = [_Part(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.uint32), np.zeros(0, dtype=np.int64))]
    try:
        with segment.source() as source:
            groups = [_group_of(segment, source, number, key_type) for number, *_ in spans]
            kinds = [(group.form, group.counts is None) for group in groups]
            for kind in dict.fromkeys(kinds):
                own = [at for at, other in enumerate(kinds) if other == kind]
                lookup = _Lookup(source, [groups[at] for at in own], [spans[at] for at in own], wanted)
                parts += lookup.found()
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, IndexError) as damage:
        raise CorruptIndexError(file=segment.path, reason=str(damage)) from damage
    several = np.sort(np.concatenate([part.several for part in parts]))
    placed_parts = [(part.owners, part.positions) for part in parts] + list(
        _of_several(segment, spans, codes, several)
    )
    return np.concatenate([owners for owners, _ in placed_parts]), np.concatenate(
        [at for _, at in placed_parts]
    )


def _group_of(segment: Segment, source: pa.NativeFile, number: int, key_type: str) -> Group:
    def read() -> tuple[Group, int]:
        group = Group.of(source, segment.footer.row_group(number), key_type)
        return group, group.size

    held: Group = POSTINGS.get((f"{segment.name}#pages", number), read)
    return held


class _Chunks:
    """The chunks of one column in several row groups, with the offsets of their pages in the file."""

    def __init__(self, name: str, chunks: Sequence[Pages]) -> None:
        self.name, self.like = name, chunks[0]
        self._starts = np.concatenate([pages.edges[:-1] for pages in chunks])
        self._ends = np.concatenate([pages.edges[1:] for pages in chunks])

    def read(self, source: pa.NativeFile, numbers: Longs) -> list[bytes | memoryview]:
        """Return the bytes of some pages, in ascending order, as pieces of one or more pages."""
        starts, ends = self._starts[numbers], self._ends[numbers]
        apart = np.flatnonzero(starts[1:] != ends[:-1])
        starts, ends = starts[np.r_[0, apart + 1]], ends[np.r_[apart, len(ends) - 1]]
        far = np.flatnonzero(starts[1:] - ends[:-1] > _NEAR) + 1
        lows, highs = starts.tolist(), ends.tolist()
        pieces = list[bytes | memoryview]()
        for first, last in pairwise([0, *far.tolist(), len(lows)]):
            begin = lows[first]
            data = source.read_at(highs[last - 1] - begin, begin)
            if last - first == 1:
                pieces.append(data)
            else:
                view = memoryview(data)
                pieces += [view[lows[at] - begin : highs[at] - begin] for at in range(first, last)]
        return pieces


class _Lookup:
    """A lookup of keys in ascending row groups whose keys have one form."""

    def __init__(self, source: pa.NativeFile, groups: Sequence[Group], spans: Spans, wanted: _Wanted) -> None:
        self._source, self._groups, self._form = source, groups, groups[0].form
        every = np.concatenate([np.arange(low, high) for _, low, high in spans])
        self._owners, self._values = wanted.among(self._form, every)
        chunks = [[group.keys for group in groups], [group.firsts for group in groups]]
        counts = [group.counts for group in groups if group.counts is not None]
        self._columns = list(map(_Chunks, _NAMES, [*chunks, counts] if counts else chunks))
        self._rows = np.concatenate([np.diff(group.keys.firsts) for group in groups])
        self._reading = Lock()

    def found(self) -> Iterator[_Part]:
        """Yield the keys that are found, some pages at a time; on all cores if there are many pages.

        Raises:
            ValueError, pyarrow.ArrowException: pages are damaged.
        """
        at = self._pages_of_keys()
        pages = at[np.flatnonzero(np.diff(at, prepend=-1))]
        parts = (self._part_of(at, pages[n : n + _TOGETHER]) for n in range(0, len(pages), _TOGETHER))
        return (part for part in in_order(parts) if part is not None)

    def _pages_of_keys(self) -> Longs:
        """Return for each key the page that may hold it, numbered through all row groups; ascending."""
        if self._form is Form.TEXT:
            texts = [low for group in self._groups for low in group.keys.lows]
            at = np.array([bisect_right(texts, key) for key in self._values], dtype=np.int64)
        else:
            lows = np.concatenate([group.keys.lows for group in self._groups])
            at = np.searchsorted(lows, self._values, side="right")
        return np.maximum(at - 1, 0)

    def _part_of(self, at: Longs, pages: Longs) -> Callable[[bool], _Part | None]:
        """Read the keys' bytes of some pages, and return a function that finds the wanted keys in them."""
        low, high = np.searchsorted(at, [pages[0], pages[-1] + 1]).tolist()
        keys = self._pieces(self._columns[:1], pages)
        return lambda _: self._placed(self._hits(keys, pages, low, high))

    def _pieces(self, columns: Sequence[_Chunks], pages: Longs) -> list[list[bytes | memoryview]]:
        """Return the bytes of some pages of columns; not every source may be read by two threads at once."""
        with self._reading:
            return [column.read(self._source, pages) for column in columns]

    def _decoded(
        self, columns: Sequence[_Chunks], parts: list[list[bytes | memoryview]], pages: Longs
    ) -> pa.Table:
        named = [(column.name, column.like) for column in columns]
        return decoded(named, parts, int(self._rows[pages].sum()))

    def _hits(self, parts: list[list[bytes | memoryview]], pages: Longs, low: int, high: int) -> _Hits:
        """Return which of the wanted keys `[low, high)` are in some pages; `parts`: the pages' key bytes."""
        keys = self._decoded(self._columns[:1], parts, pages)["key"].combine_chunks()
        there, at = _matched(self._form, keys, self._values[low:high])
        begins = self._begins(pages)
        of = np.searchsorted(begins, at, side="right") - 1
        held, place = np.unique(of, return_inverse=True)
        rows = at - begins[of] + self._begins(pages[held])[place]
        return _Hits(self._owners[low:high][there], pages[held], rows)

    def _placed(self, hits: _Hits) -> _Part | None:
        """Return the positions of the keys that were found; None if there are none."""
        if not len(hits.owners):
            return None
        rest = self._columns[1:]
        table = self._decoded(rest, self._pieces(rest, hits.pages), hits.pages)
        owners, at = hits.owners, hits.rows
        firsts, several = table[FIRST].combine_chunks(), np.zeros(0, dtype=np.int64)
        if len(self._columns) > len(_NAMES[:2]):
            alone = _taken(table["cardinality"].combine_chunks(), at) == 1
            alone &= numpy_of(pc.is_valid(firsts))[at]
            owners, at, several = owners[alone], at[alone], owners[~alone]
        return _Part(owners, _taken(firsts, at).astype(np.uint32), several)

    def _begins(self, pages: Longs) -> Longs:
        """Return the first row of each of the pages, laid one after the other, and the number of rows."""
        return np.concatenate([[0], np.cumsum(self._rows[pages])])


def decoded(
    columns: Sequence[tuple[str, Pages]], parts: Sequence[Sequence[bytes | memoryview]], rows: int
) -> pa.Table:
    """Decode pages of some columns to a table; `parts`: for each column, the bytes of its pages.

    Raises:
        ValueError, pyarrow.ArrowException: pages are damaged.
    """
    head, chunks, leaves = len(MAGIC), list[bytes](), list[bytes]()
    body: list[bytes | memoryview] = [MAGIC]
    for (name, like), pieces in zip(columns, parts, strict=True):
        size = sum(map(len, pieces))
        chunks.append(written_chunk(like.type, like.codec, rows, size, size, head, None))
        leaves.append(written_leaf(name, like.type, True, like.width))
        body += pieces
        head += size
    body.append(written_end(leaves, [written_row_group(chunks, head, rows)], rows))
    source = pa.BufferReader(pa.py_buffer(b"".join(body)))
    return ParquetFile(source, page_checksum_verification=True).read(use_threads=False)


def _matched(form: Form, keys: pa.Array, wanted: Lows) -> tuple[Longs, Longs]:
    """Return the indices of the wanted keys that are among `keys`, and their rows there, both int64."""
    if form is Form.TEXT:
        matches = numpy_of(
            filled(pc.index_in(keys, value_set=arrow_array(wanted, pa.binary())), -1), np.int64
        )
        at = np.flatnonzero(matches >= 0)
        return matches[at], at
    begin = keys.null_count
    held = numpy_of(keys.slice(begin)) if form is Form.NUMBER else values_of(keys.slice(begin))
    if not len(held):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    at = np.minimum(np.searchsorted(held, wanted), len(held) - 1)
    there = np.flatnonzero(held[at] == wanted)
    return there, at[there] + begin


def _taken(column: pa.Array, at: Longs) -> Longs:
    numbers: Longs = numpy_of(filled(column, 0))[at]
    return numbers


def _of_several(
    segment: Segment, spans: Spans, codes: pa.BinaryArray, several: Longs
) -> Iterator[tuple[Longs, BitPositions]]:
    """Yield pairs as `placed` does, a row group at a time; `several`: indices of the keys, ascending."""
    for number, low, high in spans:
        mine = several[(several >= low) & (several < high)]
        if len(mine):
            (group,) = segment.in_order([number])
            owners, at = group.placed(pc.take(codes, arrow_array(mine)))
            yield mine[owners], at
