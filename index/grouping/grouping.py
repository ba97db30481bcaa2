"""Grouping of rows by one column or by several, in one procedure.

Row space by row space, rows are grouped from postings where that is possible, by the method that `choice`
finds cheapest; all other rows are read from data: rows of uncovered files, of files without postings of a
column, of damaged segments, and rows with truncated keys. A subclass determines the form of the grouped rows.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from pyroaring import BitMap

from tailbit.base.arrays import Longs
from tailbit.base.errors import CorruptIndexError
from tailbit.base.lazy import lazy
from tailbit.index.evaluation.row_space import Serving, SpaceView
from tailbit.index.evaluation.side_by_side import each_space, unread_of
from tailbit.index.grouping.choice import Choice, CountingWay
from tailbit.index.grouping.folding import Combinations
from tailbit.index.grouping.key_counts import Step
from tailbit.index.grouping.rows import Read, Rows
from tailbit.index.model import key_type_of_column
from tailbit.tables.model import Column

if TYPE_CHECKING:
    from tailbit.index.grouping import by_tuples
else:
    by_tuples = lazy("tailbit.index.grouping.by_tuples")


class Counted(Protocol):
    """Some grouped rows; `counts`: the rows of each group."""

    @property
    def counts(self) -> Longs:
        """Return the rows of each group."""


Part = TypeVar("Part", bound=Counted)


class _InSpace(NamedTuple, Generic[Part]):
    """Grouped rows of a row space, the positions left to the data, and the steps taken."""

    part: Part | None
    left: BitMap
    steps: Sequence[Step] = ()


class Grouping(ABC, Generic[Part]):
    """A grouping of one question's rows by some columns; `way`: the method for rows with postings, if given.

    Raises:
        ColumnTypeError: a column's type has no keys (struct, array, map ...).
    """

    def __init__(self, rows: Rows, columns: Sequence[Column], way: CountingWay | None) -> None:
        self.rows, self.columns, self.way = rows, columns, way
        self.key_types = [key_type_of_column(column) for column in columns]
        self.stored = [column for column in columns if not column.partition]
        self.steps: list[Step] = []

    @abstractmethod
    def choose(self, space: SpaceView, serving: Serving, bits: BitMap) -> Choice:
        """Choose the method to group positions of a row space."""

    @abstractmethod
    def by_index(
        self, space: SpaceView, serving: Serving, bits: BitMap, way: CountingWay
    ) -> tuple[Part | None, BitMap]:
        """Group positions of a row space by a method; also return the positions with truncated keys."""

    @abstractmethod
    def of_tuples(self, combinations: Combinations) -> Part:
        """Convert combinations from postings of tuples to grouped rows; a group may occur several times."""

    @abstractmethod
    def by_data(self, reads: Sequence[Read]) -> Iterator[Part]:
        """Yield the grouped rows of files, read from their data."""

    def parts(self) -> Iterator[Part]:
        """Yield the grouped rows of each row space, then those read from data."""
        left, spaces = list[Read](), self.rows.spaces
        grouped_spaces = each_space(
            spaces,
            lambda work: self._in_space(*work),
            lambda work: unread_of(self.stored, work[0]),
            [space for space, _ in spaces],
        )
        for (space, bits), outcome in zip(spaces, grouped_spaces, strict=True):
            if isinstance(outcome, CorruptIndexError):
                self.rows.damages.note(outcome)
                outcome = _InSpace(None, bits)
            if outcome.part is not None:
                yield outcome.part
            self.steps += outcome.steps
            left += self.rows.by_slice(space, outcome.left)
        left += self.rows.loose
        if left:
            begun = time.perf_counter()
            yield from self.by_data(left)
            self.note(CountingWay.DATA, sum(len(positions) for _, positions in left), begun)

    def note(self, method: CountingWay, rows: int, begun: float) -> None:
        """Add a step that began at a time of `perf_counter` and ends now."""
        self.steps.append(Step(method, rows, (time.perf_counter() - begun) * 1e3))

    def _in_space(self, space: SpaceView, bits: BitMap) -> _InSpace[Part]:
        """Group the rows that postings can serve, and return the positions of the others.

        Raises:
            CorruptIndexError: a segment is damaged; the caller reads the whole row space from data.
        """
        serving = {column.id: space.serving(column) for column in self.stored}
        if not bits or not all(serving.values()):
            return self._by_tuples(space, bits)
        left = BitMap()
        for column in self.stored:
            unposted = space.unposted(column.id)
            left = left if unposted is None else left | (bits & unposted)
        wanted = bits - left if left else bits
        if not wanted:
            return _InSpace(None, left)
        choice = self.choose(space, serving, wanted)
        if self.way in choice.estimates:
            choice = replace(choice, way=self.way)
        if choice.way is CountingWay.DATA:
            return _InSpace(None, bits, [Step(CountingWay.DATA, choice.rows, None, choice)])
        begun = time.perf_counter()
        part, short = self.by_index(space, serving, wanted, choice.way)
        if (0 if part is None else int(part.counts.sum())) + len(short) != len(wanted):
            reason = f"postings of {', '.join(serving)} do not hold all rows of row space {space.space}"
            raise CorruptIndexError(file=next(iter(serving.values()))[0].path, reason=reason)
        took = (time.perf_counter() - begun) * 1e3
        return _InSpace(part, left | short, [Step(choice.way, choice.rows, took, choice)])

    def _by_tuples(self, space: SpaceView, bits: BitMap) -> _InSpace[Part]:
        """Group the rows that postings of tuples of the columns can serve, and return the others.

        Raises:
            CorruptIndexError: a segment is damaged; the caller reads the whole row space from data.
        """
        begun = time.perf_counter()
        grouped = None
        if bits and space.accesses:
            grouped = by_tuples.grouped_by_tuples(space, bits, self.columns, self.way)
        if grouped is None:
            return _InSpace(None, bits)
        combinations, left, choice = grouped
        step = Step(choice.way, choice.rows, (time.perf_counter() - begun) * 1e3, choice)
        return _InSpace(self.of_tuples(combinations), left, [step])
