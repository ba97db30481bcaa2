"""The live files at a version, and the changes between two snapshots: the difference of their live files.

No status of an entry is trusted, since a manifest may be rewritten without any change of rows.

The statistics of one file in a manifest: bounds and counts by field id, and the partition tuple as bounds.

Statistics only prune: what is in doubt is no bound. Source: Iceberg specification, Data File Fields;
Partition Transforms; Appendix D, Bound serialization.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import MalformedLogError, UnsupportedFeatureError
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, arrow_scalar, in_one
from tailbit.tables.date_text import DAY_US
from tailbit.tables.iceberg.avro import decoded
from tailbit.tables.iceberg.deletes import FIELDS, DeletedRows, Deletes
from tailbit.tables.iceberg.manifests import DATA, ENTRIES, STATS, Manifest, entries_of, manifests_of
from tailbit.tables.iceberg.metadata import SnapshotEntry, TableMetadata, Versions
from tailbit.tables.iceberg.schema import SchemaReader, parse_schema
from tailbit.tables.model import (
    UUID,
    Changes,
    Column,
    CommitInfo,
    DataType,
    FileBounds,
    FileSlice,
    SliceChange,
    Version,
)
from tailbit.tables.snapshot import FileList, Snapshot, stored_columns, stored_schema
from tailbit.tables.storage import Storage

_TRUNCATE = re.compile(r"truncate\[(\d+)\]")
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_TIMES = ("timestamp", "timestamp_ntz")
_HOUR_US = DAY_US // 24
_NO_NAN = ("float", "double")
_LAST_CHARACTER, _SURROGATES = 0x10FFFF, range(0xD800, 0xE000)


class Range(NamedTuple):
    """The least and the greatest value that may be; None where there is no bound."""

    low: Any
    high: Any


_ANY = Range(None, None)


@dataclass(frozen=True, slots=True)
class IcebergStatistics:
    """The statistics of a manifest's entry, as `manifests.STATS` has them."""

    stats: Mapping[str, Any]

    def bounds(self, column: Column) -> FileBounds | None:
        """Return the bounds of a column; of what lies within lists and maps there are none.

        Bounds that contradict each other are ignored.
        """
        if len(column.field_ids) != len(column.physical) or column.type.fields:
            return None
        id_, rows = column.field_ids[-1], self.stats["rows"]
        nulls = _count(self._of("nulls", id_)) if len(column.field_ids) == 1 else None
        stored = _ordered(self._stored(column.type, id_))
        low, high = stored
        for partition in self.stats["partition"] or ():
            if partition["source"] != id_ or partition["transform"] == "void":
                continue
            if partition["value"] is None and not partition["transform"].startswith(("bucket", "unknown")):
                nulls = rows if nulls is None and len(column.field_ids) == 1 else nulls
            elif partition["value"] is not None:
                least, greatest = _ordered(
                    partition_range(column.type, partition["transform"], partition["value"])
                )
                low = least if low is None or (least is not None and least > low) else low
                high = greatest if high is None or (greatest is not None and greatest < high) else high
        if low is not None and high is not None and low > high:
            low, high = stored
        if nulls is not None and (nulls > rows or (nulls == rows and (low is not None or high is not None))):
            nulls = None
        return FileBounds(low, high, nulls, rows)

    def _stored(self, type_: DataType, id_: int) -> Range:
        if type_.name == "boolean" or type_.raw == UUID:
            # Some releases sorted UUIDs as two signed numbers.
            return _ANY
        low, high = (self._of(name, id_) for name in ("lower", "upper"))
        if type_.name in _NO_NAN and self._of("nans", id_) != 0:
            high = None
        return Range(*(None if end is None else decoded(type_, end) for end in (low, high)))

    def _of(self, name: str, id_: int) -> Any:
        return next((entry["value"] for entry in self.stats[name] or () if entry["key"] == id_), None)


def _ordered(range_: Range) -> Range:
    """Return a range, or none if its ends are in the wrong order."""
    return _ANY if None not in range_ and range_.low > range_.high else range_


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None


