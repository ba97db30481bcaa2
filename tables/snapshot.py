"""The snapshot of a table at one version: its schema, and its live files as columns.

The live files of a snapshot as columns, sorted by path; a Python object is made only for a file asked for.
Statistics are most of a log's bytes and most questions need none: they are read on first use. A list is
extended by the changes of a few commits in slices that share memory with the earlier list. What only a table
format can read, descriptors of hidden rows and statistics, is stored in columns that the format's subclass of
`FileList` decodes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import MalformedLogError
from tailbit.base.once import once
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, arrow_scalar, numpy_of
from tailbit.tables.model import FileSlice, HiddenRows, Statistics, Version
from tailbit.tables.schema import Schema

LateStats = Callable[[], pa.ChunkedArray]
"""A reader of deferred statistics: returns large_string, indexed by `origin`."""

Files = TypeVar("Files", bound="FileList")
Places = Mapping[str, tuple[int, bool]]
"""By path: the row number of a file, or where it would be inserted, and whether it is live."""

_MAX_PIECES = 256
_MANY_FILES = 16
_MAX_SPLICES = 2000


def stored_schema(hidden: pa.DataType) -> pa.Schema:
    """Return the schema of a stored list; `hidden` is the format's type for descriptors of hidden rows.

    `counted`: the row count if it is known without statistics, else null. `stats`: the statistics as the
    format's text; null for statistics read late, which `origin` locates in the result of `LateStats`.
    """
    return pa.schema(
        [
            ("path", pa.string()),
            ("size", pa.int64()),
            ("mtime", pa.int64()),
            ("counted", pa.int64()),
            ("partition", pa.map_(pa.string(), pa.string())),
            ("hidden", hidden),
            ("stats", pa.large_string()),
            ("origin", pa.int64()),
        ]
    )


class FileList(Sequence[FileSlice], ABC):
    """File slices in path order, each path once. A table format implements the four abstract methods."""

    def __init__(self, stored: pa.Table, file: str, late: LateStats | None = None) -> None:
        """Wrap columns of `stored_schema`, already sorted by path; `file` names the log in errors."""
        self._stored = stored
        self._file = file
        self._late = late

    @classmethod
    def sorted(cls: type[Files], stored: pa.Table, file: str, late: LateStats | None = None) -> Files:
        """Return the list of files of a table of `stored_schema`, sorted by path.

        `file`: the name of the log in errors. `late`: reads the statistics when they are first needed.

        Raises:
            MalformedLogError: a path occurs twice.
        """
        files, twice = cls.parted(stored, file, late)
        if twice:
            raise MalformedLogError(file=file, reason=f"path {twice[0].path!r} is live twice")
        return files

    @classmethod
    def parted(
        cls: type[Files], stored: pa.Table, file: str, late: LateStats | None = None
    ) -> tuple[Files, list[FileSlice]]:
        """Return the list of files as `sorted` does, and apart the slices of paths that occur repeatedly."""
        paths = stored["path"].combine_chunks()
        if _ascending(paths):
            return cls(stored, file, late), []
        stored = pc.take(stored, pc.sort_indices(paths))
        paths = stored["path"].combine_chunks()
        if _ascending(paths):
            return cls(stored, file, late), []
        same = numpy_of(_same_as_next(paths), dtype=bool)
        repeated = np.r_[False, same] | np.r_[same, False]
        once_, twice = (pc.filter(stored, arrow_array(mask)) for mask in (~repeated, repeated))
        return cls(once_, file, late), list(cls(twice, file, late))

    @classmethod
    def of(cls: type[Files], slices: Sequence[FileSlice], file: str) -> Files:
        """Return the list of slices, which may come in any order; `file` names the log in errors."""
        return cls.sorted(cls.stored(slices), file)

    @classmethod
    @abstractmethod
    def stored(cls, slices: Sequence[FileSlice]) -> pa.Table:
        """Return slices in their order as a table of the format's stored schema. See `stored_columns`."""

    @abstractmethod
    def _hidden_ids(self, stored: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return the identity of the hidden rows per file, as strings; null or empty if no row is hidden."""

    @abstractmethod
    def _hidden(self, stored: Any) -> HiddenRows | None:
        """Return the descriptor of hidden rows from its stored form; None for null."""

    @abstractmethod
    def _statistics(self, text: str | None) -> Statistics | None:
        """Return the statistics of a file from their text; None if there is no text."""

    def _rows(self, counted: int | None, stats: str | None) -> int | None:
        """Return the number of physical rows of a file by its stored count; None if that is unknown.

        A format whose statistics state the number takes it from them where no count is stored.
        """
        return counted

    def unreadable_statistics(self, numbers: Sequence[int] | None = None) -> int:
        """Count the files whose statistics cannot be read, among the files of `numbers` or all files."""
        return 0

    @property
    def core(self) -> pa.Table:
        """The columns path, size, mtime and partition: all that needs no statistics."""
        return self._stored.select(["path", "size", "mtime", "partition"])

    @once
    def stats(self) -> pa.ChunkedArray:
        """Return the statistics per file as the format's text, large_string; null if a file has none."""
        own, origin = self._stored["stats"], self._stored["origin"]
        if self._late is None or origin.null_count == len(self):
            return own
        return pc.coalesce(own, pc.take(self._late(), origin))

    @property
    def rows(self) -> pa.ChunkedArray:
        """The physical rows per file according to the log, int64; null if the log has no row count."""
        return self._stored["counted"]

    @once
    def paths(self) -> pa.StringArray:
        """Return the paths in order, as one array."""
        return pa.concat_arrays([pa.nulls(0, pa.string()), *self._stored["path"].chunks])

    @once
    def with_hidden(self) -> npt.NDArray[np.int64]:
        """Return the row numbers of the files that have hidden rows."""
        return np.flatnonzero(numpy_of(pc.is_valid(self._stored["hidden"]), dtype=bool)).astype(np.int64)

    @property
    def any_hidden(self) -> bool:
        """Whether any file has hidden rows. Cost: one null count per chunk."""
        return bool(self._stored["hidden"].null_count < len(self))

    @once
    def hidden_ids(self) -> pa.ChunkedArray:
        """Return the identity of the hidden rows per file, as strings; empty if no row is hidden."""
        return pc.coalesce(self._hidden_ids(self._stored["hidden"]), arrow_scalar(""))

    def hidden(self, number: int) -> HiddenRows | None:
        """Return the descriptor of the hidden rows of a file by row number, or None. Reads no statistics."""
        return self._hidden(self._stored["hidden"][number].as_py())

    def partition_texts(self, physical: str) -> pa.ChunkedArray:
        """Return the log's text of a partition column per file, as strings; null if missing.

        `physical` is the column's physical name.
        """
        return pc.map_lookup(self._stored["partition"], arrow_scalar(physical), "first")

    def __len__(self) -> int:
        return int(self._stored.num_rows)

    def __getitem__(self, number: Any) -> Any:
        """Return the file slice at a row number, or a list of slices for a Python slice.

        Cost: those rows only.
        """
        if isinstance(number, slice):
            return [self[i] for i in range(*number.indices(len(self)))]
        if number < 0:
            number += len(self)
        if not 0 <= number < len(self):
            raise IndexError(f"file {number} of {len(self)}")
        row = {name: self._stored[name][number].as_py() for name in self._stored.column_names}
        origin = row.pop("origin")
        if self._late is not None and row["stats"] is None and origin is not None:
            row["stats"] = self._late()[origin].as_py()
        return self._piece(row)

    def __iter__(self) -> Iterator[FileSlice]:
        return self._pieces(self._with_stats)

    def at(self, numbers: Sequence[int]) -> list[FileSlice]:
        """Return the file slices at some row numbers. Cost: for many, a quarter of one by one."""
        if len(numbers) < _MANY_FILES:
            return [self[number] for number in numbers]
        return list(self._pieces(pc.take(self._with_stats, arrow_array(list(numbers), pa.int64()))))

    def portion(self: Files, numbers: Sequence[int], with_stats: Collection[int]) -> Files:
        """Return the list of the files at ascending row numbers, for another process.

        `with_stats`: the numbers of the files that keep their statistics, which are most of a list's bytes.
        """
        rows = pc.take(self._stored.drop_columns(["stats", "origin"]), arrow_array(list(numbers), pa.int64()))
        of_stats = [number if number in with_stats else None for number in numbers]
        stats = pc.take(self.stats, arrow_array(of_stats, pa.int64())) if with_stats else None
        field_ = self._stored.schema.field("stats")
        stats = pa.nulls(len(rows), field_.type) if stats is None else stats
        origin = pa.nulls(len(rows), pa.int64())
        schema = self._stored.schema
        columns = [*(rows[name] for name in rows.column_names), stats, origin]
        return type(self)(pa.Table.from_arrays(columns, schema=schema), self._file)

    def _pieces(self, table: pa.Table) -> Iterator[FileSlice]:
        for batch in table.to_batches(max_chunksize=1024):
            for row in batch.to_pylist():
                yield self._piece(row)

    @once
    def _with_stats(self) -> pa.Table:
        out = self._stored.drop_columns(["origin"])
        return out.set_column(out.schema.get_field_index("stats"), "stats", self.stats)

    def _piece(self, row: Mapping[str, Any]) -> FileSlice:
        return FileSlice(
            path=row["path"],
            size=row["size"],
            mtime=row["mtime"],
            rows=self._rows(row["counted"], row["stats"]),
            partition=dict(row["partition"] or ()),
            hidden=self._hidden(row["hidden"]),
            stats=self._statistics(row["stats"]),
        )

    def get(self, path: str) -> FileSlice | None:
        """Return the slice of a path, or None if the path is not live. Cost: one bisection."""
        at, is_there = self._find(path)
        slice_: FileSlice | None = self[at] if is_there else None
        return slice_

    def live_of(self, paths: Iterable[str]) -> dict[str, FileSlice]:
        """Return the slices of the live ones among `paths`, by path. Cost: a bisection per path; see `at`."""
        found = [at for at, is_there in map(self._find, paths) if is_there]
        return {slice_.path: slice_ for slice_ in self.at(found)}

    def places_of(self, paths: Collection[str]) -> Places:
        """Return the places of `paths`; of many, only those of the live ones, by one pass over all files."""
        if not self._are_many(paths):
            return {path: self._find(path) for path in paths}
        named = pc.is_in(self.paths, value_set=arrow_array(list(paths), pa.string()))
        numbers = np.flatnonzero(numpy_of(named, dtype=bool))
        live = pc.take(self.paths, arrow_array(numbers)).to_pylist()
        return dict(zip(live, ((number, True) for number in numbers.tolist()), strict=True))

    def _are_many(self, paths: Collection[str]) -> bool:
        """Return whether one pass over all files costs less than to find each of `paths`."""
        return len(paths) > _MAX_SPLICES or len(self) < len(paths)

    def _find(self, path: str) -> tuple[int, bool]:
        """Return the index of a path, or where to insert it, and whether it is live.

        UTF-8 bytes sort like code points.
        """
        paths, low, high = self.paths, 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if paths[middle].as_py() < path:
                low = middle + 1
            else:
                high = middle
        return low, low < len(self) and paths[low].as_py() == path

    def overlaid(self: Files, changes: Mapping[str, FileSlice | None], places: Places | None = None) -> Files:
        """Return the list after changes by path: a slice replaces or adds a file, None removes it.

        `places`: those that are known, by `places_of`. Cost: that of the changes, plus one copy of
        the paths; many changes cost a full sort.

        For example, a list of files a, b, d, overlaid with {b: None, c: slice}, is spliced from the pieces a,
        c, d.
        """
        if not changes:
            return self
        added = self.stored([slice_ for _, slice_ in sorted(changes.items()) if slice_ is not None])
        if not len(self):
            return type(self)(added, self._file, self._late)
        if self._are_many(changes):
            gone = pc.is_in(self._stored["path"], value_set=arrow_array(list(changes), pa.string()))
            kept = pc.filter(self._stored, pc.invert(gone))
            return type(self).sorted(pa.concat_tables([kept, added]), self._file, self._late)
        return type(self)(self._spliced(changes, added, places or {}), self._file, self._late)

    def _spliced(self, changes: Mapping[str, FileSlice | None], added: pa.Table, places: Places) -> pa.Table:
        pieces, used_files, used, start = [], 0, 0, 0
        for path in sorted(changes):
            at, replaced = places[path] if path in places else self._find(path)
            if at > used_files:
                pieces += [added.slice(start, used - start), self._stored.slice(used_files, at - used_files)]
                start = used
            used += changes[path] is not None
            used_files = at + replaced
        pieces += [added.slice(start, used - start), self._stored.slice(used_files)]
        out = pa.concat_tables([p for p in pieces if p.num_rows] or [self._stored.slice(0, 0)])
        return out.combine_chunks() if out["path"].num_chunks > _MAX_PIECES else out


def stored_columns(
    slices: Sequence[FileSlice], schema: pa.Schema, hidden: Sequence[Any], stats: Sequence[Any]
) -> pa.Table:
    """Return slices as a table of a stored schema; `hidden` and `stats` are in the format's stored form."""
    columns: list[Sequence[Any]] = [
        [p.path for p in slices],
        [p.size for p in slices],
        [p.mtime for p in slices],
        [p.rows for p in slices],
        [list(p.partition.items()) for p in slices],
        hidden,
        stats,
        [None] * len(slices),
    ]
    arrays = [arrow_array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _ascending(paths: pa.StringArray) -> bool:
    """Return whether paths strictly ascend."""
    ascending = pc.all(pc.less(paths.slice(0, max(len(paths) - 1, 0)), paths.slice(1))).as_py()
    return len(paths) < 2 or bool(ascending)


def _same_as_next(paths: pa.StringArray) -> pa.BooleanArray:
    return pc.equal(paths.slice(0, len(paths) - 1), paths.slice(1))


_MOST_LISTED = 5
"""Most commits without an action that `set_aside` lists: the newest."""


@dataclass(frozen=True)
class Snapshot:
    """A table at one version. `timestamp_ms`: the time of its commit, 0 if the log no longer holds it.

    `files`: sorted by path. `read_schema`: reads the schema in the table's format, on first use.
    `blank_commits`: versions of the replayed commits that hold no action.
    """

    root: str
    version: Version
    timestamp_ms: int
    files: FileList
    read_schema: Callable[[], Schema] = field(repr=False, compare=False)
    blank_commits: tuple[Version, ...] = field(default=(), kw_only=True)

    @once
    def schema(self) -> Schema:
        """Return the columns with logical names and physical paths."""
        return self.read_schema()

    def set_aside(self, numbers: Sequence[int] | None = None) -> list[str]:
        """Describe the parts of the log that were ignored because they cannot be used, one line each.

        Unreadable statistics of files count as such a part. `numbers`: the files (row numbers in `files`)
        whose statistics are checked; by default all. Cost: parses the statistics of these files.
        """
        out = []
        if self.blank_commits:
            listed = ", ".join(map(str, self.blank_commits[-_MOST_LISTED:]))
            many = len(self.blank_commits) > 1
            out.append(f"commit{'s' * many} {listed} of the log hold{'s' * (not many)} no action")
        unread = self.files.unreadable_statistics(numbers)
        if unread:
            files = f"{unread} file{'s' * (unread > 1)}"
            out.append(f"statistics of {files} could not be read and were not used")
        return out

    def schema_in(self, zone: str) -> Schema:
        """Return the schema with `zone` as the time zone of timestamp partition values without an offset."""
        return self.schema.in_zone(zone)
