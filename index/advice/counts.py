"""Whether the values of a new bitmap are counted: not where nearly every row has a value of its own.

There, the counts take more bytes than the postings, and a facet that lists every row is no question that
people ask. The decision is made once, when the definition is made, from a sample of the data; it stands among
the options of the definition, so every task, process and restart acts on the same one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tailbit.errors import ColumnTypeError, DataFileError
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
"""The value of option `counts` that is decided here, and the one where none is given."""

MOST_KEYS = 0.5
"""Most keys per row with which values are counted.

There, counts take 0.4 (integers) to 0.8 (UUIDs) of the bytes of the postings, and questions about all rows
1.1 to 2.6 times their time without counts (`docs/decisions.md`).
"""

_LEAST_BYTES = 1 << 20
"""Data files of fewer bytes in all are not sampled: the counts of their values take little."""

_BLOCKS = 3
"""Blocks of a sample. The first one decides for most columns."""


def decided(table: Table, definitions: Sequence[Definition]) -> tuple[Definition, ...]:
    """Return new definitions with the counts of each decided, from a sample of the table where it is open.

    Cost: the first rows of at most three row groups; nothing for a small table. A table that is empty, or
    that cannot be read, decides for counts.
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

    The keys of all blocks are at most the sum of those of each, so few in one block are few in the table.
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
    """Return the first rows of the row groups of some blocks: a few blocks in all."""
    groups = list({(block.file.path, block.group): block for block in blocks}.values())
    rows = BLOCK * max(1, _BLOCKS // max(1, len(groups)))
    sizes = [block.file.metadata.row_group(block.group).num_rows for block in groups]
    return [replace(block, first=0, rows=min(rows, size)) for block, size in zip(groups, sizes, strict=True)]