def partition_range(type_: DataType, transform: str, data: bytes) -> Range:
    """Return what source values a partition value may stand for.

    Some releases rounded times before 1970 towards it, so a range that ends there begins one step earlier.
    """
    if transform == "identity":
        value = decoded(type_, data)
        return _ANY if type_.name == "boolean" else Range(value, value)
    truncated = _TRUNCATE.fullmatch(transform)
    if truncated is not None:
        return _truncated(type_, int(truncated[1]), decoded(type_, data))
    if transform not in ("year", "month", "day", "hour"):
        return _ANY
    step = int.from_bytes(data, "little", signed=True)
    first = step - (step <= 0)
    if transform == "hour":
        return Range(first * _HOUR_US, (step + 1) * _HOUR_US - 1) if type_.name in _TIMES else _ANY
    try:
        low, end = _first_day(transform, first), _first_day(transform, step + 1)
    except (ValueError, OverflowError):
        return _ANY
    if type_.name == "date":
        return Range(low, end - 1)
    return Range(low * DAY_US, end * DAY_US - 1) if type_.name in _TIMES else _ANY


def _first_day(unit: str, step: int) -> int:
    """Return the first day of a day, month or year, all counted from 1970."""
    if unit == "day":
        return step
    years, months = (step, 0) if unit == "year" else divmod(step, 12)
    return date(1970 + years, 1 + months, 1).toordinal() - _EPOCH_DAY


def _truncated(type_: DataType, width: int, value: Any) -> Range:
    if type_.name in ("integer", "long") and isinstance(value, int):
        return Range(value, value + width - 1)
    if isinstance(value, Decimal):
        return Range(value, value + Decimal(f"{width - 1}E{-type_.scale}"))
    if isinstance(value, str):
        return Range(value, value if len(value) < width else _after_all(value))
    return _ANY


def _after_all(prefix: str) -> str | None:
    """Return a text that no text with a prefix exceeds; None if there is none."""
    for end in range(len(prefix) - 1, -1, -1):
        following = ord(prefix[end]) + 1
        if following <= _LAST_CHARACTER:
            return prefix[:end] + chr(_SURROGATES.stop if following in _SURROGATES else following)
    return None


_BASE = stored_schema(pa.struct([(name, pa.string()) for name in FIELDS]))
STORED = _BASE.set(_BASE.get_field_index("stats"), pa.field("stats", STATS))


class IcebergFiles(FileList):
    """The live data files of a snapshot: columns of schema STORED."""

    @classmethod
    def stored(cls, slices: Sequence[FileSlice]) -> pa.Table:
        """Return slices as a table of schema STORED, in the order given."""
        hidden = [s.hidden.stored if isinstance(s.hidden, DeletedRows) else None for s in slices]
        stats = [s.stats.stats if isinstance(s.stats, IcebergStatistics) else None for s in slices]
        return stored_columns(slices, STORED, hidden, stats)

    @classmethod
    def of_entries(cls, entries: pa.Table, hidden: pa.Array, file: str) -> IcebergFiles:
        """Return the list of the data files of some entries; `hidden`: the stored deletes of each."""
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


_MOST_EXTENDED = 64
"""Most manifests in which a snapshot differs from the one that it is made from."""


@dataclass(frozen=True)
class IcebergSnapshot(Snapshot):
    """An Iceberg table at one version; `schema_id`, `manifests`: of its schema and its manifest list."""

    schema_id: int = field(kw_only=True)
    manifests: frozenset[Manifest] = field(kw_only=True, repr=False)


