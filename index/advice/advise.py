"""Advice on which columns of a table are worth an index, and why."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import ColumnTypeError, DataFileError
from tailbit.index.advice.estimate import Estimate, Measure, Sample, estimate, measured, sampled
from tailbit.index.advice.proposals import Demand, Proposal, Proposer, Question
from tailbit.index.keys import MAX_KEY
from tailbit.index.model import Definition, posting_type_of_column
from tailbit.index.predicate.tree import columns_of
from tailbit.index.sql.ddl.statements import TableReference
from tailbit.tables.model import Column
from tailbit.tables.snapshot import Snapshot
from tailbit.tables.storage import Storage

BLOCKS = 8
"""Blocks of a sample: half a million rows, in which a value of one row in 100,000 is met some five times."""

FEWEST_BLOCKS, COLUMN_BLOCKS = 3, 240
"""Least number of sampled blocks, and most blocks decoded over all columns.

A table of more than 30 columns is sampled with fewer than `BLOCKS` blocks, but with 3 at least, so that about
240 blocks of one column each are decoded.
"""

OWN_VALUES, LARGE = 2.0, 0.25
"""Rows per distinct value below which a column is nearly unique, and the share of its bytes that is large.

The index of a nearly unique column is worth building only where the index is smaller than `LARGE` times the
stored column, as the index of a sorted column is.
"""


class AdviceReason(enum.Enum):
    """The reason why an index of a column is advised, or is not."""

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
    """The advice on one column.

    `why`: the reason as a sentence; `asked`: number of questions that name the column, 0 if no questions are
    known.
    """

    column: str
    type: str
    reason: AdviceReason
    why: str
    asked: int = 0
    estimate: Estimate | None = None

    @property
    def worth(self) -> bool:
        """Return whether an index of the column is advised."""
        return self.reason in (AdviceReason.WORTH, AdviceReason.ASKED)

    def account(self) -> dict[str, Any]:
        """Return the advice as a JSON-able dict."""
        record = {"column": self.column, "type": self.type, "worth": self.worth, "reason": self.reason.value}
        record |= {"why": self.why, "asked": self.asked}
        return record | ({} if self.estimate is None else asdict(self.estimate))


@dataclass(frozen=True)
class Advice:
    """The advice on each column of the table, in the order of the schema.

    `rows`: row count of the data files, hidden rows included; exact if `rows_exact`, else estimated.
    `whole`: every row was sampled, so that numbers of distinct values are exact; else they are estimated.
    `definitions`: indexes of every kind that are worth it and do not exist yet.
    """

    version: int
    rows: int
    sampled_rows: int
    every: tuple[ColumnAdvice, ...]
    definitions: tuple[Proposal, ...] = ()
    rows_exact: bool = True
    whole: bool = True

    @property
    def columns(self) -> list[str]:
        """Return the names of the columns whose index is advised."""
        return [advised.column for advised in self.every if advised.worth]

    @property
    def without_gain(self) -> list[str]:
        """Return the names of the columns that are not advised only because the table is still small."""
        return [advised.column for advised in self.every if advised.reason is AdviceReason.NO_GAIN]

    def account(self) -> dict[str, Any]:
        """Return the advice as a JSON-able dict."""
        return {
            "version": self.version,
            "rows": self.rows,
            "rows_exact": self.rows_exact,
            "distinct_exact": self.whole,
            "sampled_rows": self.sampled_rows,
            "columns": self.columns,
            "advice": [advised.account() for advised in self.every],
            "definitions": [asdict(proposal) for proposal in self.definitions],
        }

    def __repr__(self) -> str:
        """Return the advice in one line."""
        return f"Advice(version={self.version}, rows={self.rows}, columns={self.columns})"


_UNNAMED = TableReference("path", ("",))


def advise(
    snapshot: Snapshot,
    storage: Storage,
    questions: Sequence[Question] | None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    table: TableReference = _UNNAMED,
    existing: Sequence[Definition] = (),
) -> Advice:
    """Judge by a sample of a table whether indexes of its columns, and others for questions, are worth it.

    `questions`: None if none are known. `table`: as statements name it. `existing`: what is indexed already.
    Cost: a few row groups of each column, and an index of the sampled rows for each candidate.
    """
    leaves = snapshot.schema.leaves()
    refused = {leaf.id: reason for leaf in leaves if (reason := _refused(leaf)) is not None}
    readable = [leaf for leaf in leaves if leaf.id not in refused]
    blocks = min(BLOCKS, max(FEWEST_BLOCKS, COLUMN_BLOCKS // max(1, len(readable))))
    sample = sampled(storage, snapshot.files, readable, blocks, seed).counted(snapshot.files)
    every = []
    named_by = Counter(column.id for question in questions or () for column in columns_of(question.node))
    for done, leaf in enumerate(leaves):
        if progress is not None:
            progress(done, len(leaves))
        named = None if questions is None else named_by[leaf.id]
        verdict, why, estimated = refused.get(leaf.id) or _sampled(leaf, sample, named)
        every.append(ColumnAdvice(leaf.label, str(leaf.type), verdict, why, named or 0, estimated))
    if progress is not None:
        progress(len(leaves), len(leaves))
    by_id = dict(zip((leaf.id for leaf in leaves), every, strict=True))
    demand = None if questions is None else Demand.of(questions)
    estimates = {id_: advised.estimate for id_, advised in by_id.items() if advised.estimate is not None}
    worth = [id_ for id_, advised in by_id.items() if advised.worth]
    proposer = Proposer(snapshot, sample, table, existing, demand, estimates, worth)
    return Advice(
        snapshot.version,
        sample.table_rows,
        sample.rows,
        tuple(every),
        proposer.proposals(),
        rows_exact=sample.exact,
        whole=sample.is_whole,
    )


ColumnVerdict = tuple[AdviceReason, str, Estimate | None]
"""The reason, the reason as a sentence, and the estimate that the reason rests on."""


def _sampled(column: Column, sample: Sample, questions: int | None) -> ColumnVerdict:
    """Return the verdict on a column, from the sample."""
    try:
        measure = measured(sample.blocks, column)
    except (DataFileError, ColumnTypeError) as failed:
        return AdviceReason.UNREADABLE, str(failed), None
    estimated = estimate(measure, sample.table_rows)
    return *judged(measure, estimated, sample.table_rows, questions), estimated


def _refused(column: Column) -> ColumnVerdict | None:
    """Return the verdict on a column that is refused whatever its values are; None if the values decide."""
    try:
        posting_type_of_column(column)
    except ColumnTypeError as error:
        return AdviceReason.TYPE, str(error.fields["reason"]), None
    if column.partition:
        return AdviceReason.PARTITION, "the log itself tells the value of each file", None
    return None


def judged(
    measure: Measure, estimated: Estimate, rows: int, questions: int | None
) -> tuple[AdviceReason, str]:
    """Return the verdict on a measured column: the reason, and the reason as a sentence."""
    if estimated.distinct <= 1:
        return AdviceReason.ONE_VALUE, "all rows have one value" if rows else "the table has no rows"
    if measure.cut > 0.5:
        why = f"most values are longer than {MAX_KEY} bytes, so that the data is read to tell"
        return AdviceReason.LONG, why
    if questions == 0:
        return AdviceReason.NOT_ASKED, "no question names it"
    large = estimated.bytes > LARGE * estimated.stored_bytes
    if large and rows < OWN_VALUES * estimated.distinct and not questions:
        stored_a_row = estimated.stored_bytes / rows
        size = f"{estimated.bytes_a_row:.1f} bytes a row beside {stored_a_row:.1f} of the column"
        return AdviceReason.OWN_VALUES, f"nearly every row has a value of its own: {size}"
    why = _gain(estimated)
    if not estimated.gains:
        return AdviceReason.NO_GAIN, why
    if questions:
        return AdviceReason.ASKED, f"{questions} question{'s' * (questions > 1)}; {why}"
    return AdviceReason.WORTH, why


def _gain(estimated: Estimate) -> str:
    """Return the sentence that compares the bytes an index lookup reads with the bytes a scan reads."""
    by_index, by_scan = _size(estimated.question_bytes), _size(estimated.scan_bytes)
    if estimated.gains:
        return f"one value goes through {by_index} of the index, a scan through {by_scan}"
    return f"one value goes through {by_index} of the index, which is no gain: a scan through {by_scan}"


def _size(count: float) -> str:
    """Format a number of bytes for people."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} TB"
