"""Extrapolation from a sample of a column to the whole column: number of keys, bytes, build time.

A key that occurs in a single sampled block hints at keys that occur in none. With `once` keys in exactly one
of m blocks and `twice` keys in exactly two, Chao's estimate for incidences adds (m - 1) / m * once^2 / (2 *
twice) to the keys seen (Chao 1987, "Chao2"). The estimate never adds more than if each unseen block had as
many new keys as a sampled one, as in a sorted column.
"""

from __future__ import annotations

import math

from tailbit.base.dataclass import dataclass
from tailbit.index.advice.measure import KeysSeen, Measure
from tailbit.index.model import ROWS_PER_SPACE
from tailbit.index.parquet.sorted_rows import GROUP_BYTES

_GAP_BITS = 1.5
"""Bits that a stored gap between random positions takes beyond the logarithm of the mean gap."""

CODE_BYTES = 4
"""Bytes of the code that a scan decodes for each row, however few bytes the row takes in its file."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated sizes and times of the index of one column, for the whole table.

    `distinct`: keys, NULL among them. `bytes`: size of the index, once merged. `stored_bytes`: size of the
    column in the data files. `build_s`: seconds of one core to decode the column and build its index.
    `scan_s`: seconds to decode the column alone. `question_bytes`: index bytes that the lookup of one value
    reads. `scan_bytes`: what a scan reads instead, the stored column and a code per row.
    """

    distinct: int
    bytes: int
    bytes_a_row: float
    stored_bytes: int
    build_s: float
    scan_s: float
    question_bytes: int
    scan_bytes: int

    @property
    def gains(self) -> bool:
        """Return whether the lookup of one value reads less than half of the bytes that a scan reads."""
        return 2 * self.question_bytes < self.scan_bytes


def estimate(measure: Measure, table_rows: int) -> Estimate:
    """Scale the measure of a sample to `table_rows` rows. A sample without rows gives zeros."""
    if not measure.rows:
        return Estimate(0, 0, 0.0, 0, 0.0, 0.0, 0, 0)
    times = table_rows / measure.rows
    distinct = distinct_keys(measure, table_rows)
    spaces = max(1, math.ceil(table_rows / ROWS_PER_SPACE))
    keys_bytes = measure.keys_bytes / measure.distinct * distinct * spaces
    size = round(_positions(measure, distinct, table_rows) + keys_bytes)
    group = min(size / spaces, max(GROUP_BYTES, size / spaces / distinct))
    return Estimate(
        distinct=distinct,
        bytes=size,
        bytes_a_row=size / table_rows,
        stored_bytes=round(measure.stored_bytes * times),
        build_s=(measure.decode_s + measure.build_s) * times,
        scan_s=measure.decode_s * times,
        question_bytes=round(group * spaces),
        scan_bytes=round(measure.stored_bytes * times) + CODE_BYTES * table_rows,
    )


def distinct_keys(measure: KeysSeen, table_rows: int) -> int:
    """Estimate the number of keys of the whole column: at least those seen, at most the rows."""
    seen, once, m = measure.distinct, measure.once, measure.blocks
    blocks = m * table_rows / measure.rows
    if m < 2 or blocks <= m:
        return round(min(seen * max(1.0, blocks / m), table_rows)) if m < 2 else seen
    unseen = (m - 1) / m * once**2 / (2 * measure.twice) if measure.twice else math.inf
    linear = once / m * (blocks - m)
    return max(seen, min(round(seen + min(unseen, linear)), table_rows))


def _positions(measure: Measure, distinct: int, table_rows: int) -> float:
    """Estimate the bytes of the stored positions of the whole column.

    Gaps between positions grow with the number of keys, so a sample with few rows per key underestimates
    them.
    """
    a_row = measure.positions_bytes / measure.rows
    expected = (math.log2(max(2, distinct)) + _GAP_BITS) / 8
    few_rows = measure.distinct * 4 > measure.rows
    if measure.sparse and few_rows and measure.once * 2 > measure.distinct and measure.twice:
        a_row = (1 - measure.sparse) * a_row + measure.sparse * max(a_row, expected)
    return a_row * table_rows
