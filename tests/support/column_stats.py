"""Data files and an index of kind `column_stats` over their footers, without a table around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from support.index_records import settings
from tailbit.index.kinds.column_stats.kind import COLUMN_STATS
from tailbit.index.kinds.column_stats.reader import ColumnStats
from tailbit.index.kinds.column_stats.rows import Footer, built, stored_type
from tailbit.index.kinds.files.recorded import RecordedFiles
from tailbit.index.kinds.files.rows import files_to_arrow
from tailbit.index.kinds.kind import Kind
from tailbit.index.kinds.merging import Merged, MergeGroup
from tailbit.index.model import Definition, FileRecord, IndexFile, Settings, Term, TermColumn
from tailbit.tables.model import Column, DataType
from tailbit.tables.parquet.data_file import footer_hash, open_layout
from tailbit.tables.storage import LocalStorage, Storage


def column(name: str, type_: str = "long", *inner: str) -> Column:
    """A column by its path and type."""
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
        """The live files."""
        return self.live

    def files_of(self, kind: Kind[Any]) -> list[IndexFile]:
        """The live files of one kind."""
        return list(self.live.values())

    def paths_of(self, kind: Kind[Any]) -> frozenset[str]:
        """Their paths."""
        return frozenset(self.live)

    def reader(self, kind: Kind[Any]) -> Any:
        """The recorded files: those with a claim."""
        records = [
            FileRecord(f"f{n}", 1, 1, 1, name, {}, "s", n, (), True, "", 1, 1, None)
            for n, name in enumerate(self.claimed)
        ]
        return RecordedFiles(files_to_arrow(records))
