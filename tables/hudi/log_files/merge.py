"""Merging a file group: which rows of its base file and of its log blocks are hidden.

The records of the log are merged with each other first, in order; what is left is merged with the base file.
A record belongs to the row of the base file that its block's header gives, as long as every block so far has
positions of this base file; else to the first row that has the record's key. By commit time the later record
wins, deletion or not. By event time the record with the greater ordering value wins, and of equal ones the
later; a deletion without an ordering value always wins, and any record after it wins again. Each rule leaves
a whole row of one source. Source: BufferedRecordMergerFactory, PositionBasedFileGroupRecordBuffer,
KeyBasedFileGroupRecordBuffer.
"""

from __future__ import annotations

import base64
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
from pyroaring import BitMap, BitMap64

from tailbit.errors import LogBlockError, UnsupportedFeatureError
from tailbit.tables.arrow import arrow_array
from tailbit.tables.hudi.groups import requested_of
from tailbit.tables.hudi.log_files.blocks import Header, LogBlock, read_span
from tailbit.tables.hudi.log_files.contents import block_of, block_parquet
from tailbit.tables.hudi.log_files.deletes import read_deletions
from tailbit.tables.hudi.log_files.keys import (
    Ordering,
    Record,
    find_keys,
    is_less,
    orderings,
    records_of,
    unproven,
)
from tailbit.tables.hudi.log_files.plan import MergePlan
from tailbit.tables.parquet.data_file import named_file
from tailbit.tables.parquet.file import ParquetFile, open_parquet
from tailbit.tables.storage import Storage


class Place(NamedTuple):
    """A row of a block by the place of the block in the plan; of the base file if `block` is -1."""

    block: int
    row: int


@dataclass(slots=True)
class Winner:
    """The record of a key that is left of the log."""

    at: Place
    record: Record


@dataclass(frozen=True)
class Merged:
    """The outcome of a plan.

    `hidden`: the hidden rows by the path of each slice. `before`: of each row of a block with some columns
    alone that won when it came, the row whose other columns it keeps.
    """

    hidden: Mapping[str, BitMap]
    before: Mapping[Place, Place]


def merge(storage: Storage, plan: MergePlan, by_key: bool = False) -> Merged:
    """Merge the blocks of a plan with each other and with the base file.

    `by_key`: positions in the headers of blocks are not used. Cost: the keys and ordering values of all
    blocks; where all keys have positions, and the rule asks for no ordering value, nothing of the base file
    but its footer.

    Raises:
        FileNotFoundError: a log file is gone.
        LogBlockError: a block is damaged.
        DataFileError: the base file cannot be read.
        UnsupportedFeatureError: records are merged in a way that is not proven.
    """
    return _Merge(storage, plan, by_key).merged()