def build_snapshot(
    storage: Storage, versions: Versions, version: Version, near: Sequence[IcebergSnapshot] = ()
) -> IcebergSnapshot:
    """Return the snapshot of a version that the metadata has.

    `near`: snapshots that may have most of its manifests. Cost: reads the manifest list, and those of its
    manifests that the process has not read yet; only these are decoded if a near snapshot is extended.
    """
    metadata, entry = versions.metadata, versions.entry(version)
    manifests = frozenset(() if entry is None else manifests_of(storage, metadata.location, entry))
    schema = versions.schema_of(version)
    if schema not in metadata.schemas:
        raise MalformedLogError(file=metadata.file, reason=f"it names schema {schema} and does not have it")
    alike = (before for before in near if len(before.manifests ^ manifests) <= _MOST_EXTENDED)
    before = min(alike, key=lambda before: len(before.manifests ^ manifests), default=None)
    reader = _Reader(storage, metadata, entry)
    files = None if before is None else reader.extended(before, manifests)
    return IcebergSnapshot(
        root=storage.root,
        version=version,
        timestamp_ms=versions.time_of(version) or 0,
        files=reader.files(manifests) if files is None else files,
        read_schema=lambda: parse_schema(
            metadata.schemas[schema],
            metadata.file,
            SchemaReader(metadata.name_mapping, metadata.identities),
        ),
        schema_id=schema,
        manifests=manifests,
    )


class _Reader(NamedTuple):
    """A reader of the files of a snapshot; `entry`: None for a table without a snapshot."""

    storage: Storage
    metadata: TableMetadata
    entry: SnapshotEntry | None

    @property
    def snapshot(self) -> object:
        """The id of the snapshot, for errors."""
        return self.metadata.current if self.entry is None else self.entry.id

    def _entries(self, manifests: Iterable[Manifest], has_deletes: bool) -> pa.Table:
        chosen = sorted(manifest for manifest in manifests if manifest.has_deletes == has_deletes)
        tables = entries_of(self.storage, self.metadata, self.snapshot, chosen)
        return pa.concat_tables(tables) if tables else ENTRIES.empty_table()

    def _listed(self, entries: pa.Table, manifests: Iterable[Manifest]) -> IcebergFiles:
        """Return the files of some entries, with the deletes of all manifests that apply to them."""
        name = self.metadata.file if self.entry is None else self.entry.manifest_list or self.metadata.file
        _check_data(entries, self.storage.root, self.snapshot)
        deletes = self._entries(manifests, has_deletes=True)
        if deletes.num_rows > entries.num_rows:
            of_these = pc.is_in(deletes["concerns"], value_set=in_one(entries["path"]))
            deletes = pc.filter(deletes, pc.or_(of_these, pc.is_null(deletes["concerns"])))
        hidden = Deletes(deletes.to_pylist(), self.metadata, self.storage.root, self.snapshot).of(entries)
        return IcebergFiles.of_entries(entries, hidden, name)

    def files(self, manifests: frozenset[Manifest]) -> IcebergFiles:
        """Return the live files of a snapshot."""
        return self._listed(self._entries(manifests, has_deletes=False), manifests)

    def extended(self, before: IcebergSnapshot, manifests: frozenset[Manifest]) -> IcebergFiles | None:
        """Return the live files from those of another snapshot; None if other deletes name no data file."""
        assert isinstance(before.files, IcebergFiles)
        concerned = self.concerned(before.manifests ^ manifests)
        if concerned is None:
            return None
        gone = self._entries(before.manifests - manifests, has_deletes=False)["path"].to_pylist()
        changed: dict[str, FileSlice | None] = dict.fromkeys(gone)
        added = self._entries(manifests - before.manifests, has_deletes=False)
        new = set(added["path"].to_pylist())
        for path in before.files.live_of(new - changed.keys()):
            raise MalformedLogError(file=self.metadata.file, reason=f"path {path!r} is live twice")
        # Files that stay are listed anew where deletes that came or went concern them.
        stay = before.files.live_of(concerned - new - changed.keys()).values()
        entries = pa.concat_tables([added, pa.Table.from_pylist([*map(_entry_of, stay)], ENTRIES)])
        changed.update((slice_.path, slice_) for slice_ in self._listed(entries, manifests))
        return before.files.overlaid(changed)

    def concerned(self, manifests: Iterable[Manifest]) -> set[str] | None:
        """Return the data files that the deletes of manifests name; None if any delete names none."""
        concerns = self._entries(manifests, has_deletes=True)["concerns"]
        return None if concerns.null_count else set(concerns.to_pylist())


