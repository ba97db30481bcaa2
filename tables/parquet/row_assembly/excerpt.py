"""Excerpts: the pages of a data file that hold wanted rows, assembled as a small Parquet file in memory.

pyarrow decodes whole column chunks only. A chunk is its pages in order, so a chunk of fewer pages is valid
too: the excerpt has its own footer, with the file's schema, and row groups of the selected pages, copied
unchanged from the file. So the decoder of data files decodes an excerpt to the same values of the same types.

Columns whose pages hold the same rows share row groups; the chunks of all other columns are empty there and
never read. Repeated values do not end at page boundaries: such columns are read as whole row groups.

Example: column a has pages of 3 rows, b of 4, and rows 1 and 7 of the row group are wanted.

    row          0  1  2  3  4  5  6  7  8
    wanted          x                 x
    pages of a   [0      ][1      ][2      ]     selected: 0 and 2, rows 0 1 2 6 7 8; wanted are 1 and 4
    pages of b   [0         ][1         ][2]     selected: 0 and 1, rows 0 to 7; wanted are 1 and 7
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import lru_cache

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs
from tailbit.base.dataclass import dataclass
from tailbit.tables.parquet.file import MAGIC, arrow_buffer
from tailbit.tables.parquet.layout import Layout, Pages
from tailbit.tables.parquet.row_assembly.footer import (
    CODECS,
    ended,
    written_chunk,
    written_row_group,
)
from tailbit.tables.parquet.thrift import (
    I64,
    LIST,
    TEXT,
    written_int,
    written_struct,
    written_structs,
    written_text,
)


@dataclass(frozen=True, eq=False)
class Picked:
    """The selected pages of one leaf: per row group all pages, and the numbers of the selected ones."""

    leaf: int
    pages: Sequence[Pages]
    numbers: Sequence[Longs]

    @property
    def coded(self) -> bool:
        """Whether the selected pages hold only dictionary codes, of comparatively small dictionaries."""
        return all(
            p.dictionary is not None
            and bool(p.coded[n].all())
            and p.dictionary.unpacked < int((p.firsts[n + 1] - p.firsts[n]).sum())
            for p, n in zip(self.pages, self.numbers, strict=True)
        )


def can_be_cut(layout: Layout, leaf: int, group: int) -> bool:
    """Return whether an excerpt supports the codec of a chunk."""
    return layout.chunk(group, leaf).codec in CODECS


def pick(pages: Sequence[Pages], wanted: Sequence[Longs]) -> tuple[list[Longs], Longs]:
    """Return the numbers of the pages that hold wanted rows per row group, and the rows' places in the pages.

    `wanted`: ascending rows of each row group. The places count through the selected pages of all row groups
    (see the example of the module).
    """
    numbers, places, before = [], [], 0
    for pages_of_group, rows in zip(pages, wanted, strict=True):
        of_page = np.diff(np.searchsorted(rows, pages_of_group.firsts))
        here = np.flatnonzero(of_page)
        counts = pages_of_group.firsts[here + 1] - pages_of_group.firsts[here]
        shift = before + np.cumsum(counts) - counts - pages_of_group.firsts[here]
        places.append(rows + np.repeat(shift, of_page[here]))
        numbers.append(here)
        before += int(counts.sum())
    return numbers, np.concatenate(places)


@dataclass(eq=False)
class Excerpt:
    """A small Parquet file of some pages of a data file, under construction; `done` returns its bytes."""

    layout: Layout
    source: pa.NativeFile
    _bytes: list[bytes] = field(default_factory=lambda: [MAGIC])
    _size: int = len(MAGIC)
    _groups: list[bytes] = field(default_factory=list)
    _rows: int = 0

    def add(self, columns: Sequence[Picked], groups: Sequence[int]) -> list[int]:
        """Add pages of some leaves; return the numbers of the excerpt's row groups that hold them.

        `columns`: leaves whose selected pages hold the same rows. `groups`: the row groups of the
        data file; each becomes one row group of the excerpt.
        """
        first, absent = len(self._groups), absent_chunks(self.layout)
        for order, group in enumerate(groups):
            pages, numbers = columns[0].pages[order], columns[0].numbers[order]
            rows = int((pages.firsts[numbers + 1] - pages.firsts[numbers]).sum())
            chunks = list(absent)
            for column in columns:
                chunks[column.leaf] = self._chunk(
                    column.pages[order], column.numbers[order], group, column.leaf, rows
                )
            self._groups.append(written_row_group(chunks, self._size, rows))
            self._rows += rows
        return list(range(first, len(self._groups)))

    def _chunk(self, pages: Pages, numbers: Longs, group: int, leaf: int, rows: int) -> bytes:
        """Copy the selected pages, contiguous pages in one read, and return the chunk's metadata."""
        at, unpacked = self._size, int(pages.unpacked[numbers].sum())
        if pages.dictionary is not None:
            self._copy(pages.dictionary.start, pages.dictionary.end)
            unpacked += pages.dictionary.unpacked
        data = self._size
        gaps = np.flatnonzero(pages.starts[numbers[1:]] != pages.ends[numbers[:-1]])
        firsts = [0, *(gaps + 1).tolist()]
        lasts = [*gaps.tolist(), len(numbers) - 1]
        for first, last in zip(firsts, lasts, strict=True):
            self._copy(int(pages.starts[numbers[first]]), int(pages.ends[numbers[last]]))
        chunk = self.layout.chunk(group, leaf)
        dictionary = at if pages.dictionary is not None else None
        return written_chunk(chunk.type, chunk.codec, rows, unpacked, self._size - at, data, dictionary)

    def _copy(self, start: int, end: int) -> None:
        data = self.source.read_at(end - start, start)
        if len(data) != end - start:
            raise ValueError(f"it ends before byte {end}")
        self._bytes.append(data)
        self._size += len(data)

    def done(self) -> pa.Buffer:
        """Return the whole excerpt."""
        footer = written_footer(self.layout, self._groups, self._rows)
        return arrow_buffer([*self._bytes, ended(footer)])


def written_footer(layout: Layout, groups: Sequence[bytes], rows: int) -> bytes:
    """Encode a footer of encoded row groups under the schema of a data file."""
    metadata = layout.metadata
    texts = [
        written_struct([(1, TEXT, written_text(key)), (2, TEXT, written_text(value))])
        for key, value in (metadata.metadata or {}).items()
    ]
    fields = [
        (3, I64, written_int(rows)),
        (4, LIST, written_structs(groups)),
        (5, LIST, written_structs(texts)),
        (6, TEXT, written_text(metadata.created_by.encode())),
    ]
    return layout.head + written_struct(fields, before=2)


def absent_chunks(layout: Layout) -> list[bytes]:
    """Return for each leaf of a data file an empty chunk, which must never be read."""
    schema = layout.metadata.schema
    return [_absent_chunk(str(schema.column(leaf).physical_type)) for leaf in range(len(schema))]


@lru_cache
def _absent_chunk(type_: str) -> bytes:
    return written_chunk(type_, "UNCOMPRESSED", 0, 0, 0, len(MAGIC), None)