@dataclass
class _Merge:
    """The state of one merge.

    `winners`: what is left of the log, by position in the base file while `by_key` is not set, then by key.
    `rows`: how many rows each data block has. `unsettled`: partial rows that are to be completed from the
    base file, with their positions or keys.
    """

    storage: Storage
    plan: MergePlan
    by_key: bool
    winners: dict[int | str, Winner] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)
    before: dict[Place, Place] = field(default_factory=dict)
    unsettled: dict[Place, int | str] = field(default_factory=dict)

    def merged(self) -> Merged:
        for number in range(len(self.plan.blocks)):
            self._add(number)
        paths = {number: self.plan.slice_path(number) for number in self.rows}
        hidden = {paths[number]: BitMap(range(rows)) for number, rows in self.rows.items()}
        base_rows, lost = self._against_base()
        for slot, winner in self.winners.items():
            if slot not in lost and not winner.record.deletes:
                hidden[paths[winner.at.block]].discard(winner.at.row)
        if self.plan.base is not None:
            replaced = BitMap([row for slot, row in base_rows.items() if slot not in lost])
            hidden[self.plan.path(self.plan.base)] = replaced
        for place, slot in self.unsettled.items():
            if slot not in base_rows:
                raise self._unproven(place.block, "a partial update of a row that is not there")
            self.before[place] = Place(-1, base_rows[slot])
        return Merged(hidden, self.before)

    def _add(self, number: int) -> None:
        """Merge the records of a block with those before it."""
        name = self.plan.blocks[number]
        path = self.plan.path(name.log)
        block = block_of(self.storage, path, name.number)
        if name.is_deletes:
            records = [Record(*deletion, True) for deletion in read_deletions(self.storage, path, block)]
        else:
            with open_parquet(pa.BufferReader(block_parquet(self.storage, path, name.number))) as file:
                records = records_of(self.storage, file, self.plan.rule, path, block)
            self.rows[number] = len(records)
        positions = None if self.by_key else self._positions(path, block, len(records))
        if positions is None and not self.by_key:
            self._go_on_by_key(number)
        for row, record in enumerate(records):
            slot = record.key if positions is None else positions[row]
            self._apply(Place(number, row), record, slot)

    def _go_on_by_key(self, block: int) -> None:
        """Key what is left of the log by the keys of the records, from a block without positions on.

        Raises:
            UnsupportedFeatureError: two rows of the base file have one key: which of them counts is open.
        """
        self.by_key, known = True, self.winners
        self.winners = {winner.record.key: winner for winner in known.values()}
        if len(self.winners) != len(known):
            raise self._unproven(block, "updates of two rows of one key, by position and by key")
        self.unsettled = {place: known[slot].record.key for place, slot in self.unsettled.items()}

    def _apply(self, place: Place, record: Record, slot: int | str) -> None:
        older = self.winners.get(slot)
        if self.plan.blocks[place.block].is_partial:
            self._complete(place, record, older, slot)
        if older is None or self._wins(record, older.record, place.block):
            self.winners[slot] = Winner(place, record)
        elif self.plan.blocks[older.at.block].is_partial and not record.deletes:
            raise self._unproven(place.block, "a record that is older than a partial update before it")

    def _complete(self, place: Place, record: Record, older: Winner | None, slot: int | str) -> None:
        """Note which row has the other columns of a partial row.

        Raises:
            UnsupportedFeatureError: Hudi may complete the row otherwise.
        """
        if record.deletes or (older is not None and older.record.deletes):
            raise self._unproven(place.block, "a partial update and a deletion of one row")
        if older is not None and older.at.block == place.block:
            raise self._unproven(place.block, "two partial updates of one row in a block")
        if older is None:
            self.unsettled[place] = slot
        elif self._wins(record, older.record, place.block):
            self.before[place] = older.at

    def _wins(self, newer: Record, older: Record, block: int) -> bool:
        """Return whether a record wins against the one of its key that is left of the log before it."""
        if not self.plan.rule.by_time:
            return True
        if self.plan.blocks[block].is_deletes:
            if older.ordering is None:
                return False
            alike = isinstance(newer.ordering, tuple) == isinstance(older.ordering, tuple)
            comparable = alike and newer.ordering is not None
            return not comparable or not self._less(newer.ordering, older.ordering, block)
        if newer.ordering is None or older.ordering is None:
            return True
        return not self._less(newer.ordering, older.ordering, block)

    def _less(self, newer: Ordering | None, older: Ordering | None, block: int) -> bool:
        less = is_less(newer, older)
        if less is None:
            raise self._unproven(block, "ordering values of different types")
        return less

    def _positions(self, path: str, block: LogBlock, count: int) -> list[int] | None:
        """Return the rows of the base file that the header of a block gives; None if it gives none of them.

        Raises:
            LogBlockError: the positions are damaged.
        """
        span, base = block.places.get(Header.POSITIONS), self.plan.base
        if span is None or base is None or block.texts.get(Header.BASE_INSTANT) != requested_of(base):
            return None
        try:
            rows = list(
                BitMap64.deserialize(base64.b64decode(read_span(self.storage, path, span, block.offset)))
            )
        except (ValueError, IndexError, MemoryError) as wrong:
            reason = f"its positions cannot be decoded: {wrong}"
            raise LogBlockError(file=path, offset=block.offset, reason=reason) from wrong
        if rows and len(rows) != count:
            reason = f"it has {len(rows)} positions of {count} rows"
            raise LogBlockError(file=path, offset=block.offset, reason=reason)
        return rows or None

    def _against_base(self) -> tuple[dict[int | str, int], set[int | str]]:
        """Return the rows of the base file by position or key, and those of them that win against the log."""
        if self.plan.base is None:
            return {}, set()
        path, rows = self.plan.path(self.plan.base), dict[int | str, int]()
        with named_file(self.storage, path), open_parquet(self._open(path)) as file:
            if self.by_key:
                for key, row in find_keys(file, arrow_array(list(self.winners), pa.string()), path):
                    rows.setdefault(key, row)
            else:
                rows = {slot: slot for slot in self.winners if isinstance(slot, int)}
                if max(rows.values(), default=-1) >= file.metadata.num_rows:
                    reason = f"a position is beyond the {file.metadata.num_rows} rows of {path}"
                    log = self.plan.path(self.plan.blocks[0].log)
                    raise LogBlockError(file=log, offset=0, reason=reason)
            return rows, self._lost(file, rows)

    def _open(self, path: str) -> pa.NativeFile:
        return self.storage.open(self.storage.resolve(path))

    def _lost(self, file: ParquetFile, rows: Mapping[int | str, int]) -> set[int | str]:
        """Return the positions or keys of the rows of the base file that win by their ordering values."""
        if not self.plan.rule.by_time or not self.plan.rule.ordering:
            return set()
        timed = {row: slot for slot, row in rows.items() if self.winners[slot].record.ordering is not None}
        instant = requested_of(self.plan.base or "")
        lost = set()
        for part, chosen in _taken(file, sorted(timed), self.plan.rule.ordering):
            values = orderings(self.storage, part, self.plan.rule.ordering, instant)
            for row, value in zip(chosen, values, strict=True):
                winner = self.winners[timed[row]]
                if self._less(winner.record.ordering, value, winner.at.block):
                    lost.add(timed[row])
        return lost

    def _unproven(self, block: int, feature: str) -> UnsupportedFeatureError:
        return unproven(self.storage, self.plan.blocks[block].instant, feature)


def _taken(
    file: ParquetFile, rows: Sequence[int], columns: Sequence[str]
) -> Iterator[tuple[pa.Table, Sequence[int]]]:
    """Yield columns of some rows of a file, which ascend, and the rows: a row group at a time."""
    start, at = 0, 0
    for group in range(file.metadata.num_row_groups):
        end = start + file.metadata.row_group(group).num_rows
        until = bisect_left(rows, end, at)
        if until > at:
            there = [name for name in columns if name in file.schema_arrow.names]
            chosen = rows[at:until]
            part = file.read_row_group(group, there)
            yield part.take(arrow_array([row - start for row in chosen], pa.int64())), chosen
        start, at = end, until
