"""Many wanted texts of one, two or four bytes each: Polars decodes them as numbers, which are their bytes.

Polars holds texts as views of 16 bytes, which become Arrow's `string` one by one. If chunks hold only codes
of a dictionary whose values have one such length, the dictionary is replaced by the values as numbers before
Polars decodes it, and the numbers that Polars returns are the bytes of the texts, side by side.

Example: values AF and EU are the numbers 0x4641 and 0x5545; EU AF NULL become 0x5545 0x4641 0, bytes EUAF
and two of zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tailbit.arrays import Ints
from tailbit.tables.arrow import filled, numpy_of
from tailbit.tables.parquet.layout import DictionaryPage, Layout, Pages
from tailbit.tables.storage import Storage

MANY = 1 << 17
"""Least number of wanted rows for which this saves more than it costs."""
_WIDTHS = (1, 2, 4)
"""Lengths of texts in bytes that are the widths of integers."""
_DICTIONARY = 1 << 13
"""Most bytes of a dictionary page, header included."""


class NumberedTexts(NamedTuple):
    """A column of a batch as numbers: per row group the pages, and the number of each dictionary code.

    `width`: the length of every value in bytes; the number of a value is its bytes, the lowest first.
    """

    width: int
    groups: Sequence[tuple[Pages, Ints]]


def numbered(
    storage: Storage, files: Sequence[tuple[Layout, str, int, Sequence[int]]]
) -> NumberedTexts | None:
    """Return a text column as numbers; None if it has pages without codes or values of another length.

    `files`: layout, path, leaf and row groups of each. Cost: one read per page, cached; no page is decoded.
    """
    groups, widths = list[tuple[Pages, Ints]](), set[int]()
    for layout, path, leaf, wanted in files:
        chunks = [layout.chunk(group, leaf) for group in wanted]
        if not all(chunk.coded and chunk.unpacked <= chunk.values + _DICTIONARY for chunk in chunks):
            return None
        with storage.open(storage.resolve(path)) as source:
            for group in wanted:
                pages = layout.pages(source, group, leaf)
                width, numbers = _numbers(layout, source, group, leaf, pages)
                widths.add(width)
                if pages is None or not width or len(widths) > 1:
                    return None
                groups.append((pages, numbers))
    return NumberedTexts(widths.pop(), groups) if groups else None


def _numbers(
    layout: Layout, source: pa.NativeFile, group: int, leaf: int, pages: Pages | None
) -> tuple[int, Ints]:
    """Return the length and the numbers of a chunk's values, cached; length 0 if the chunk has no numbers."""
    held: tuple[int, Ints] | None = layout.derived.get(("texts", group, leaf))
    if held is None:
        page = pages.dictionary if pages is not None and pages.coded.all() else None
        held = (
            (0, np.zeros(0, np.int32))
            if page is None
            else _decoded(source, page, layout.chunk(group, leaf).codec)
        )
        layout.derived["texts", group, leaf] = held
    return held


def _decoded(source: pa.NativeFile, page: DictionaryPage, codec: str) -> tuple[int, Ints]:
    """Decode a dictionary page of texts of one length: each follows its length in four bytes."""
    body = source.read_at(page.end - page.body, page.body)
    if codec != "UNCOMPRESSED":
        size = page.unpacked - (page.body - page.start)
        body = pa.decompress(body, decompressed_size=size, codec=codec.lower(), asbytes=True)
    width = len(body) // max(page.values, 1) - 4
    if width in _WIDTHS and len(body) == page.values * (width + 4):
        values = np.frombuffer(body, np.dtype([("length", "<u4"), ("text", f"<u{width}")]))
        if (values["length"] == width).all():
            return width, values["text"].astype(np.int32)
    return 0, np.zeros(0, np.int32)


def texts_of(numbers: pa.ChunkedArray, width: int, type_: pa.DataType) -> pa.ChunkedArray:
    """Return the texts of numbers, as `string` or `binary`."""
    return pa.chunked_array([_texts(chunk, width, type_) for chunk in numbers.chunks], type_)


def _texts(chunk: pa.Array, width: int, type_: pa.DataType) -> pa.Array:
    rows, nulls = len(chunk), chunk.null_count
    text = pa.py_buffer(numpy_of(filled(chunk, 0)).astype(f"<u{width}"))
    offsets = pa.py_buffer(np.arange(0, (rows + 1) * width, width, dtype=np.int32))
    there = pa.py_buffer(np.packbits(chunk.is_valid().to_numpy(False), bitorder="little")) if nulls else None
    return pa.Array.from_buffers(type_, rows, [there, offsets, text], nulls)
