"""The store of a table, in which log blocks are Parquet files.

The rows of a block that holds only some columns are completed from the rows that the block updates. A row
that lost as soon as it was merged is completed with NULLs, since no later record makes it win.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from contextlib import AbstractContextManager
from dataclasses import replace

import pyarrow as pa

from tailbit.base.dataclass import dataclass
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array
from tailbit.tables.hudi.log_files.keys import unproven
from tailbit.tables.hudi.log_files.plan import (
    BlockName,
    MergePlan,
    SliceName,
    block_name,
    merge_rule,
    slice_name,
)
from tailbit.tables.hudi.log_files.records import as_parquet, block_of, block_parquet
from tailbit.tables.hudi.log_files.slices import merged_rows
from tailbit.tables.hudi.properties import read_properties
from tailbit.tables.parquet.data_file import named_file
from tailbit.tables.parquet.file import open_parquet
from tailbit.tables.storage import Entry, Stat, Storage, StorageOptions, Unfinished
from tailbit.tables.storage.store import WHOLE


def slice_parquet(storage: Storage, plan: MergePlan, number: int) -> pa.Buffer:
    """Return the slice of one block of a plan as a Parquet file, the rows of a partial block completed."""
    block = plan.blocks[number]
    data = block_parquet(storage, plan.path(block.log), block.number)
    if not block.is_partial:
        return data
    return as_parquet([_completed(storage, plan.upto(number), number, _read(data))])


def _completed(storage: Storage, plan: MergePlan, number: int, rows: pa.Table) -> pa.Table:
    """Return the rows of a partial block, with the other columns taken from the rows that they update."""
    wanted: dict[int, dict[int, int]] = defaultdict(dict)
    for place, before in merged_rows(storage, plan).before.items():
        if place.block == number:
            wanted[before.block][place.row] = before.row
    pieces, places, start = [], [-1] * len(rows), 0
    for source, chosen in sorted(wanted.items()):
        older = _read_source(storage, plan, source)
        pieces.append(older.take(arrow_array(list(chosen.values()), pa.int64())))
        for at, row in enumerate(chosen):
            places[row] = start + at
        start += len(chosen)
    if not pieces:
        return rows
    try:
        kept = pa.concat_tables(pieces, promote_options="default")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as wrong:
        instant = plan.blocks[number].instant
        raise unproven(storage, instant, "a partial update over columns of changed types") from wrong
    at = arrow_array([place if place >= 0 else None for place in places], pa.int64())
    kept_columns = {
        name: pc.take(kept[name], at) for name in kept.column_names if name not in rows.column_names
    }
    return pa.table({**{name: rows[name] for name in rows.column_names}, **kept_columns})


def _read_source(storage: Storage, plan: MergePlan, source: int) -> pa.Table:
    """Return all rows of a slice of a plan; of the base file if `source` is -1."""
    if source >= 0:
        return _read(slice_parquet(storage, plan, source))
    path = plan.path(plan.base or "")
    with named_file(storage, path), open_parquet(storage.open(storage.resolve(path))) as file:
        return file.read()


def _read(data: pa.Buffer) -> pa.Table:
    with open_parquet(pa.BufferReader(data)) as file:
        return file.read()


def plan_of(storage: Storage, plan: MergePlan, parts: list[str]) -> MergePlan:
    """Return a plan with blocks added, which are named as in the path of a slice: `<log file>!<number>`."""
    names: list[BlockName] = []
    for part in parts:
        log, _, number = part.rpartition("!")
        block = block_of(storage, plan.path(log), int(number))
        names.append(block_name(log, block))
    return MergePlan(plan.folder, plan.base, plan.rule, tuple(names))


@dataclass(frozen=True)
class HudiStorage(Storage):
    """The files of a Hudi table in their store, and the log blocks in its log files.

    The name of a block is the path of its slice; its size is the size of the block's content.
    """

    inner: Storage

    @property
    def root(self) -> str:  # type: ignore[override]
        return self.inner.root

    @property
    def options(self) -> StorageOptions:  # type: ignore[override]
        return self.inner.options

    @property
    def remote(self) -> bool:  # type: ignore[override]
        return self.inner.remote

    def of_table(self, log: str) -> HudiStorage:
        return replace(self, inner=self.inner.of_table(log))

    @property
    def uri(self) -> str | None:
        """The root as other engines open it; they see the files, not the blocks."""
        return self.inner.uri

    def resolve(self, path: str) -> str:
        return self.inner.resolve(path) if slice_name(path) is None else path

    def is_file(self, path: str) -> bool:
        """Return whether a path names a base file; a block is a part of a log file."""
        return slice_name(path) is None

    def locate(self, path: str) -> tuple[str, Stat | None]:
        """Return the name of a file or of a block, and its stat."""
        name = slice_name(path)
        return self.inner.locate(path) if name is None else (path, self._stat(name))

    def _stat(self, name: SliceName) -> Stat | None:
        """Return the stat of a block: the size of its content, and the time and inode of the log file."""
        stat = self.inner.locate(name.path)[1]
        if stat is None:
            return None
        return stat._replace(size=block_of(self, name.path, name.number).content.length)

    def _parquet(self, name: SliceName) -> pa.Buffer:
        """Return a block as a Parquet file."""
        if not name.merged:
            return block_parquet(self, name.path, name.number)
        base, *parts = name.merged
        rule = merge_rule(read_properties(self.inner).values)
        plan = MergePlan(name.folder, base or None, rule, ())
        whole = plan_of(self, plan, [*parts, f"{name.log}!{name.number}"])
        return slice_parquet(self, whole, len(parts))

    def is_of_one_file(self, refused: Exception) -> bool:
        return self.inner.is_of_one_file(refused)  # type: ignore[arg-type]

    def read(self, rel: str, limit: int = WHOLE) -> bytes:
        name = slice_name(rel)
        return self.inner.read(rel, limit) if name is None else bytes(self._parquet(name))

    def read_stated(self, rel: str, limit: int = WHOLE) -> tuple[bytes, Stat | None]:
        return self.inner.read_stated(rel, limit)

    def look_at(self, names: Collection[str]) -> None:
        """Within a look, request the stats of files at once; a block is a part of a file."""
        self.inner.look_at([name for name in names if slice_name(name) is None])

    def read_range(self, rel: str, offset: int, length: int) -> bytes:
        name = slice_name(rel)
        if name is None:
            return self.inner.read_range(rel, offset, length)
        return bytes(self._parquet(name)[offset : offset + length])

    def contents(self) -> list[str] | None:
        return self.inner.contents()

    def walk(self, prefix_dir: str = "", skip: Collection[str] = ()) -> list[Entry]:
        return self.inner.walk(prefix_dir, skip)

    def list_after(self, prefix_dir: str, name: str) -> list[Entry]:
        return self.inner.list_after(prefix_dir, name)

    def list_again(self, prefix_dir: str, known: Collection[Entry]) -> list[Entry]:
        return self.inner.list_again(prefix_dir, known)

    def list(self, prefix_dir: str = "") -> list[Entry]:
        return self.inner.list(prefix_dir)

    def stat(self, rel: str) -> Stat | None:
        name = slice_name(rel)
        return self.inner.stat(rel) if name is None else self._stat(name)

    def exists(self, rel: str) -> bool:
        return self.inner.exists(rel) if slice_name(rel) is None else self.stat(rel) is not None

    def open(self, rel: str, end: int = 0) -> pa.NativeFile:
        name = slice_name(rel)
        return self.inner.open(rel, end) if name is None else pa.BufferReader(self._parquet(name))

    def create(self, folder: str, stem: str) -> AbstractContextManager[Unfinished]:
        return self.inner.create(folder, stem)

    def put_if_absent(self, rel: str, data: bytes) -> None:
        self.inner.put_if_absent(rel, data)

    def put(self, rel: str, data: bytes) -> None:
        self.inner.put(rel, data)

    def delete(self, rel: str) -> None:
        self.inner.delete(rel)

    def clock_ms(self) -> int:
        return self.inner.clock_ms()

    def make_root(self) -> None:
        self.inner.make_root()

    def check_commits(self) -> None:
        self.inner.check_commits()
