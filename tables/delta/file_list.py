"""The live files of a snapshot as columns: sorted by path, nothing per file in Python until one is asked for.

Statistics are most of a checkpoint's bytes and most questions need none: they are read when first asked for.
Statistics stay text, the row count in it is taken out by one vectorised pass when first wanted. A list is
extended by the changes of a few commits in slices that share memory with the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tailbit.errors import MalformedLogError
from tailbit.tables.delta.actions import num_records
from tailbit.tables.model import DeletionVector, FileSlice

DV_TYPE = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
STORED = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("mtime", pa.int64()),
        ("counted", pa.int64()),
        ("partition", pa.map_(pa.string(), pa.string())),
        ("dv", DV_TYPE),
        ("stats", pa.large_string()),
        ("origin", pa.int64()),
    ]
)
"""Columns of a list as kept. `counted`: a row count known without the statistics, else null. `stats`: those
that came with a commit; for those in a checkpoint, `origin` is their place in what `LateStats` reads."""

LateStats = Callable[[], pa.ChunkedArray]
"""Reads the statistics of a checkpoint: large_string, in the order of `origin`."""

_COUNT = r'^\s*\{\s*"numRecords"\s*:\s*(?P<n>\d{1,18})\s*[,}]'
_MAX_PIECES = 256
_MAX_SPLICES = 2000


class FileList(Sequence[FileSlice]):
    """File slices in path order, each path once.

    `table` has columns path string, size int64, mtime int64 (ms), rows int64 (null where the log does not
    say), partition map<string, string> by physical name, dv struct (null where no row is hidden), stats
    large_string.
    """

    def __init__(self, stored: pa.Table, file: str, late: LateStats | None = None) -> None:
        """Take columns of schema STORED, already sorted by path; `file` names the log in errors."""
        self._stored = stored
        self._file = file
        self._late = late

    @classmethod
    def sorted(cls, stored: pa.Table, file: str, late: LateStats | None = None) -> FileList:
        """A list of files in any order.

        Raises:
            MalformedLogError: one path twice.
        """
        paths = stored["path"].combine_chunks()
        if not _ascending(paths):
            stored = stored.take(pc.sort_indices(paths))
            paths = stored["path"].combine_chunks()
            if not _ascending(paths):
                twice = paths.filter(pa.concat_arrays([_same_as_next(paths), pa.array([False])]))
                raise MalformedLogError(file=file, reason=f"path {twice[0].as_py()!r} is live twice")
        return cls(stored, file, late)

    @classmethod
    def of(cls, slices: Sequence[FileSlice], file: str) -> FileList:
        """A list of slices in any order."""
        return cls.sorted(stored_table(slices), file)

    @cached_property
    def table(self) -> pa.Table:
        """The columns as described above. Cost: the first call reads the statistics."""
        out = self._stored.drop_columns(["origin"])
        out = out.set_column(out.schema.get_field_index("counted"), "rows", self.rows)
        return out.set_column(out.schema.get_field_index("stats"), "stats", self.stats)

    @property
    def core(self) -> pa.Table:
        """The columns path, size, mtime, partition and dv: all that needs no statistics."""
        return self._stored.select(["path", "size", "mtime", "partition", "dv"])

    @cached_property
    def stats(self) -> pa.ChunkedArray:
        """large_string per file: the log's statistics as JSON text, null where it has none.

        Raises:
            MalformedLogError: the checkpoint that holds them is damaged.
        """
        own, origin = self._stored["stats"], self._stored["origin"]
        if self._late is None or origin.null_count == len(self):
            return own
        return pc.coalesce(own, self._late().take(origin))

    @cached_property
    def rows(self) -> pa.ChunkedArray:
        """int64 physical rows per file, null where the log does not say.

        Raises:
            MalformedLogError: statistics that are not JSON.
        """
        known, stats = self._stored["counted"], self.stats
        quick = pc.struct_field(pc.extract_regex(stats, pattern=_COUNT), "n").cast(pa.int64())
        out = pc.coalesce(known, quick)
        rest = np.flatnonzero(np.asarray(pc.and_(pc.is_null(out), pc.is_valid(stats)), dtype=bool))
        if not len(rest):
            return out
        slow = [num_records(text, self._file) for text in stats.take(pa.array(rest)).to_pylist()]
        mask = np.zeros(len(self), dtype=bool)
        mask[rest] = True
        filled = pc.replace_with_mask(out.combine_chunks(), pa.array(mask), pa.array(slow, pa.int64()))
        return pa.chunked_array([filled])

    @cached_property
    def paths(self) -> pa.StringArray:
        """Paths in order, as one array."""
        return pa.concat_arrays([pa.nulls(0, pa.string()), *self._stored["path"].chunks])

    @cached_property
    def dv_rows(self) -> npt.NDArray[np.int64]:
        """Row numbers of the files that have hidden rows."""
        return np.flatnonzero(np.asarray(pc.is_valid(self._stored["dv"]), dtype=bool)).astype(np.int64)

    @cached_property
    def hidden_ids(self) -> pa.ChunkedArray:
        """String per file: the identity of its hidden rows, empty where none are hidden."""
        vectors = self._stored["dv"]
        offset = pc.struct_field(vectors, "offset").cast(pa.string())
        at = pc.coalesce(pc.binary_join_element_wise(pa.scalar("@"), offset, ""), pa.scalar(""))
        kind, where = pc.struct_field(vectors, "storageType"), pc.struct_field(vectors, "pathOrInlineDv")
        return pc.coalesce(pc.binary_join_element_wise(kind, where, at, ""), pa.scalar(""))

    def partition_texts(self, physical: str) -> pa.ChunkedArray:
        """A string per file: the log's text of a partition column (physical name); null where it has none."""
        return pc.map_lookup(self._stored["partition"], pa.scalar(physical), "first")

    def __len__(self) -> int:
        return int(self._stored.num_rows)

    def __getitem__(self, number: Any) -> Any:
        """The slice at a row number; a range of numbers gives a list. Cost: that row only."""
        if isinstance(number, slice):
            return [self[i] for i in range(*number.indices(len(self)))]
        if number < 0:
            number += len(self)
        if not 0 <= number < len(self):
            raise IndexError(f"file {number} of {len(self)}")
        row = {name: self._with_stats[name][number].as_py() for name in self._with_stats.column_names}
        return self._piece(row)

    def __iter__(self) -> Iterator[FileSlice]:
        for batch in self._with_stats.to_batches(max_chunksize=1024):
            for row in batch.to_pylist():
                yield self._piece(row)

    @cached_property
    def _with_stats(self) -> pa.Table:
        out = self._stored.drop_columns(["origin"])
        return out.set_column(out.schema.get_field_index("stats"), "stats", self.stats)

    def _piece(self, row: Mapping[str, Any]) -> FileSlice:
        counted, stats = row["counted"], row["stats"]
        return FileSlice(
            path=row["path"],
            size=row["size"],
            mtime=row["mtime"],
            rows=counted if counted is not None else num_records(stats, self._file),
            partition=dict(row["partition"] or ()),
            hidden=_vector(row["dv"]),
            stats=stats,
        )

    def get(self, path: str) -> FileSlice | None:
        """The slice of a path; None where it is not live. Cost: one bisection."""
        at, found = self._find(path)
        piece: FileSlice | None = self[at] if found else None
        return piece

    def _find(self, path: str) -> tuple[int, bool]:
        """Where a path is or would be inserted, and whether it is there. UTF-8 sorts like code points."""
        paths, low, high = self.paths, 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if paths[middle].as_py() < path:
                low = middle + 1
            else:
                high = middle
        return low, low < len(self) and paths[low].as_py() == path

    def overlaid(self, changes: Mapping[str, FileSlice | None]) -> FileList:
        """The list after changes by path: a slice replaces or adds, None removes.

        Cost: of the changes, plus one copy of the paths; a full sort where the changes are many.
        """
        if not changes:
            return self
        added = stored_table([piece for _, piece in sorted(changes.items()) if piece is not None])
        if len(changes) > _MAX_SPLICES or len(self) < len(changes):
            gone = pc.is_in(self._stored["path"], value_set=pa.array(list(changes), pa.string()))
            kept = self._stored.filter(pc.invert(gone))
            return FileList.sorted(pa.concat_tables([kept, added]), self._file, self._late)
        return FileList(self._spliced(changes, added), self._file, self._late)

    def _spliced(self, changes: Mapping[str, FileSlice | None], added: pa.Table) -> pa.Table:
        pieces, taken, used, start = [], 0, 0, 0
        for path in sorted(changes):
            at, found = self._find(path)
            if at > taken:
                pieces += [added.slice(start, used - start), self._stored.slice(taken, at - taken)]
                start = used
            used += changes[path] is not None
            taken = at + found
        pieces += [added.slice(start, used - start), self._stored.slice(taken)]
        out = pa.concat_tables([p for p in pieces if p.num_rows] or [self._stored.slice(0, 0)])
        return out.combine_chunks() if out["path"].num_chunks > _MAX_PIECES else out


