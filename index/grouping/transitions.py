"""Changes between two versions of a table: how many rows of each value left, and how many came.

Rows are compared by record position: a row that was rewritten to another file left and came; a row that was
deleted and restored in between did neither. A file with the same visible rows in both versions is skipped; if
its partition value changed, all its rows left the old value and came to the new value.

Six rows by hand; version 2 hides row 1 of a.parquet and has c.parquet instead of b.parquet:

    version 1     a: UA AA DL    b: UA UA
    version 2     a: UA    DL    c: UA AA AA
    left          AA 1, UA 2
    came          UA 1, AA 2
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.arrays import Longs, Mask
from tailbit.base.errors import ColumnTypeError
from tailbit.index.evaluation.row_space import SpaceView, claims
from tailbit.index.expression.indexed_term import IndexedTerm, sources_of
from tailbit.index.grouping.dictionary import united
from tailbit.index.grouping.grouping import count_groups
from tailbit.index.grouping.rows import Read, Rows
from tailbit.index.predicate.tree import Constant
from tailbit.index.query.coverage import Coverage, hidden_ids
from tailbit.index.query.scan import Scan, scan
from tailbit.index.query.selection import Selection
from tailbit.index.values.literals import DIGITS
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, filled, numpy_of
from tailbit.tables.model import Column, DataType
from tailbit.tables.partition_values import partition_array
from tailbit.tables.positions import positions_in
from tailbit.tables.snapshot import Snapshot


class Transition(NamedTuple):
    """Rows of one value: how many left the table, and how many came."""

    left: int
    came: int


def transitions(before: Selection, after: Selection, column: Column) -> dict[Any, Transition]:
    """Return by value the rows that left and that came between two versions, the most moved first.

    Args:
        before: every row of the one version.
        after: every row of the other.
        column: a column of the later version, or a term over its columns; rows older than the column have
            NULL. If its type was widened in between, values are compared in the wider type.

    Cost: a join of the two lists of files; then the cost of counting the rows that differ.
    """
    old, new = _terms_of(before, after, column)
    gone = count_groups(_only_in(before, after, old, new), [old])
    came = count_groups(_only_in(after, before, new, old), [new])
    union = united([gone.keys_of(), came.keys_of()])
    moved = np.zeros((2, len(union.keys)), dtype=np.int64)
    moved[0, union.codes[0]], moved[1, union.codes[1]] = gone.counts, came.counts
    values = union.values(old, gone.key_type())
    out: dict[Any, Transition] = {}
    for place in np.argsort(-moved.sum(axis=0), kind="stable").tolist():
        before_now = out.get(values[place], Transition(0, 0))
        here = moved[:, place].tolist()
        out[values[place]] = Transition(before_now.left + here[0], before_now.came + here[1])
    return out


def _terms_of(before: Selection, after: Selection, column: Column) -> list[Column]:
    """Return the column of each version, or a term that reads columns of the same types in both."""
    if not isinstance(column, IndexedTerm):
        return _columns_of(before, after, column)
    for source in sources_of([column]):
        for then in _columns_of(before, after, source):
            if then.type != source.type:
                reason = f"it is {then.type.sql} at the earlier of the two versions"
                raise ColumnTypeError(column=source.label, type=source.type.sql, reason=reason)
    return [column, column]


def _columns_of(before: Selection, after: Selection, column: Column) -> list[Column]:
    """Return the column of each version, both in the wider of the two types."""
    columns = [next((c for c in s.schema.leaves() if c.id == column.id), column) for s in (before, after)]
    types = [column_then.type for column_then in columns]
    wide = next((t for t in (column.type, *types) if all(_widens(type_, t) for type_ in types)), None)
    if wide is None:
        reason = f"it is {types[0]} at version {before.version} and {types[1]} at version {after.version}"
        hint = "Ask about two versions in which one type is the wider one."
        raise ColumnTypeError(column=column.label, type=column.type.sql, reason=reason, hint=hint)
    return [replace(column_then, type=wide) for column_then in columns]


_WIDER = {
    "byte": ("short", "integer", "long", "double"),
    "short": ("integer", "long", "double"),
    "integer": ("long", "double"),
    "float": ("double",),
    "date": ("timestamp_ntz",),
}


def _widens(narrow: DataType, wide: DataType) -> bool:
    """Return whether a column of type `narrow` can be widened to `wide` without loss of a value."""
    if narrow.name == wide.name != "decimal":
        return True
    if wide.name != "decimal":
        return wide.name in _WIDER.get(narrow.name, ())
    digits = narrow.precision - narrow.scale if narrow.name == "decimal" else DIGITS.get(narrow.name)
    return digits is not None and narrow.scale <= wide.scale and digits <= wide.precision - wide.scale


def _only_in(own: Selection, other: Selection, column: Column, theirs: Column) -> Rows:
    """Return the rows that `own` shows and `other` does not.

    `column`, `theirs`: the column in the version of `own` and of `other`. If it is a partition column, rows
    of a file whose partition value differs between the versions count as missing from `other`.
    """
    difference = _Difference(own.coverage, other.coverage)
    for source, other_source in zip(sources_of([column]), sources_of([theirs]), strict=True):
        if source.partition and other_source.partition:
            difference.tell_apart(source)
    spaces = [(space, difference.in_space(space)) for space in own.coverage.spaces]
    loose = list(difference.uncovered(own))
    return Rows(own.snapshot, own.storage, [(s, bits) for s, bits in spaces if bits], loose, own.damages)


class _Difference:
    """The rows that one version shows and the other does not: whole files, and files with other hidden rows.

    Arrays with an entry per file of `mine`: `whole`: the file is missing from `other`; `partly`: the file has
    other hidden rows in `other`; `theirs`: the number of the file in `other`.
    """

    def __init__(self, own: Coverage, other: Coverage) -> None:
        self.own, self.other = own, other
        indexes = pc.index_in(
            own.snapshot.files.core["path"], value_set=_column_of_files(other.snapshot, "path")
        )
        present = numpy_of(pc.is_valid(indexes))
        self.theirs: Longs = numpy_of(filled(indexes, 0), np.int64)
        alike = present.copy()
        for name in ("size", "mtime"):
            values = numpy_of(_column_of_files(own.snapshot, name))
            alike[present] &= (
                values[present] == numpy_of(_column_of_files(other.snapshot, name))[self.theirs[present]]
            )
        self.whole: Mask = ~alike
        same = np.zeros(len(alike), dtype=bool)
        same[alike] = hidden_ids(own.snapshot)[alike] == hidden_ids(other.snapshot)[self.theirs[alike]]
        self.partly: Mask = alike & ~same

    def tell_apart(self, column: Column) -> None:
        """Treat files whose partition value changed as wholly missing from the other version."""
        alike = np.flatnonzero(~self.whole)
        own, others = (
            pc.take(snapshot.files.partition_texts(column.physical[0]), arrow_array(numbers))
            for snapshot, numbers in (
                (self.own.snapshot, alike),
                (self.other.snapshot, self.theirs[alike]),
            )
        )
        null = pc.and_(pc.is_null(own), pc.is_null(others))
        same = numpy_of(pc.or_(filled(pc.equal(own, others), False), null))
        texts = zip(
            *(pc.filter(texts_of_side, arrow_array(~same)).to_pylist() for texts_of_side in (own, others)),
            strict=True,
        )
        for number, both in zip(alike[~same].tolist(), texts, strict=True):
            # Two partition texts may stand for the same value.
            own_value, other = (partition_array(column, text, 1) for text in both)
            self.whole[number] = not own_value.equals(other)
        self.partly &= ~self.whole

    def in_space(self, space: SpaceView) -> BitMap:
        """Return the positions in a row space of the rows that only `mine` shows."""
        whole = self.whole[space.files]
        bits = claims(space.bases[whole], space.rows[whole]) & space.visible if whole.any() else BitMap()
        for order in np.flatnonzero(self.partly[space.files]).tolist():
            bits |= self._hidden_there(int(space.files[order])).shift(int(space.bases[order]))
        return bits

    def uncovered(self, selection: Selection) -> Iterator[Read]:
        """Yield (file, rows) for the uncovered files with rows that `mine` shows and `other` does not.

        Cost: the footers of files without a row count.
        """
        for number in self.own.uncovered.tolist():
            slice_ = self.own.snapshot.files[number]
            if self.partly[number]:
                gone = self._hidden_there(number)
                if gone:
                    yield slice_, positions_in(gone).astype(np.uint64)
            elif self.whole[number]:
                slice_scan = Scan(slice_, Constant(True), self.own.hidden_of(number))
                (shown_rows,) = scan(selection.storage, [slice_scan])
                if len(shown_rows):
                    yield slice_, shown_rows

    def _hidden_there(self, number: int) -> BitMap:
        """Return the rows of a file that `other` hides and `mine` shows."""
        theirs = self.other.hidden_of(int(self.theirs[number]))
        if theirs is None:
            return BitMap()
        own = self.own.hidden_of(number)
        return theirs if own is None else theirs - own


def _column_of_files(snapshot: Snapshot, name: str) -> pa.Array:
    chunks = snapshot.files.core[name]
    return pa.concat_arrays(chunks.chunks) if chunks.num_chunks else pa.nulls(0, chunks.type)
