"""Decision whether the values of a new bitmap are counted: not if nearly every row has a value of its own.

The counts of such a column take more bytes than its postings, and nobody asks for a facet that lists every
row. The decision is made once, when the definition is made, from a sample of the data; it is one of the
options of the definition, so every task, process and restart follows the same decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tailbit.base.errors import ColumnTypeError, DataFileError
from tailbit.index.advice.estimate import distinct_keys
from tailbit.index.advice.measure import coded_values, keys_seen
from tailbit.index.advice.sample import Sample, SampledBlock, sampled, values_of
from tailbit.index.keys import posting_type_of
from tailbit.index.model import COUNTS, COUNTS_REASON, Definition
from tailbit.index.roaring.containers import BLOCK
from tailbit.index.sql.terms import column_of
from tailbit.tables.model import Column
from tailbit.tables.table import Table

AUTO = "auto"
"""The value of option `counts` that leaves the decision to this module; also the default."""

MOST_KEYS = 0.5
"""Most keys per row with which values are counted.

At this number, counts take 0.4 (integers) to 0.8 (UUIDs) of the bytes of the postings; without counts,
questions about all rows take 1.1 to 2.6 times as long (`docs/decisions.md`).
"""

_LEAST_BYTES = 1 << 20
"""Data files of fewer bytes in all are not sampled: the counts of their values take little."""

_BLOCKS = 3
"""Blocks of a sample. The first one decides for most columns."""


def decided(table: Table, definitions: Sequence[Definition]) -> tuple[Definition, ...]:
    """Return new definitions with option `counts` decided, by a sample of the table where it is `auto`.

    Cost: the first rows of at most three row groups; nothing for a small table. If the table is empty or
    cannot be read, values are counted.
    """
    snapshot = table.snapshot()
    open_ = [d for d in definitions if d.has_counts and d.options.get(COUNTS, AUTO) == AUTO]
    columns = [column_of(definition, snapshot.schema) for definition in open_]
    uncounted: dict[str, float] = {}
    if open_ and sum(snapshot.files.core["size"].to_pylist()) >= _LEAST_BYTES:
        try:
            known = [column for column in columns if column is not None and not column.partition]
            sample = sampled(table.storage, snapshot.files, known, _BLOCKS, seed=0)
        except DataFileError:
            sample = Sample((), 0)
        ratios = {column.id: _keys_a_row(sample, column) for column in known}
        uncounted = {id_: ratio for id_, ratio in ratios.items() if ratio > MOST_KEYS}
    return tuple(_decided(d, uncounted.get(d.id)) if d in open_ else d for d in definitions)


def _decided(definition: Definition, keys_a_row: float | None) -> Definition:
    """Return a definition without counts if a number of keys a row is given; else with counts."""
    options = dict(definition.without(COUNTS).options)
    if keys_a_row is not None:
        options |= {COUNTS: "off", COUNTS_REASON: f"nearly distinct: {keys_a_row:.2f} keys a row"}
    return replace(definition, options=options)


def _keys_a_row(sample: Sample, column: Column) -> float:
    """Estimate the number of keys of a column per row of the table; 0 if the column cannot be read.

    All blocks together have at most as many keys as the sum over the blocks, so few in the first decide.
    """
    blocks = _heads(sample.blocks)
    try:
        key_type = posting_type_of(column.type)
        for some in (blocks[:1], blocks):
            coded = coded_values(values_of(some, column, heads=True), column, key_type)
            pieces = [min(BLOCK, b.rows - at) for b in some for at in range(0, b.rows, BLOCK)]
            seen, _ = keys_seen(coded, pieces)
            if seen.distinct <= MOST_KEYS * seen.rows:
                return 0.0
    except (DataFileError, ColumnTypeError):
        return 0.0
    return distinct_keys(seen, sample.table_rows) / sample.table_rows


def _heads(blocks: Sequence[SampledBlock]) -> list[SampledBlock]:
    """Return the first rows of each row group of some blocks, together some `_BLOCKS` blocks of rows."""
    groups = list({(block.file.path, block.group): block for block in blocks}.values())
    rows = BLOCK * max(1, _BLOCKS // max(1, len(groups)))
    sizes = [block.file.metadata.row_group(block.group).num_rows for block in groups]
    return [replace(block, first=0, rows=min(rows, size)) for block, size in zip(groups, sizes, strict=True)]