def _entry_of(slice_: FileSlice) -> dict[str, Any]:
    """Return a data file as an entry of a manifest."""
    assert isinstance(slice_.stats, IcebergStatistics)
    named = {"path": slice_.path, "size": slice_.size, "rows": slice_.rows, "stats": slice_.stats.stats}
    return {**named, "content": DATA, "format": "PARQUET"}


def paths_in(storage: Storage, metadata: TableMetadata, manifests: Collection[Manifest]) -> set[str] | None:
    """Return the data files in some manifests, and those that deletes name; None if any delete names none."""
    reader = _Reader(storage, metadata, None)
    concerned = reader.concerned(manifests)
    paths = reader._entries(manifests, has_deletes=False)["path"].to_pylist()
    return None if concerned is None else concerned.union(paths)


def _check_data(data: pa.Table, root: str, snapshot: object) -> None:
    """Check that all data files are Parquet."""
    for format_ in pc.unique(data["format"]).to_pylist():
        if str(format_).upper() != "PARQUET":
            named = pc.filter(data["path"], pc.equal(data["format"], arrow_scalar(format_)))[0].as_py()
            raise UnsupportedFeatureError(
                path=root,
                version=snapshot,
                feature=f"data files in {str(format_).upper()} ({named})",
                hint="Rewrite them as Parquet: write.format.default = parquet, CALL rewrite_data_files.",
            )


_FEW = 100


def changes_between(
    before: IcebergSnapshot,
    after: IcebergSnapshot,
    range_: tuple[Version, Version],
    commits: Sequence[CommitInfo],
    paths_of: Callable[[Collection[Manifest]], Collection[str] | None],
) -> Changes:
    """Return the net effect of the commits after `before` up to `after`.

    `paths_of`: returns the paths in manifests. Cost: that of the manifests that differ; where these are many,
    or have deletes that name no data file, a pass over both lists.
    """
    different = before.manifests ^ after.manifests
    candidates = paths_of(different) if len(different) <= _FEW else None
    if candidates is None:
        paths = _different(before, after)
    else:
        paths = {path for path in candidates if _differs(before.files, after.files, path)}
    slices = tuple(SliceChange(path, before.files.get(path), after.files.get(path)) for path in sorted(paths))
    return Changes(*range_, slices, tuple(commits), before.schema_id != after.schema_id)


def _differs(old: FileList, new: FileList, path: str) -> bool:
    """Return whether a path came or went, or other rows of it are hidden."""
    before, after = old.get(path), new.get(path)
    return (before and before.hidden) != (after and after.hidden) or (before is None) != (after is None)


def _different(before: IcebergSnapshot, after: IcebergSnapshot) -> set[str]:
    """Return the paths that came or went, or of which other rows are hidden."""
    old, new = (_rows(snapshot) for snapshot in (before, after))
    return {*_without(new, old)["path"].to_pylist(), *_without(old, new)["path"].to_pylist()}


def _rows(snapshot: IcebergSnapshot) -> pa.Table:
    """Return paths, and paths with the identity of the hidden rows."""
    paths = snapshot.files.core["path"]
    whole = pc.binary_join_element_wise(paths, snapshot.files.hidden_ids, pa.scalar("\0"))
    return pa.table({"path": paths, "whole": whole})


def _without(rows: pa.Table, others: pa.Table) -> pa.Table:
    is_in_both = pc.is_in(
        rows["whole"], value_set=pa.concat_arrays(others["whole"].chunks or [pa.nulls(0, pa.string())])
    )
    return pc.filter(rows, pc.invert(is_in_both))


def commit_info(version: Version, time_ms: int, entry: SnapshotEntry) -> CommitInfo:
    """Return the numbers of a commit from the summary of its snapshot, which may lack any of them."""

    def number(name: str) -> int:
        text = entry.summary.get(name, "")
        return int(text) if text.isdecimal() else 0

    return CommitInfo(
        version,
        time_ms,
        entry.summary.get("operation", ""),
        number("added-data-files"),
        number("deleted-data-files"),
        number("added-files-size"),
    )
