"""Quick reading of many texts with few distinct values: Polars decodes numbers, from which texts are built.

Polars holds texts as views of 16 bytes, which become Arrow's `string` one by one. If a chunk holds only codes
of a small dictionary, numbers take the place of the dictionary's values before Polars decodes the chunk. The
numbers of several neighbouring rows, a run, are then looked up at once, in a table of the texts of all
possible runs of one length.

Example: values AIR and RAIL, numbers 0 and 1, runs of two; number 2 stands for NULL and for padding.

    numbers    1 0 | 0 NULL | 1          runs    1·3+0 = 3    0·3+2 = 2    1·3+2 = 5
    bytes      RAILAIR AIR RAIL          lengths 4 3 3 0 4
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tailbit.arrays import Ints
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, filled, numpy_of
from tailbit.tables.parquet.layout import DictionaryPage, Layout, Pages
from tailbit.tables.storage import Storage

MANY = 1 << 17
"""Least number of wanted rows for which decoding numbers saves more than it costs."""
_VALUES, _LONGEST = 24, 64
"""Most distinct values of a column in a batch, and most bytes of one value."""
_WHOLE = ({1}, {2}, {4})
"""If all values have one of these lengths, their bytes themselves serve as numbers."""
_RUNS = 1 << 10
"""Most runs in the table of runs."""
_ROWS = 1 << 20
"""Most texts built at once: their bytes are counted in 32 bits."""


class NumberedTexts(NamedTuple):
    """A text column of a batch as numbers: its values, and per row group pages and the number of each code.

    The number of a code is the index of its value in `values`, or the value's bytes if `width` is not 0.
    `width`: the length of all values if they have one length, and that is 1, 2 or 4; else 0.
    """

    values: tuple[bytes, ...]
    width: int
    groups: Sequence[tuple[Pages, Ints]]


def numbered(
    storage: Storage, files: Sequence[tuple[Layout, str, int, Sequence[int]]]
) -> NumberedTexts | None:
    """Return a text column as numbers; None if it has pages without codes or too many values.

    `files`: layout, path, leaf and row groups of each. Cost: one read per page, cached; no page is decoded.
    """
    dictionaries = list[tuple[Pages, tuple[bytes, ...]]]()
    for layout, path, leaf, wanted in files:
        if not all(_may_be_small(layout, group, leaf) for group in wanted):
            return None
        with storage.open(storage.resolve(path)) as source:
            for group in wanted:
                pages = layout.pages(source, group, leaf)
                values = _values(layout, source, group, leaf, pages)
                if pages is None or not values:
                    return None
                dictionaries.append((pages, values))
    every = tuple(dict.fromkeys(value for _, values in dictionaries for value in values))
    if len(every) > _VALUES:
        return None
    lengths = {len(value) for value in every}
    width = lengths.pop() if lengths in _WHOLE else 0
    return NumberedTexts(
        every, width, [(pages, _numbers(values, every, width)) for pages, values in dictionaries]
    )


@lru_cache(1 << 10)
def _numbers(values: tuple[bytes, ...], every: tuple[bytes, ...], width: int) -> Ints:
    if width:
        return np.frombuffer(b"".join(values), f"<u{width}").astype(np.int32)
    return np.array([every.index(value) for value in values], np.int32)


def _may_be_small(layout: Layout, group: int, leaf: int) -> bool:
    """Return whether a chunk has a dictionary, and few enough bytes for codes of a small one."""
    chunk = layout.chunk(group, leaf)
    return chunk.coded and chunk.unpacked <= chunk.values + _VALUES * (_LONGEST + 4) + 4096


def _values(
    layout: Layout, source: pa.NativeFile, group: int, leaf: int, pages: Pages | None
) -> tuple[bytes, ...]:
    """Return the values of a chunk's dictionary, cached; empty if not small or a page has no codes."""
    held: tuple[bytes, ...] | None = layout.derived.get(("texts", group, leaf))
    if held is None:
        small = pages is not None and pages.dictionary is not None and bool(pages.coded.all())
        page = pages.dictionary if pages is not None and small else None
        held = () if page is None else _decoded(source, page, layout.chunk(group, leaf).codec)
        layout.derived["texts", group, leaf] = held
    return held


