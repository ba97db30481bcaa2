"""The rows of a block that holds only some columns, completed from the rows that the block updates.

A row that lost as soon as it was merged is completed with NULLs, since no later record makes it win.
"""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa

from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array
from tailbit.tables.hudi.log_files.contents import as_parquet, block_of, block_parquet
from tailbit.tables.hudi.log_files.hidden import merged_rows
from tailbit.tables.hudi.log_files.keys import unproven
from tailbit.tables.hudi.log_files.plan import BlockName, MergePlan, block_name
from tailbit.tables.parquet.data_file import named_file
from tailbit.tables.parquet.file import open_parquet
from tailbit.tables.storage import Storage


def slice_parquet(storage: Storage, plan: MergePlan, number: int) -> pa.Buffer:
    """Return the slice of one block of a plan as a Parquet file; the rows of a partial block are completed.

    Raises:
        FileNotFoundError: a log file is gone.
        LogBlockError: a block is damaged.
        DataFileError: the base file cannot be read.
        UnsupportedFeatureError: rows are merged in a way that is not proven.
    """
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
