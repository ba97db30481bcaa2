"""Detection of INT96 timestamps that pyarrow decodes wrongly: they are decoded again in seconds.

pyarrow reads the Julian day and the nanoseconds as unsigned, and its microseconds overflow 64 bits; Spark
writes negative days for times before 4713 BC. In seconds nothing overflows, so a wrong time is out of range.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from tailbit.base.errors import DataFileError
from tailbit.tables import compute as pc
from tailbit.tables.parquet.file import ParquetFile, read_leaves

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_FIRST = -188_395_027_200
"""4000 BC in seconds since 1970; a day before 4713 BC may be decoded 584 years too late."""
_LAST = (1 << 63) // 1_000_000
"""The last second whose microseconds fit 64 bits."""


def int96_leaves(metadata: pq.FileMetaData, leaves: Sequence[int]) -> list[int]:
    """Return the leaf columns that are INT96."""
    return [leaf for leaf in leaves if metadata.schema.column(leaf).physical_type == "INT96"]


def check_int96(
    source: pa.NativeFile,
    metadata: pq.FileMetaData,
    leaves: Sequence[int],
    row_groups: Sequence[int] | None,
    path: str,
) -> None:
    """Check that pyarrow decodes the INT96 timestamps of these leaves correctly.

    Cost: decodes them again; some 10 ms per million rows.

    Raises:
        DataFileError: a timestamp is outside the range that is decoded correctly.
    """
    file = ParquetFile(source, metadata=metadata, coerce_int96_timestamp_unit="s")
    for column in read_leaves(file, leaves, row_groups, use_threads=False).columns:
        for chunk in column.chunks:
            for times in _timestamps(chunk):
                bounds = pc.min_max(pc.cast(times, pa.int64()))
                low, high = bounds["min"].as_py(), bounds["max"].as_py()
                if low is not None and not _FIRST <= low <= high < _LAST:
                    reason = (
                        "it holds INT96 timestamps before 4000 BC or after 287,000 AD, which are not read"
                    )
                    raise DataFileError(file=path, reason=reason)


def _timestamps(values: pa.Array) -> Iterator[pa.Array]:
    """Yield the timestamp arrays in an array, at any nesting depth."""
    if pa.types.is_timestamp(values.type):
        yield values
    elif pa.types.is_struct(values.type):
        for field in values.flatten():
            yield from _timestamps(field)
    elif pa.types.is_map(values.type):
        yield from _timestamps(values.keys)
        yield from _timestamps(values.items)
    elif pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        yield from _timestamps(values.flatten())
