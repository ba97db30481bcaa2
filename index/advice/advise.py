"""Which columns of a table are worth an index, and why."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tailbit.errors import ColumnTypeError, DataFileError
from tailbit.index.advice.estimate import Estimate, estimate
from tailbit.index.advice.measure import Measure, measured
from tailbit.index.advice.sample import Sample, sampled
from tailbit.index.keys import MAX_KEY
from tailbit.index.model import posting_type_of_column
from tailbit.tables.model import Column
from tailbit.tables.snapshot import Snapshot
from tailbit.tables.storage import Storage

BLOCKS = 8
"""Blocks of a sample: half a million rows, in which a value of one row in 100,000 is met some five times."""

FEWEST_BLOCKS, COLUMN_BLOCKS = 3, 240
"""Of a table of more than 30 columns, fewer than `BLOCKS` blocks are taken, but 3 at least: about 240 blocks
of one column each are decoded.
"""

OWN_VALUES, LARGE = 2.0, 0.25
"""Rows a value below which a column has nearly a value a row. Its index is worth it where it is smaller than
this share of the column, as that of a sorted one is.
"""


class AdviceReason(enum.Enum):
    """Why a column is worth an index, or is not."""

    WORTH = "worth it"
    ASKED = "asked about"
    TYPE = "type without order"
    UNREADABLE = "cannot be read"
    PARTITION = "partition column"
    ONE_VALUE = "one value"
    LONG = "long values"
    OWN_VALUES = "a value a row"
    NO_GAIN = "no gain"
    NOT_ASKED = "not asked about"


@dataclass(frozen=True, slots=True)
class ColumnAdvice:
    """What an index of one column would be. `why`: a sentence; `asked`: questions that name the column."""

    column: str
    type: str
    reason: AdviceReason
    why: str
    asked: int = 0
    estimate: Estimate | None = None

    @property
    def worth(self) -> bool:
        """Whether an index of it is advised."""
        return self.reason in (AdviceReason.WORTH, AdviceReason.ASKED)

    def account(self) -> dict[str, Any]:
        """The same, JSON-able."""
        told = {"column": self.column, "type": self.type, "worth": self.worth, "reason": self.reason.value}
        told |= {"why": self.why, "asked": self.asked}
        return told | ({} if self.estimate is None else asdict(self.estimate))


@dataclass(frozen=True)
class Advice:
    """One `ColumnAdvice` a column of the table, in the order of its schema.

    `rows`: of the table, hidden ones included; estimated where not every file was opened.
    """

    version: int
    rows: int
    sampled_rows: int
    every: tuple[ColumnAdvice, ...]

    @property
    def columns(self) -> list[str]:
        """The columns whose index is advised."""
        return [found.column for found in self.every if found.worth]

    @property
    def without_gain(self) -> list[str]:
        """The columns that are not advised at the table's present size alone."""
        return [advised.column for advised in self.every if advised.reason is AdviceReason.NO_GAIN]

    def account(self) -> dict[str, Any]:
        """The same, JSON-able."""
        return {
            "version": self.version,
            "rows": self.rows,
            "sampled_rows": self.sampled_rows,
            "columns": self.columns,
            "advice": [found.account() for found in self.every],
        }

    def __repr__(self) -> str:
        """In one line."""
        return f"Advice(version={self.version}, rows={self.rows}, columns={self.columns})"


def advise(
    snapshot: Snapshot,
    storage: Storage,
    asked: Mapping[str, int] | None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Advice:
    """Sample a table and say of each column whether it is worth an index.

    `asked`: column ids to the number of questions that name them; None where no questions are known.
    Cost: a few row groups of each column.

    Raises:
        DataFileError: a sampled file is missing or is not Parquet.
    """
    leaves = snapshot.schema.leaves()
    refused = {leaf.id: reason for leaf in leaves if (reason := _refused(leaf)) is not None}
    readable = [leaf for leaf in leaves if leaf.id not in refused]
    blocks = min(BLOCKS, max(FEWEST_BLOCKS, COLUMN_BLOCKS // max(1, len(readable))))
    sample = sampled(storage, snapshot.files, readable, blocks, seed)
    every = []
    for done, leaf in enumerate(leaves):
        if progress is not None:
            progress(done, len(leaves))
        named = None if asked is None else asked.get(leaf.id, 0)
        verdict, why, found = refused.get(leaf.id) or _sampled(leaf, sample, named)
        every.append(ColumnAdvice(leaf.label, str(leaf.type), verdict, why, named or 0, found))
    if progress is not None:
        progress(len(leaves), len(leaves))
    return Advice(snapshot.version, sample.table_rows, sample.rows, tuple(every))


ColumnVerdict = tuple[AdviceReason, str, Estimate | None]
"""The reason in a word and in a sentence, and what it rests on."""


def _sampled(column: Column, sample: Sample, asked: int | None) -> ColumnVerdict:
    """What the sample says of a column."""
    try:
        measure = measured(sample.blocks, column)
    except (DataFileError, ColumnTypeError) as failed:
        return AdviceReason.UNREADABLE, str(failed), None
    found = estimate(measure, sample.table_rows)
    return *judged(measure, found, sample.table_rows, asked), found


def _refused(column: Column) -> ColumnVerdict | None:
    """Why a column is not worth an index whatever its values are; None where they decide."""
    try:
        posting_type_of_column(column)
    except ColumnTypeError as error:
        return AdviceReason.TYPE, str(error.fields["reason"]), None
    if column.partition:
        return AdviceReason.PARTITION, "the log itself tells the value of each file", None
    return None


def judged(measure: Measure, found: Estimate, rows: int, asked: int | None) -> tuple[AdviceReason, str]:
    """The verdict on a column whose sample was measured, in a word and in a sentence."""
    if found.distinct <= 1:
        return AdviceReason.ONE_VALUE, "all rows have one value" if rows else "the table has no rows"
    if measure.cut > 0.5:
        why = f"most values are longer than {MAX_KEY} bytes, so that the data is read to tell"
        return AdviceReason.LONG, why
    if asked == 0:
        return AdviceReason.NOT_ASKED, "no question names it"
    large = found.bytes > LARGE * found.stored_bytes
    if large and rows < OWN_VALUES * found.distinct and not asked:
        size = f"{found.bytes_a_row:.1f} bytes a row beside {found.stored_bytes / rows:.1f} of the column"
        return AdviceReason.OWN_VALUES, f"nearly every row has a value of its own: {size}"
    why = _gain(found)
    if not found.gains:
        return AdviceReason.NO_GAIN, why
    if asked:
        return AdviceReason.ASKED, f"{asked} question{'s' * (asked > 1)}; {why}"
    return AdviceReason.WORTH, why


def _gain(estimated: Estimate) -> str:
    """Return the sentence on what an index saves a question, of the numbers that decide it."""
    by_index, by_scan = _size(estimated.question_bytes), _size(estimated.scan_bytes)
    if estimated.gains:
        return f"one value goes through {by_index} of the index, a scan through {by_scan}"
    return f"one value goes through {by_index} of the index, which is no gain: a scan through {by_scan}"


def _size(count: float) -> str:
    """A number of bytes for people."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} TB"
