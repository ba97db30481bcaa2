"""Data files and an index of kind `column_stats` over their footers, without a table around them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from support.delta_builder import DeltaBuilder
from support.index_records import ledger, settings
from tailbit.index.kinds.column_stats import COLUMN_STATS, SCHEMA, Footer, built, directory
from tailbit.index.kinds.files import RecordedFiles, files_to_arrow
from tailbit.index.kinds.kind import Kind, Merged, MergeGroup, stored_type
from tailbit.index.kinds.stats_access import ColumnStats
from tailbit.index.model import Definition, FileRecord, IndexFile, Settings, Term, TermColumn
from tailbit.index.store.table import MetadataTable
from tailbit.tables import open_table
from tailbit.tables.model import Column, DataType
from tailbit.tables.parquet.data_file import footer_hash, open_layout
from tailbit.tables.storage import LocalStorage, Storage


def column(name: str, type_: str = "long", *inner: str) -> Column:
    path = (name, *inner)
    return Column(path, path, DataType(type_))


def definition(*columns: Column, id_: str = "#57a75000") -> Definition:
    """A definition of statistics of some columns; of all without any."""
    terms = (
        Term(c.label, (TermColumn(c.label, c.id, str(c.type)),), stored_type(c) or "", str(c.type))
        for c in columns
    )
    return Definition(id_, "stats", "column_stats", tuple(terms))


@dataclass
class StatsOfFiles:
    """Files below `folder`, and index files that hold their statistics; the view of the index."""

    folder: Path
    live: dict[str, IndexFile] = field(default_factory=dict)
    claimed: list[str] = field(default_factory=list)
    made: list[Definition] = field(default_factory=lambda: [definition()])

    @property
    def storage(self) -> Storage:
        """The store of data and index alike."""
        return LocalStorage(str(self.folder))

    def data(self, name: str, columns: Mapping[str, Any], **options: Any) -> Footer:
        """Write a data file."""
        pq.write_table(pa.table(dict(columns)), self.folder / name, **options)
        footer = Footer(footer_hash(self.storage, name), open_layout(self.storage, name), name)
        self.claimed.append(footer.hash)
        return footer

    def add(self, footers: Sequence[Footer], columns: Sequence[Column]) -> None:
        """Write the statistics of data files as one file of the index."""
        self.added(COLUMN_STATS.write_stream(self.storage, built(footers, columns)))

    def added(self, files: Sequence[IndexFile], removed: Sequence[str] = ()) -> None:
        """Change the live files of the index."""
        for path in removed:
            del self.live[path]
        self.live.update({file.path: file for file in files})

    def merge(self) -> Merged:
        """Merge all files of the index into one."""
        inputs = tuple(self.live)
        merged = COLUMN_STATS.merge(self, MergeGroup("column_stats", inputs), None)
        self.added(merged.files, inputs)
        return merged

    @property
    def stats(self) -> ColumnStats:
        """The reader of what is live."""
        return ColumnStats(self.storage, self.live)

    @property
    def settings(self) -> Settings:
        """Settings with the definitions `made`."""
        return replace(settings(), definitions=tuple(self.made))

    @property
    def files(self) -> Mapping[str, IndexFile]:
        return self.live

    def files_of(self, kind: Kind[Any]) -> list[IndexFile]:
        return list(self.live.values())

    def paths_of(self, kind: Kind[Any]) -> frozenset[str]:
        return frozenset(self.live)

    def reader(self, kind: Kind[Any]) -> Any:
        """The recorded files: those with a claim."""
        records = [
            FileRecord(f"f{n}", 1, 1, 1, name, {}, "s", n, (), True, "", 1, 1, None)
            for n, name in enumerate(self.claimed)
        ]
        return RecordedFiles(files_to_arrow(records))


def wide_table(path: str, files: int, columns: int, stated: int = 0) -> None:
    """Write the log of a table whose data files do not exist, and an index with statistics of all columns.

    File n holds the values n * 10 to n * 10 + 9 of each column, which are `stated` in the log for the first.
    """
    names = [f"c{n:03}" for n in range(columns)]
    builder = DeltaBuilder(path).create(pa.schema([(name, pa.int64()) for name in names]))
    builder.commit([_absent(n, names[:stated]) for n in range(files)])
    made = replace(settings(), definitions=(definition(),))
    table, index = open_table(path), MetadataTable.create(f"{path}/_tailbit", made)
    ids = ("#57a75000",)
    records = [
        FileRecord(f"f{n:06}", 1000, 1, 10, f"{n:032x}", {}, "a" * 32, 10 * n, ids, True, "", 1, 1, None)
        for n in range(files)
    ]
    written = COLUMN_STATS.write_stream(index.storage, _rows_of(files, names))
    told = ledger(1, fingerprint=table.fingerprint(1))
    index.commit(files_to_arrow(records), written, told)


def _absent(number: int, stated: Sequence[str]) -> dict[str, Any]:
    low, high = dict.fromkeys(stated, 10 * number), dict.fromkeys(stated, 10 * number + 9)
    nulls = dict.fromkeys(stated, 0)
    stats = {"numRecords": 10, "minValues": low, "maxValues": high, "nullCount": nulls}
    add = {"path": f"f{number:06}", "partitionValues": {}, "size": 1000}
    return {"add": {**add, "modificationTime": 1, "dataChange": True, "stats": json.dumps(stats)}}


def _rows_of(files: int, names: Sequence[str]) -> Iterator[pa.Table]:
    yield directory([f"{n:032x}" for n in range(files)], [10] * files)
    units = np.arange(files)
    sizes = np.random.default_rng(1).integers(1_000, 9_000, files)
    for name in names:
        values = {
            "column": pa.repeat(name, files),
            "key_type": pa.repeat("integer", files),
            "unit": pa.array(units),
            "low": pa.array(10 * units),
            "high": pa.array(10 * units + 9),
            "nulls": pa.array(np.zeros(files, np.int64)),
            "bytes": pa.array(sizes),
            "exact": pa.array(np.ones(files, bool)),
        }
        yield pa.table({f.name: values.get(f.name, pa.nulls(files, f.type)) for f in SCHEMA}, schema=SCHEMA)
