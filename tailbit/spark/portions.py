"""A selection in portions that other processes evaluate: by the same code, at one state of table and index.

A portion is some data files of a snapshot, with what the log and the index record of them. Segments, hidden
rows and data are read where the portion is evaluated, by their names. Index files never change: a portion is
answered from the state of the index that it was made from, whatever is committed meanwhile. A segment that
was merged and vacuumed is a damaged one: the data of its files is read, and the answer is right.
"""

from __future__ import annotations

import io
import os
import pickle
import socket
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np

from tailbit import __version__
from tailbit.base.arrays import Longs, Mask
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import CorruptIndexError, RequirementError, UnusableStorageError
from tailbit.base.once import once
from tailbit.handle import Handle, accesses_of
from tailbit.index.evaluation.side_by_side import unread_by
from tailbit.index.grouping.facets import is_counted
from tailbit.index.predicate.tree import Constant, Leaf, Node, nodes_of, relaxed
from tailbit.index.query.coverage import cover
from tailbit.index.query.selection import FileHits, Selection, candidate_numbers, open_to_the_log
from tailbit.index.store.state import IndexPortion, IndexState
from tailbit.tables import compute as pc
from tailbit.tables.arrow import filled, in_one, numpy_of
from tailbit.tables.model import Column, Version
from tailbit.tables.schema import Schema
from tailbit.tables.snapshot import FileList, Snapshot
from tailbit.tables.storage import Storage, StorageOptions

TASK_BYTES = 64 << 20
"""Bytes that are worth a task, of data or of postings, unless a caller says otherwise."""

_TASKS_A_CORE = 16
"""Most tasks for each core: a task of a very large table has more bytes."""

_SPACES = 256
"""Most row spaces whose footers are read to decide where a question is evaluated."""

_DATA_BYTES = 16
"""Bytes of data for each byte of postings, about."""


@dataclass(frozen=True, eq=False)
class Division:
    """A selection that is divided by its files.

    `index`: the index in the state by which the files are covered; None without one. `trusted`: whether it
    describes this history of the table. `task_bytes`: bytes that are worth a task; fewer are read here.
    """

    selection: Selection
    index: IndexState | None
    trusted: bool
    task_bytes: int = TASK_BYTES

    @classmethod
    def of(cls, table: Handle, selection: Selection, task_bytes: int = TASK_BYTES) -> Division:
        """Return the division of a selection by the index of its table, in the state that is known now.

        Rows and version stay those of the selection; its row spaces may be others, after a merge. The caller
        holds the lock of the table until it has the portions, since the index moves on.
        """
        index = None if table._index is None else table._index.state
        trusted = table._trusted_ledger() is not None
        coverage = table._cover(selection.snapshot, trusted)
        if coverage is not selection.coverage:
            selection = replace(selection, coverage=coverage)
        try:
            _ = None if index is None else index.recorded
        except CorruptIndexError:
            index = None
        return cls(selection, index, trusted, task_bytes)

    @once
    def _sizes(self) -> Longs:
        return numpy_of(self.selection.snapshot.files.core["size"], dtype=np.int64)

    @once
    def _are_uncovered(self) -> Mask:
        mask = np.zeros(len(self._sizes), dtype=np.bool_)
        mask[self.selection.coverage.uncovered] = True
        return mask

    @once
    def _records(self) -> Longs:
        """Return, per file of the snapshot, the row number of its record in the index; -1 if it has none."""
        paths = self.selection.snapshot.files.paths
        if self.index is None:
            return np.full(len(paths), -1)
        recorded = self.index.recorded.table()["path"]
        return numpy_of(filled(pc.index_in(paths, value_set=in_one(recorded)), -1), dtype=np.int64)

    @once
    def _node(self) -> Node:
        """Return what the driver evaluates of the predicate: its cheapest leaves, others taken as TRUE.

        Their postings together are not worth a task. Footers are read to know it, of `_SPACES` at most.
        """
        spaces, node = self.selection.coverage.spaces, self.selection.node
        leaves = [leaf for leaf in nodes_of(node) if isinstance(leaf, Leaf)]
        if len(spaces) > _SPACES:
            return Constant(True)
        costs = sorted((sum(unread_by(leaf, space) for space in spaces), n) for n, leaf in enumerate(leaves))
        totals = accumulate(cost for cost, _ in costs)
        count = sum(total < self.task_bytes for total in totals)
        affordable = [leaves[number] for _, number in costs[:count]]
        return node if len(affordable) == len(leaves) else relaxed(node, affordable)

    @once
    def postings(self) -> int:
        """Return the bytes of postings to be read for the predicate in these files; an estimate if many."""
        selection = self.selection
        open_files = np.zeros(len(self._sizes), dtype=np.bool_)
        open_files[self.files] = True
        spaces = [space for space in selection.coverage.spaces if open_files[space.files].any()]
        if selection.node == Constant(True):
            return 0
        if len(spaces) > _SPACES:
            return sum(int(self._sizes[space.files].sum()) for space in spaces) // _DATA_BYTES
        return sum(unread_by(selection.node, space) for space in spaces)

    @once
    def files(self) -> Longs:
        """Return the numbers of the files that may have a row of the selection, ascending.

        By the log, and by the postings of so much of the predicate as is not worth a task.
        """
        selection, files = self.selection, np.arange(len(self._sizes))
        if selection.node == Constant(True):
            return files
        if self._node != Constant(True):
            narrowed = replace(selection, node=self._node, by_file=selection.pruning)
            files = np.array(candidate_numbers(narrowed), dtype=np.int64)
        return files if self._node is selection.node else open_to_the_log(selection, files)

    def bytes_of_data(self, columns: Sequence[Column]) -> int:
        """Return the bytes of the files to be read for the rows, or for columns without postings.

        Once it is known that the data is worth a task, no more is read here to know it exactly.
        """
        of_uncovered = int(self._sizes[self.files][self._are_uncovered[self.files]].sum())
        if of_uncovered >= self.task_bytes or self.postings >= self.task_bytes:
            return of_uncovered
        if all(is_counted(self.selection.coverage.spaces, column) for column in columns):
            return self.selection.bytes_scanned
        return int(self._sizes[self.files].sum())

    def portions(self, cores: int | None, whole: bool, every: bool = False) -> Iterator[Portion]:
        """Yield portions, each of files of row spaces that follow one another.

        `cores`: those of the executors, which get few tasks each; None for portions worth a task at most.
        `whole`: for questions that read postings rather than data: a row space is not divided. `every`: also
        files that have no row of the selection.
        """
        coverage = self.selection.coverage
        chosen = np.zeros(len(self._sizes), dtype=bool)
        chosen[slice(None) if every else self.files] = True
        spaces = [space.files[chosen[space.files]] for space in coverage.spaces]
        weights = self._sizes.copy()
        if whole:
            weights[np.concatenate([np.zeros(0, dtype=np.int64), *spaces])] //= _DATA_BYTES
        shared = 0 if cores is None else int(weights[chosen].sum()) // (_TASKS_A_CORE * cores)
        most = max(1, self.task_bytes, shared)
        groups, size = [list[Longs]()], 0
        for covered, numbers in (*((True, of) for of in spaces), (False, coverage.uncovered)):
            numbers = numbers[chosen[numbers]]
            ends = np.cumsum(weights[numbers])
            cuts = np.flatnonzero(np.diff(ends // most)) + 1
            for of_group in [numbers] if whole and covered else np.split(numbers, cuts):
                weight = int(weights[of_group].sum())
                if groups[-1] and size + weight > most:
                    groups.append([])
                    size = 0
                groups[-1].append(of_group)
                size += weight
        for group in groups:
            numbers = np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *group]))
            if len(numbers):
                yield self._portion(numbers)

    def _portion(self, numbers: Longs) -> Portion:
        selection, records = self.selection, self._records[numbers]
        uncovered = numbers[self._are_uncovered[numbers]]
        snapshot = selection.snapshot
        return Portion(
            node=selection.node,
            by_file=selection.by_file,
            schema=snapshot.schema,
            schema_in_zone=selection.schema,
            root=snapshot.root,
            version=snapshot.version,
            files=snapshot.files.portion(numbers.tolist(), set(uncovered.tolist())),
            storage=selection.storage,
            index=None if self.index is None else self.index.portion(records[records >= 0]),
            trusted=self.trusted,
        )