def stored_table(slices: Sequence[FileSlice]) -> pa.Table:
    """Slices as a table of schema STORED, in the order given."""
    vectors = [
        None
        if p.hidden is None
        else {
            "storageType": p.hidden.storage_type,
            "pathOrInlineDv": p.hidden.path_or_inline,
            "offset": p.hidden.offset,
            "sizeInBytes": p.hidden.size,
            "cardinality": p.hidden.cardinality,
        }
        for p in slices
    ]
    columns = [
        [p.path for p in slices],
        [p.size for p in slices],
        [p.mtime for p in slices],
        [p.rows for p in slices],
        [list(p.partition.items()) for p in slices],
        vectors,
        [p.stats for p in slices],
        [None] * len(slices),
    ]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, STORED, strict=True)]
    return pa.Table.from_arrays(arrays, schema=STORED)


def _vector(row: Mapping[str, Any] | None) -> DeletionVector | None:
    if row is None:
        return None
    return DeletionVector(
        row["storageType"], row["pathOrInlineDv"], row["offset"], row["sizeInBytes"], row["cardinality"]
    )


def _ascending(paths: pa.StringArray) -> bool:
    """Whether paths strictly ascend."""
    found = pc.all(pc.less(paths.slice(0, max(len(paths) - 1, 0)), paths.slice(1))).as_py()
    return len(paths) < 2 or bool(found)


def _same_as_next(paths: pa.StringArray) -> pa.BooleanArray:
    return pc.equal(paths.slice(0, len(paths) - 1), paths.slice(1))
