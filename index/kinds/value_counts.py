"""Changes of value counts, summed per column and key, and written as one file of kind `value_counts`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.index.kinds.lookups import add_up
from tailbit.index.model import IndexFile
from tailbit.index.parquet.index_file import write_index_file, write_parquet
from tailbit.tables.storage import Storage

KIND = "value_counts"
_ROWS_PER_GROUP = 10_000

SCHEMA = pa.schema(
    [("column", pa.string()), ("key_type", pa.string()), ("key", pa.binary()), ("delta", pa.int64())]
)


@dataclass
class Tally:
    """Deltas of visible rows by (column, key type); keys are summed only when asked for."""

    _parts: dict[tuple[str, str], list[pa.Table]] = field(default_factory=dict)

    def add(self, column: str, key_type: str, keys: pa.BinaryArray, deltas: npt.NDArray[np.int64]) -> None:
        """Add a delta a key; `keys` are distinct and ascending, null first."""
        some = np.flatnonzero(deltas)
        if not len(some):
            return
        if len(some) < len(deltas):
            keys, deltas = keys.take(pa.array(some)), deltas[some]
        part = pa.table({"key": keys, "delta": pa.array(deltas, pa.int64())})
        self._parts.setdefault((column, key_type), []).append(part)

    def sums(self, column: str, key_type: str) -> pa.Table:
        """Keys ascending (null first) and their summed deltas, zeros left out."""
        parts = self._parts[column, key_type]
        if len(parts) == 1:
            return parts[0]
        return add_up(pa.concat_tables(parts))

    @property
    def columns(self) -> list[tuple[str, str]]:
        """(column, key type), ascending."""
        return sorted(self._parts)


def write_value_counts(storage: Storage, tally: Tally) -> IndexFile | None:
    """The deltas as one file sorted by (column, key); None where all are zero.

    A row group is never of two columns.
    """
    parts = [(c, t, tally.sums(c, t)) for c, t in tally.columns]
    if not any(len(table) for _, _, table in parts):
        return None

    return write_index_file(storage, KIND, KIND, lambda path: write_parquet(path, SCHEMA, _groups(parts)))


def _groups(parts: list[tuple[str, str, pa.Table]]) -> Iterator[pa.Table]:
    for column, key_type, table in parts:
        for start in range(0, len(table), _ROWS_PER_GROUP):
            part = table.slice(start, _ROWS_PER_GROUP)
            constant = [pa.repeat(text, len(part)) for text in (column, key_type)]
            yield pa.table([*constant, part["key"], part["delta"]], schema=SCHEMA)
