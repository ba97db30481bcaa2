"""Rows to group: positions of row spaces, and rows of files that no bitmap covers; and their values in data.

A term is computed from the columns that it reads; a term of one column once per distinct value, where files
hold codes of values. If the expression of a term raises an error for a row, the question raises that error,
as it does for a condition.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.arrays import Mask
from tailbit.base.dataclass import dataclass
from tailbit.base.lazy import lazy
from tailbit.index.evaluation.row_space import SpaceView
from tailbit.index.expression.indexed_term import IndexedTerm, sources_of, values_of, with_terms
from tailbit.index.expression.show import show
from tailbit.index.keys import MAX_KEY, encode_value
from tailbit.index.model import key_type_of_column
from tailbit.index.predicate.computed import Computed
from tailbit.index.predicate.tree import And, Constant, Leaf, Node
from tailbit.index.predicate.value_sets import ValueSet
from tailbit.index.query.coverage import Damages
from tailbit.index.query.selection import Selection
from tailbit.index.values.literals import FLOATING
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.snapshot import Snapshot
from tailbit.tables.storage import Storage

if TYPE_CHECKING:
    from tailbit.index.predicate import truth
    from tailbit.tables.parquet import column_codes as column_codes
    from tailbit.tables.parquet import rows as data_rows
    from tailbit.tables.parquet.column_codes import Numbered
else:
    data_rows = lazy("tailbit.tables.parquet.rows")
    column_codes = lazy("tailbit.tables.parquet.column_codes")
    truth = lazy("tailbit.index.predicate.truth")

Read = tuple[FileSlice, npt.NDArray[np.uint64]]
"""A file slice and ascending positions of rows in it."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of one snapshot, each once: in `spaces` as positions of row spaces, in `loose` as rows of files.

    `node`: a condition that all rows meet. `damages`: collects damaged files of the index.
    """

    snapshot: Snapshot
    storage: Storage
    spaces: Sequence[tuple[SpaceView, BitMap]]
    loose: Sequence[Read]
    damages: Damages
    node: Node = field(default=Constant(True))

    @classmethod
    def of(cls, selection: Selection) -> Rows:
        """Return the rows of a selection. Cost: evaluates the selection, unless that was done before."""
        spaces = [(space, bounds.sure) for space, bounds in selection.bounds]
        loose = [(hit.slice_, hit.positions) for hit in selection.read_hits if len(hit.positions)]
        return cls(selection.snapshot, selection.storage, spaces, loose, selection.damages, selection.node)

    @property
    def count(self) -> int:
        """Return the number of rows."""
        return sum(len(bits) for _, bits in self.spaces) + sum(len(positions) for _, positions in self.loose)

    def reads(self) -> Iterator[Read]:
        """Yield all rows file by file, in the order in which a condition is rechecked and scanned."""
        for space, bits in self.spaces:
            yield from self.by_slice(space, bits)
        yield from self.loose

    def by_slice(self, space: SpaceView, bits: BitMap) -> Iterator[Read]:
        """Yield the positions of a row space file by file, for the files that have any."""
        for number, positions in space.split(bits, shared=True):
            yield self.snapshot.files[number], positions

    def values_of(self, column: Column) -> ValueSet | None:
        """Return a value set that contains every row's value of a column, if the condition names one."""
        conjuncts = self.node.children if isinstance(self.node, And) else (self.node,)
        for conjunct in conjuncts:
            if (
                isinstance(conjunct, Leaf)
                and conjunct.column.id == column.id
                and not conjunct.true.complement
            ):
                return conjunct.true
        return None

    def known_key(self, column: Column) -> bytes | None:
        """Return the key that every row has in a column; None if the condition names no single value.

        Also None for values of several forms (zero has two) and for texts with truncated keys.
        """
        values = self.values_of(column)
        if values is None or values.nulls or len(values.intervals) != 1 or column.type.name in FLOATING:
            return None
        (only,) = values.intervals
        if only.lo is None or only.lo != only.hi or (isinstance(only.lo, bytes) and len(only.lo) > MAX_KEY):
            return None
        return encode_value(only.lo, key_type_of_column(column))


def fetch_values(storage: Storage, reads: Sequence[Read], columns: Sequence[Column]) -> Iterator[pa.Table]:
    """Yield the values of columns and terms at rows, named by id, in the order of files and positions."""
    if not any(isinstance(column, IndexedTerm) for column in columns):
        yield from data_rows.fetch_files(storage, reads, columns)
        return
    distinct, start = list({column.id: column for column in columns}.values()), 0
    for table in data_rows.fetch_files(storage, reads, sources_of(columns)):
        values, raising = with_terms(table, distinct)
        if raising:
            _raise(table, raising, distinct, reads, start)
        yield values
        start += table.num_rows


def number_values(
    storage: Storage, reads: Sequence[Read], columns: Sequence[Column]
) -> Iterator[tuple[list[Numbered], list[Read]]]:
    """Yield columns and terms of rows as numbers of distinct values, and the reads to be fetched instead."""
    if not any(isinstance(column, IndexedTerm) for column in columns):
        yield from column_codes.numbered(storage, reads, columns)
        return
    if any(len(sources_of([column])) > 1 for column in columns):
        yield [], list(reads)
        return
    sources = sources_of(columns)
    for numbers, rest in column_codes.numbered(storage, reads, sources):
        by_id = {source.id: of for source, of in zip(sources, numbers, strict=False)}
        listed = [_computed(column, by_id[sources_of([column])[0].id]) for column in columns if numbers]
        if None in listed:
            raise_first(storage, reads, columns)
        yield [of for of in listed if of is not None], rest


def raise_first(storage: Storage, reads: Sequence[Read], columns: Sequence[Column]) -> NoReturn:
    """Raise the error of the first row for which a term raises. Cost: the columns are read up to that row.

    Raises:
        EvaluationError: always.
    """
    deque(fetch_values(storage, reads, columns), maxlen=0)
    raise AssertionError("no term raises for any of the rows")


def _computed(column: Column, source: Numbered) -> Numbered | None:
    """Compute a term that reads one column, per distinct value; None if it raises for one of them."""
    if not isinstance(column, IndexedTerm):
        return source
    (read,) = sources_of([column])
    values, raised = values_of(column, {read.id: source.values}, len(source.values))
    return replace(source, values=values) if raised is None else None


def _raise(
    table: pa.Table, raising: dict[str, Mask], columns: Sequence[Column], reads: Sequence[Read], start: int
) -> NoReturn:
    """Raise the error of the first raising row of a table, whose rows begin at row `start` of the reads."""
    first, id_ = min((int(np.argmax(mask)), id_) for id_, mask in raising.items())
    ends = np.cumsum([len(positions) for _, positions in reads])
    file = int(np.searchsorted(ends, start + first, side="right"))
    slice_, positions = reads[file]
    position = int(positions[start + first - int(ends[file]) + len(positions)])
    (term,) = (column for column in columns if column.id == id_)
    assert isinstance(term, IndexedTerm)
    condition = Computed(term.expression, show(term.expression))
    truth.raise_error(condition, table.slice(first, 1), slice_.partition, slice_.path, position)
