"""An index brought from version to version by hand, and what it must hold by the data itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyroaring import BitMap

from support import index_records
from support.contents import Contents, contents_of
from tailbit.index.keys import element_type, encode_array
from tailbit.index.kinds.schemas import KINDS
from tailbit.index.model import Definition, Settings
from tailbit.index.store.table import MetadataTable
from tailbit.index.write.run import run_task
from tailbit.index.write.work import BuildTask, FileWork, TaskColumn, TaskResult, plan_work
from tailbit.tables import open_table
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.parquet.data_file import open_data_file, read_columns
from tailbit.tables.partition_values import partition_array
from tailbit.tables.snapshot import Snapshot
from tailbit.tables.storage import LocalStorage, Storage

Key = bytes | None


@dataclass
class Built:
    """An index of a table; `lineage` is what the records of the next step say."""

    table: str
    index: str
    columns: Sequence[str]
    lineage: int = 1
    results: list[TaskResult] = field(default_factory=list)

    def __post_init__(self) -> None:
        schema = open_table(self.table).snapshot(0).schema
        found = [TaskColumn.of(schema.resolve(name)) for name in self.columns]
        indexed = tuple(
            Definition.plain(c.column.label, c.column.id, c.key_type, str(c.column.type)) for c in found
        )
        settings = Settings(1, "an index", KINDS.format_of(indexed), indexed, {})
        MetadataTable.create(self.index, settings)

    def snapshot(self, version: int | None = None) -> Snapshot:
        """The table as it is now."""
        return open_table(self.table).snapshot(version)

    def task(self, version: int | None = None, columns: Sequence[str] | None = None) -> BuildTask:
        snapshot = self.snapshot(version)
        leaves = {column.id: column for column in snapshot.schema.leaves()}
        wanted = [leaves[name] for name in columns or self.columns if name in leaves]
        index = MetadataTable.open(self.index)
        live = {slice_.path: slice_ for slice_ in snapshot.files}
        gone = [record.path for record in index.state.recorded.live() if record.path not in live]
        works = plan_work(
            [*live.items(), *((path, None) for path in gone)],
            index.state.recorded.get,
            lambda _: tuple(c.id for c in wanted),
            self.lineage,
        )
        return BuildTask(
            root=self.table,
            index_path=self.index,
            columns=tuple(TaskColumn.of(column) for column in wanted),
            works=tuple(works),
            lineage=self.lineage,
            version=snapshot.version,
        )

    def run(self, works: Sequence[FileWork] | None = None, **wanted: object) -> TaskResult:
        """Do what is missing, and commit it."""
        task = self.task(**wanted)  # type: ignore[arg-type]
        result = run_task(task)
        index = MetadataTable.open(self.index)
        index.commit(result.records, result.files, index_records.ledger(task.version, lineage=self.lineage))
        self.results.append(result)
        return result

    def found(self) -> Contents:
        """What the index says."""
        return contents_of(self.index)

    def check(self, columns: Sequence[str] | None = None) -> None:
        """The index holds what the live data files hold, bit by bit, and counts what is visible."""
        expected, found = self.expected(columns or self.columns), self.found()
        assert found.postings == expected.postings
        assert found.counts == expected.counts

    def expected(self, columns: Sequence[str]) -> Contents:
        """What the index must say, by a plain reading of every live data file."""
        snapshot = self.snapshot()
        storage = LocalStorage(self.table)
        out = Contents(snapshot.version)
        counts: Counter[tuple[str, Key]] = Counter()
        for slice_ in snapshot.files:
            hidden = BitMap() if slice_.hidden is None else slice_.hidden.read(storage)
            for name in columns:
                column = snapshot.schema.resolve(name)
                for position, keys in enumerate(_keys(storage, slice_, column)):
                    for key in keys:
                        at = (slice_.path, column.id, key)
                        out.postings.setdefault(at, BitMap()).add(position)
                        counts[column.id, key] += position not in hidden
        out.counts = {at: n for at, n in counts.items() if n}
        return out


def _keys(storage: Storage, slice_: FileSlice, column: Column) -> list[set[Key]]:
    file = open_data_file(storage, slice_.path)
    if column.partition:
        text = slice_.partition.get(column.physical[0])
        values: pa.Array = partition_array(column, text, file.metadata.num_rows)
    else:
        values = read_columns(file, [column])[column.id]
    key_type = TaskColumn.of(column).key_type
    of_elements = element_type(key_type)
    if of_elements is None:
        return [{key} for key in encode_array(values, key_type).to_pylist()]
    return [_keys_of(row, of_elements) for row in values]


def _keys_of(row: pa.ListScalar, key_type: str) -> set[Key]:
    """The keys of one array, read plainly."""
    if not row.is_valid or not len(row.values):
        return {b"\x00" if row.is_valid else None}
    keys = encode_array(row.values, key_type).to_pylist()
    return {b"\x01" if key is None else b"\x02" + key for key in keys}
