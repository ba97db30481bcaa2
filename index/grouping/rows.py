"""Rows to group: positions of row spaces, and rows of files that no bitmap covers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pyroaring import BitMap

from tailbit.index.evaluation.row_space import SpaceView
from tailbit.index.keys import MAX_KEY, encode_value
from tailbit.index.model import key_type_of_column
from tailbit.index.predicate.tree import And, Constant, Leaf, Node
from tailbit.index.predicate.value_sets import ValueSet
from tailbit.index.query.damages import Damages
from tailbit.index.query.selection import Selection
from tailbit.index.values.literals import FLOATING
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.parquet.rows import Positions
from tailbit.tables.snapshot import Snapshot
from tailbit.tables.storage import Storage

Read = tuple[FileSlice, Positions]
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
        return sum(len(bits) for _, bits in self.spaces) + sum(len(at) for _, at in self.loose)

    def reads(self) -> Iterator[Read]:
        """Yield all rows file by file: those of uncovered files first."""
        yield from self.loose
        for space, bits in self.spaces:
            yield from self.by_slice(space, bits)

    def by_slice(self, space: SpaceView, bits: BitMap) -> Iterator[Read]:
        """Yield the positions of a row space file by file, for the files that have any."""
        for number, at in space.split(bits, shared=True):
            yield self.snapshot.files[number], at

    def values_of(self, column: Column) -> ValueSet | None:
        """Return a value set that contains every row's value of a column, if the condition names one."""
        parts = self.node.children if isinstance(self.node, And) else (self.node,)
        for part in parts:
            if isinstance(part, Leaf) and part.column.id == column.id and not part.true.complement:
                return part.true
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