def _decoded(source: pa.NativeFile, page: DictionaryPage, codec: str) -> tuple[bytes, ...]:
    """Decode the values of a small dictionary page, each of which follows its length in four bytes."""
    if page.values > _VALUES:
        return ()
    body = source.read_at(page.end - page.body, page.body)
    if codec != "UNCOMPRESSED":
        size = page.unpacked - (page.body - page.start)
        body = pa.decompress(body, decompressed_size=size, codec=codec.lower(), asbytes=True)
    out, at = list[bytes](), 0
    while at < len(body):
        end = at + 4 + int.from_bytes(body[at : at + 4], "little")
        out.append(body[at + 4 : end])
        at = end
    fits = at == len(body) and len(out) == page.values and max(map(len, out), default=0) <= _LONGEST
    return tuple(out) if fits else ()


def texts_of(numbers: pa.ChunkedArray, texts: NumberedTexts, type_: pa.DataType) -> pa.ChunkedArray:
    """Build the texts of numbers, as `string` or `binary`."""
    make = _alike if texts.width else _in_runs
    parts = [
        make(chunk.slice(first, _ROWS), texts, type_)
        for chunk in numbers.chunks
        for first in range(0, len(chunk), _ROWS)
    ]
    return pa.chunked_array(parts, type_)


def _alike(chunk: pa.Array, texts: NumberedTexts, type_: pa.DataType) -> pa.Array:
    """Build texts of one length, whose numbers are their bytes."""
    rows, nulls = len(chunk), chunk.null_count
    bytes_ = numpy_of(filled(chunk, 0)).astype(f"<u{texts.width}")
    offsets = np.arange(0, (rows + 1) * texts.width, texts.width, dtype=np.int32)
    buffers = [_present(chunk), pa.py_buffer(offsets), pa.py_buffer(bytes_)]
    return pa.Array.from_buffers(type_, rows, buffers, nulls)


def _in_runs(chunk: pa.Array, texts: NumberedTexts, type_: pa.DataType) -> pa.Array:
    length, spelled, ends = _runs(texts.values)
    nothing, nulls, rows = len(texts.values), chunk.null_count, len(chunk)
    numbers: Ints = numpy_of(filled(chunk, nothing))
    runs = _joined(numbers, length, nothing)
    spelled_runs = pc.take(spelled, arrow_array(runs))
    _, firsts, bytes_ = spelled_runs.buffers()
    offsets = np.zeros(len(runs) * length + 1, np.int32)
    within = offsets[1:].reshape(len(runs), length)
    np.take(ends, runs, axis=0, out=within, mode="clip")
    within += np.frombuffer(firsts, np.int32, len(runs))[:, None]
    return pa.Array.from_buffers(type_, rows, [_present(chunk), pa.py_buffer(offsets), bytes_], nulls)


def _present(chunk: pa.Array) -> pa.Buffer | None:
    """Return the validity bitmap of an array; None if no value is NULL."""
    if not chunk.null_count:
        return None
    return pa.py_buffer(np.packbits(numpy_of(pc.is_valid(chunk)), bitorder="little"))


def _joined(numbers: Ints, length: int, nothing: int) -> Ints:
    """Combine every `length` numbers into the number of a run; the last run is padded with `nothing`."""
    full, base = len(numbers) // length, nothing + 1
    rest = numbers[full * length :]
    out = np.zeros(full + bool(len(rest)), np.int32)
    for place, column in enumerate(numbers[: full * length].reshape(full, length).T):
        out[:full] *= base
        out[:full] += column
        if len(rest):
            out[full] = out[full] * base + (rest[place] if place < len(rest) else nothing)
    return out


@lru_cache(256)
def _runs(values: tuple[bytes, ...]) -> tuple[int, pa.Array, Ints]:
    """Return the length of a run, the text of every run, and where in it each of its values ends."""
    base, length = len(values) + 1, 1
    single, sizes = arrow_array([*values, b""], pa.binary()), np.array([*map(len, values), 0], np.int32)
    spelled, ends = single, sizes[:, None]
    while base ** (length + 1) <= _RUNS:
        before, last = np.divmod(np.arange(base ** (length + 1)), base)
        spelled = pc.binary_join_element_wise(
            pc.take(spelled, arrow_array(before)), pc.take(single, arrow_array(last)), b""
        )
        ends = np.column_stack([ends[before], ends[before, -1] + sizes[last]])
        length += 1
    return length, spelled, np.ascontiguousarray(ends, np.int32)
