"""Exclusion of row groups in which no page holds the bytes that every passing text holds.

A page of plain texts is decompressed and searched as bytes, which takes less time than decoding the texts.
Texts that both the first and the last row group hold are taken to be common, and are not searched for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa

from tailbit.tables.ahead import in_order
from tailbit.tables.model import Column
from tailbit.tables.parquet.data_file import flat_column, named_file, open_layout
from tailbit.tables.parquet.layout import Chunk, Pages
from tailbit.tables.parquet.row_assembly.by_polars import CHECKED
from tailbit.tables.parquet.value_search.condition import AllOf, Condition, Part, Test, Texts
from tailbit.tables.parquet.value_search.find import Sought
from tailbit.tables.storage import Storage

_SHORTEST = 4
"""Byte strings shorter than this occur in most pages."""
_MOST = 4
"""Most texts of one condition that are searched for."""


def needles_of(condition: Condition) -> tuple[Column, Sequence[bytes]] | None:
    """Return a column, and byte strings of which each passing row holds one as a plain page stores it.

    None if the condition has no such strings, or they are too many or too short to search for.
    """
    if isinstance(condition, AllOf):
        parts = (needles_of(part) for part in condition.parts)
        return next((needles for needles in parts if needles is not None), None)
    if not isinstance(condition, Test) or condition.nulls or condition.complement:
        return None
    stored = condition.stored
    if isinstance(stored, Part):
        needles = [max(stored.begin, stored.end, stored.middle, key=len)]
    elif isinstance(stored, Texts) and len(stored.ranges) <= _MOST:
        needles = []
        for low, _, high, _ in stored.ranges:
            if low is None or low != high:
                return None
            needles.append(low)
    else:
        return None
    if not needles or min(map(len, needles)) < _SHORTEST:
        return None
    if isinstance(stored, Texts):
        needles = [len(needle).to_bytes(4, "little") + needle for needle in needles]
    return condition.column, needles


def narrowed(storage: Storage, searches: Sequence[Sought]) -> list[Sought]:
    """Restrict searches to the row groups that hold a text of their condition.

    Cost: decompresses the texts once, on all cores; only two row groups per condition if both hold a text.

    Raises:
        DataFileError: a file is missing or is not Parquet.
    """
    out: list[Sought] = []
    for _, group in groupby(searches, key=lambda search: id(search.condition)):
        alike = list(group)
        needles = needles_of(alike[0].condition)
        ends = (
            replace(alike[0], groups=alike[0].groups[:1]),
            replace(alike[-1], groups=alike[-1].groups[-1:]),
        )
        if needles is None or all(list(_holding(storage, end, *needles)) for end in ends):
            out.extend(alike)
        else:
            out.extend(in_order(partial(_narrowed, storage, search, *needles) for search in alike))
    return out


def _narrowed(storage: Storage, search: Sought, column: Column, needles: Sequence[bytes], _: bool) -> Sought:
    return replace(search, groups=list(_holding(storage, search, column, needles)))


def _holding(storage: Storage, search: Sought, column: Column, needles: Sequence[bytes]) -> Iterator[int]:
    """Yield the row groups of a file that may hold one of the byte strings."""
    path = search.slice_.path
    layout = open_layout(storage, path, search.slice_.size)
    with named_file(storage, path), storage.open(storage.resolve(path)) as source:
        node = flat_column(layout, column, path)
        for group in search.groups:
            chunk = None if node is None else layout.chunk(group, node.first)
            searchable = chunk is not None and chunk.type == "BYTE_ARRAY" and chunk.codec in CHECKED
            pages = layout.pages(source, group, node.first) if node is not None and searchable else None
            if chunk is None or pages is None or _may_hold(source, chunk, pages, needles):
                yield group


def _may_hold(source: pa.NativeFile, chunk: Chunk, pages: Pages, needles: Sequence[bytes]) -> bool:
    if not (pages.coded | (pages.plain > 0)).all():
        return True
    of_pages = (pages.starts, pages.ends, pages.unpacked, pages.plain)
    bodies = [_Page(*of) for of in zip(*(of.tolist() for of in of_pages), strict=True) if of[-1]]
    if pages.dictionary is not None:
        bodies.insert(0, _Page(*pages.dictionary[:4]))
    try:
        return any(_holds(source, chunk.codec, body, needles) for body in bodies)
    except (pa.ArrowException, OSError, ValueError):
        return True


class _Page(NamedTuple):
    """A page: its offsets, decompressed bytes with header, and the offset behind its header."""

    start: int
    end: int
    unpacked: int
    body: int


def _holds(source: pa.NativeFile, codec: str, page: _Page, needles: Sequence[bytes]) -> bool:
    data = source.read_at(page.end - page.body, page.body)
    if codec != "UNCOMPRESSED":
        size = page.unpacked - (page.body - page.start)
        data = pa.Codec(codec.lower()).decompress(data, size, asbytes=True)
    return any(needle in data for needle in needles)
