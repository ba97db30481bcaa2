"""The live data files of an Iceberg table, with the deletes that apply to them and their statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array
from tailbit.tables.file_list import FileList, stored_schema
from tailbit.tables.iceberg.hidden import FIELDS, DeletedRows
from tailbit.tables.iceberg.manifests import STATS
from tailbit.tables.iceberg.statistics import IcebergStatistics
from tailbit.tables.model import FileSlice

_BASE = stored_schema(pa.struct([(name, pa.string()) for name in FIELDS]))
STORED = _BASE.set(_BASE.get_field_index("stats"), pa.field("stats", STATS))


class IcebergFiles(FileList):
    """The live data files of a snapshot: columns of schema STORED."""

    @classmethod
    def stored(cls, slices: Sequence[FileSlice]) -> pa.Table:
        """Return slices as a table of schema STORED, in the order given."""
        columns: list[Sequence[Any]] = [
            [slice_.path for slice_ in slices],
            [slice_.size for slice_ in slices],
            [slice_.mtime for slice_ in slices],
            [slice_.rows for slice_ in slices],
            [list(slice_.partition.items()) for slice_ in slices],
            [s.hidden.stored if isinstance(s.hidden, DeletedRows) else None for s in slices],
            [s.stats.stats if isinstance(s.stats, IcebergStatistics) else None for s in slices],
            [None] * len(slices),
        ]
        arrays = [pa.array(values, field.type) for values, field in zip(columns, STORED, strict=True)]
        return pa.Table.from_arrays(arrays, schema=STORED)

    @classmethod
    def of_entries(cls, entries: pa.Table, hidden: pa.Array, file: str) -> IcebergFiles:
        """Return the list of the data files of some entries; `hidden`: the stored deletes of each.

        Raises:
            MalformedLogError: a path occurs twice.
        """
        count = entries.num_rows
        empty = pa.array([[]], STORED.field("partition").type)
        arrays = {
            "path": entries["path"],
            "size": entries["size"],
            "mtime": pa.repeat(pa.scalar(0, pa.int64()), count),
            "counted": entries["rows"],
            "partition": pc.take(empty, pa.repeat(pa.scalar(0, pa.int64()), count)),
            "hidden": hidden,
            "stats": pa.nulls(count, STATS),
            "origin": arrow_array(np.arange(count)),
        }
        stored = pa.table([arrays[field.name] for field in STORED], schema=STORED)
        # Statistics are most of the bytes, and a question that needs none must not sort them.
        return cls.sorted(stored, file, lambda: entries["stats"])

    def _hidden_ids(self, stored: pa.ChunkedArray) -> pa.ChunkedArray:
        return pc.struct_field(stored, [FIELDS.index("id")])

    def _hidden(self, stored: Any) -> DeletedRows | None:
        return None if stored is None else DeletedRows(**stored)

    def _statistics(self, text: Any) -> IcebergStatistics | None:
        return None if text is None else IcebergStatistics(text)
