"""Statistics of a column in each row group of data files, from their footers; nothing if in doubt.

Only types whose order all writers agree on have bounds: integers, dates, times, decimals and text. Spark
prunes row groups by the same statistics. Null counts hold for every type.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import field
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import TailbitError
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array
from tailbit.tables.model import Column, FileBounds
from tailbit.tables.parquet.data_file import field_of, value_in
from tailbit.tables.parquet.decode import Decoder, constant, is_promotion, written_legacy
from tailbit.tables.parquet.file import ParquetNode
from tailbit.tables.parquet.layout import Layout
from tailbit.tables.schema import arrow_type

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_ORDERED = ("byte", "short", "integer", "long", "date", "timestamp", "timestamp_ntz", "decimal", "string")
_PHYSICAL = ("INT32", "INT64", "BYTE_ARRAY")
_EXACT = ("INT32", "INT64")
"""Physical types whose bounds are values of the column: a writer may have shortened texts."""


class ChunkStatistics(NamedTuple):
    """What the footer says of one column in one row group.

    `low`, `high`: canonical values (see `FileBounds`), both None without bounds. `nulls`: None if unknown.
    `rows`: row count of the row group. `packed`: compressed bytes of the column in the row group. `exact`:
    whether the bounds are values of the column.
    """

    low: Any
    high: Any
    nulls: int | None
    rows: int
    packed: int
    exact: bool


def row_group_bounds(layout: Layout, path: str, column: Column) -> list[FileBounds | None]:
    """Return the bounds of a column per row group, None if unknown; the layout caches them."""
    cached = layout.bounds.get(column.id, None)
    if cached is None or cached[0] != (column.type, column.unit):
        (groups,) = column_statistics([(layout, path)], column)
        bounds = [None if g.low is None else FileBounds(g.low, g.high, g.nulls, None) for g in groups]
        cached = layout.bounds[column.id] = ((column.type, column.unit), bounds)
    return cached[1]


def column_statistics(files: Sequence[tuple[Layout, str]], column: Column) -> list[list[ChunkStatistics]]:
    """Return, per file (its footer and path), what the footer says of a column in each row group.

    A file that lacks the column has NULL in every row. Files of one schema look the column up once, and
    bounds of files of one form are decoded together: a call of Arrow costs more than a few values.
    """
    fields: dict[tuple[int, bool], list[ParquetNode] | None] = {}
    alike = [(id(layout.tree), column.is_null_in(path)) for layout, path in files]
    for key, (layout, path) in zip(alike, files, strict=True):
        if key not in fields:
            fields[key] = field_of(layout, column, path)
    stated = [
        _Stated.of(layout, path, fields[key], column)
        for key, (layout, path) in zip(alike, files, strict=True)
    ]
    forms: dict[tuple[object, ...], list[_Stated]] = {}
    for file in stated:
        if file.ends:
            forms.setdefault(file.form, []).append(file)
    for of_form in forms.values():
        _decode(of_form, column)
    return [file.chunks() for file in stated]


@dataclass(eq=False)
class _Stated:
    """What one footer states of a column; `bounds` per row group once they are decoded."""

    layout: Layout
    path: str
    node: ParquetNode | None
    lacking: bool
    physical: str
    statistics: list[pq.Statistics | None]
    column: Column
    ends: list[tuple[object, object]] = field(default_factory=list)
    bounds: list[tuple[Any, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, layout: Layout, path: str, steps: list[ParquetNode] | None, column: Column) -> _Stated:
        """Read the statistics of a column by its fields; `ends` stay empty if the column has no bounds."""
        groups, schema = range(layout.metadata.num_row_groups), layout.metadata.schema
        node = None if not steps or steps[-1].children else steps[-1]
        if node is None or schema.column(node.first).max_repetition_level:
            return cls(layout, path, None, steps is None, "", [None for _ in groups], column)
        physical = str(schema.column(node.first).physical_type)
        statistics = [_statistics(layout, group, node.first, physical) for group in groups]
        out = cls(layout, path, node, False, physical, statistics, column)
        if column.type.name in _ORDERED and physical in _PHYSICAL and not _sorts_otherwise(column, node):
            with suppress(ValueError, OverflowError):
                out.ends = [_ends(of_group, node.field.type) for of_group in statistics]
        return out

    @property
    def form(self) -> tuple[object, ...]:
        """Return a key that is equal for files whose bounds are decoded alike."""
        assert self.node is not None
        return self.node.field.type, self.physical, written_legacy(self.layout.metadata, is_int96=False)

    def chunks(self) -> list[ChunkStatistics]:
        """Return the statistics per row group, without bounds in the wrong order and impossible counts."""
        rows = [end - start for start, end in pairwise(self.layout.starts.tolist())]
        bounds = self.bounds or [(None, None)] * len(rows)
        return [self._chunk(group, *bounds[group], rows[group]) for group in range(len(rows))]

    def _of_constant(self, rows: int) -> ChunkStatistics:
        """Return the statistics of a column that the file lacks, which has one value in all its rows."""
        value = value_in(self.layout.tree, self.column, self.path)
        if value is None:
            return ChunkStatistics(None, None, rows, rows, 0, True)
        if len(self.column.physical) > 1 or self.column.type.name not in _ORDERED:
            return ChunkStatistics(None, None, None, rows, 0, False)
        (number,) = _canonical(constant(value, arrow_type(self.column.type, self.column.label), 1))
        return ChunkStatistics(number, number, 0, rows, 0, True)

    def _chunk(self, group: int, low: Any, high: Any, rows: int) -> ChunkStatistics:
        if self.lacking:
            return self._of_constant(rows)
        if self.node is None:
            return ChunkStatistics(None, None, None, rows, 0, False)
        if low is None or high is None or low > high:
            low = high = None
        statistics, packed = self.statistics[group], self.layout.chunk(group, self.node.first).packed
        nulls = statistics.null_count if statistics is not None and statistics.has_null_count else None
        if nulls is not None and (not 0 <= nulls <= rows or (low is not None and nulls == rows)):
            nulls = None
        only_nulls = nulls == rows
        return ChunkStatistics(
            low, high, nulls, rows, packed, only_nulls or (low is not None and self.physical in _EXACT)
        )


def _decode(alike: Sequence[_Stated], column: Column) -> None:
    """Decode the bounds of files of one form; a file whose bounds cannot be decoded stays without bounds."""
    first = alike[0]
    try:
        low, high = (
            _values(first, column, [ends[which] for file in alike for ends in file.ends]) for which in (0, 1)
        )
    except (TailbitError, pa.ArrowException, ValueError, TypeError, OverflowError):
        for file in alike if len(alike) > 1 else ():
            _decode([file], column)
        return
    bounds = iter(zip(low, high, strict=True))
    for file in alike:
        file.bounds = list(islice(bounds, len(file.ends)))


def _sorts_otherwise(column: Column, node: ParquetNode) -> bool:
    """Return whether decoded values may sort differently from the stored ones: promoted types, and CHAR."""
    promoted = column.type.promoted and is_promotion(node.field.type, arrow_type(column.type, column.label))
    return promoted or bool(column.type.char_length)


def _statistics(layout: Layout, group: int, leaf: int, physical: str) -> pq.Statistics | None:
    """Return the footer's statistics of a chunk, or None if the chunk's type differs from its column's.

    pyarrow would abort the process on statistics of such a chunk.
    """
    if layout.chunk(group, leaf).type != physical:
        return None
    return layout.metadata.row_group(group).column(leaf).statistics


def _ends(stated: pq.Statistics | None, type_: pa.DataType) -> tuple[object, object]:
    """Return the bounds that a footer states; times in microseconds as the numbers that are stored."""
    if stated is None or not stated.has_min_max:
        return None, None
    in_micros = pa.types.is_timestamp(type_) and type_.unit == "us"
    if in_micros and "timeUnit=microseconds" in str(stated.logical_type):
        return stated.min_raw, stated.max_raw
    return stated.min, stated.max


def _values(file: _Stated, column: Column, stored: Sequence[object]) -> list[Any]:
    """Convert stored bounds to canonical values of the table's type, as `FileBounds` holds them."""
    assert file.node is not None
    decode = Decoder(file.layout.metadata, file.path, column.label)
    decoded = decode.array(arrow_array(stored, file.node.field.type), column, file.node)
    return _canonical(pc.cast(decoded, arrow_type(column.type, column.label)))


def _canonical(values: pa.Array) -> list[Any]:
    """Return values as `FileBounds` holds them."""
    if pa.types.is_date(values.type):
        values = pc.cast(values, pa.int32())
    elif pa.types.is_timestamp(values.type):
        values = pc.cast(values, pa.int64())
    out: list[Any] = values.to_pylist()
    return out