@dataclass(frozen=True, eq=False)
class Portion:
    """Some files of a selection, and what the index records of them; None without an index."""

    node: Node
    by_file: Node | None
    schema: Schema
    schema_in_zone: Schema
    root: str
    version: Version
    files: FileList
    storage: Storage
    index: IndexPortion | None
    trusted: bool

    def division(self) -> Division:
        """Return the rows of these files where the predicate is TRUE, to be evaluated or divided further."""
        snapshot = Snapshot(self.root, self.version, 0, self.files, lambda: self.schema)
        index = None if self.index is None else self.index.state()
        accesses = [] if index is None else accesses_of(index, self.schema)
        coverage = cover(snapshot, self.storage, index, self.trusted, None, accesses)
        selection = Selection(self.node, coverage, self.storage, self.schema_in_zone, by_file=self.by_file)
        return Division(selection, index, self.trusted)

    def hits(self) -> Iterator[FileHits]:
        """Yield the matching positions file by file. Memory: the positions in some `TASK_BYTES` of data."""
        division = self.division()
        if int(division._sizes.sum()) <= TASK_BYTES:
            yield from division.selection.hits()
            return
        for portion in division.portions(None, whole=False):
            yield from portion.division().selection.hits()


class _Pickler(pickle.Pickler):
    """Pickles portions without the options of stores, which may be secrets."""

    def persistent_id(self, value: Any) -> str | None:
        """Return a name for the options of stores."""
        return "options" if isinstance(value, StorageOptions) else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes, options: StorageOptions) -> None:
        super().__init__(io.BytesIO(data))
        self._options = options

    def persistent_load(self, _: Any) -> StorageOptions:
        return self._options


def packed(portion: Portion) -> bytes:
    """Return a portion as bytes, without the options of its stores."""
    data = io.BytesIO()
    _Pickler(data, pickle.HIGHEST_PROTOCOL).dump(portion)
    return zlib.compress(data.getvalue(), level=1)


def unpacked(data: bytes, options: StorageOptions, release: str) -> Portion:
    """Return a portion on an executor. `release`: that of the process that packed it.

    Raises:
        RequirementError: this process has another release.
        UnusableStorageError: the folder of the table is not to be found from here.
    """
    here = socket.gethostname()
    if release != __version__:
        reason = f"the executor on {here} has tailbit {__version__}, and the driver has {release}"
        raise RequirementError(reason=reason, remedy="Install the driver's release on all executors.")
    portion: Portion = _Unpickler(zlib.decompress(data), options).load()
    if not portion.storage.remote and not os.path.isdir(portion.storage.root):
        reason = f"the executor on {here} finds no such folder"
        hint = "Keep table and index where all executors find them by this path: an object store, or a mount."
        raise UnusableStorageError(path=portion.storage.root, reason=reason, hint=hint)
    return portion
