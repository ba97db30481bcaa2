"""Live files as columns, from log checkpoints and actions: the newest action of a logical file counts.

Statistics stay JSON text; the row counts are extracted by one vectorised pass when they are first needed. A
remove takes away the logical file that it names, a path with one deletion vector; the same path with another
vector stays. Writers remove logical files that were not live, split a change of hidden rows over several
commits, and forget the vector in a remove, so that a path is live twice. Rows are addressed by path and
position: such a version is refused. Source: Delta protocol, Action Reconciliation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tailbit.base.errors import LiveTwiceError
from tailbit.base.once import once
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, arrow_scalar, numpy_of
from tailbit.tables.delta.actions import LogicalFile, logical_file, path_of
from tailbit.tables.delta.deletion_vectors import FIELDS, DeletionVector
from tailbit.tables.delta.statistics import DeltaStatistics, is_readable, num_records
from tailbit.tables.model import FileSlice, Version
from tailbit.tables.snapshot import FileList, stored_columns, stored_schema

DV_TYPE = pa.struct(zip(FIELDS, (pa.string(), pa.string(), pa.int32(), pa.int32(), pa.int64()), strict=True))
STORED = stored_schema(DV_TYPE)

_COUNT = r'^\s*\{\s*"numRecords"\s*:\s*(?P<n>\d{1,18})\s*[,}]'


class DeltaFiles(FileList):
    """The live files of a Delta table: columns of schema STORED."""

    @classmethod
    def stored(cls, slices: Sequence[FileSlice]) -> pa.Table:
        """Return slices as a table of schema STORED, in the order given."""
        stats = [p.stats.text if isinstance(p.stats, DeltaStatistics) else None for p in slices]
        hidden = [p.hidden.action() if isinstance(p.hidden, DeletionVector) else None for p in slices]
        return stored_columns(slices, STORED, hidden, stats)

    def _hidden_ids(self, stored: pa.ChunkedArray) -> pa.ChunkedArray:
        offset = pc.cast(pc.struct_field(stored, "offset"), pa.string())
        suffix = pc.coalesce(
            pc.binary_join_element_wise(arrow_scalar("@"), offset, arrow_scalar("")), arrow_scalar("")
        )
        kind, where = pc.struct_field(stored, "storageType"), pc.struct_field(stored, "pathOrInlineDv")
        return pc.binary_join_element_wise(kind, where, suffix, arrow_scalar(""))

    def _hidden(self, stored: Mapping[str, Any] | None) -> DeletionVector | None:
        return None if stored is None else DeletionVector(*(stored[name] for name in FIELDS))

    def _statistics(self, text: str | None) -> DeltaStatistics | None:
        return None if text is None else DeltaStatistics(text)

    def _rows(self, counted: int | None, stats: str | None) -> int | None:
        return counted if counted is not None else num_records(stats)

    def unreadable_statistics(self, numbers: Sequence[int] | None = None) -> int:
        """Count the files with statistics that cannot be parsed, among the files at `numbers` or all files.

        Cost: parses the statistics of each of these files.
        """
        texts = self.stats if numbers is None else pc.take(self.stats, arrow_array(numbers, pa.int64()))
        return sum(not is_readable(text) for text in pc.drop_null(texts).to_pylist() if text)

    @once
    def table(self) -> pa.Table:
        """Return columns path, size, mtime (ms), rows (null if unknown), partition, hidden, stats."""
        out = self._stored.drop_columns(["origin"])
        out = out.set_column(out.schema.get_field_index("counted"), "rows", self.rows)
        return out.set_column(out.schema.get_field_index("stats"), "stats", self.stats)

    @once
    def rows(self) -> pa.ChunkedArray:
        """Return the physical rows per file according to the log, int64; null if the log has no row count."""
        counted, stats = self._stored["counted"], self.stats
        quick = pc.cast(pc.struct_field(pc.extract_regex(stats, pattern=_COUNT), "n"), pa.int64())
        out = pc.coalesce(counted, quick)
        rest = np.flatnonzero(numpy_of(pc.and_(pc.is_null(out), pc.is_valid(stats)), dtype=bool))
        if not len(rest):
            return out
        slow = [num_records(text) for text in pc.take(stats, arrow_array(rest)).to_pylist()]
        mask = np.zeros(len(self), dtype=bool)
        mask[rest] = True
        filled = pc.replace_with_mask(out.combine_chunks(), arrow_array(mask), arrow_array(slow, pa.int64()))
        return pa.chunked_array([filled])


Outcomes = Mapping[LogicalFile, FileSlice | None]
"""Logical files that some commits name, each with its slice after them; None if the file was removed."""


def reconcile(files: DeltaFiles, outcomes: Outcomes, root: str, version: Version) -> DeltaFiles:
    """Return the live files after commits, from the live files before and what the commits name.

    Cost: as `FileList.overlaid`. `root` and `version` are for errors.

    Raises:
        LiveTwiceError: a path is live with two deletion vectors, or with one and without.
    """
    changes: dict[str, FileSlice | None] = {}
    for file, slice_ in outcomes.items():
        if slice_ is None:
            changes.setdefault(path_of(file), None)
        elif changes.get(slice_.path) is None:
            changes[slice_.path] = slice_
        else:
            raise LiveTwiceError(path=root, version=version, file=slice_.path)
    if not len(files):
        return files.overlaid(changes)
    numbers, has_vectors = files.places_of(changes), files.any_hidden
    for path, (number, is_live) in numbers.items():
        hidden = files.hidden(number) if is_live and has_vectors else None
        if is_live and logical_file(path, hidden) not in outcomes and changes.pop(path) is not None:
            raise LiveTwiceError(path=root, version=version, file=path)
    return files.overlaid(changes, numbers)
