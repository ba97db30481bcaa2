"""Merging a file group: which rows of its base file and of its log blocks are hidden.

The records of the log are merged with each other first, in order; the winners are merged with the base file.
While every block so far has positions of this base file in its header, a record belongs to the row at its
position; after that, to the first row with the record's key. By commit time the later record wins, deletion
or not. By event time the record with the greater ordering value wins, and of equal ones the later; a deletion
without an ordering value always wins, and any later row of a data block wins against it. Each rule keeps a
whole row of one source, so the state of a merge can be cached and later blocks added to it.
Source: BufferedRecordMergerFactory, PositionBasedFileGroupRecordBuffer, KeyBasedFileGroupRecordBuffer.
"""

from __future__ import annotations

import base64
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import NamedTuple

import pyarrow as pa
from pyroaring import BitMap, BitMap64

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import LogBlockError, UnsupportedFeatureError
from tailbit.tables.arrow import arrow_array
from tailbit.tables.hudi.groups import requested_of
from tailbit.tables.hudi.log_files.blocks import Header, LogBlock, read_span
from tailbit.tables.hudi.log_files.keys import (
    Missing,
    Ordering,
    Record,
    find_keys,
    is_less,
    orderings,
    read_deletions,
    records_of,
    stored_of,
    unproven,
)
from tailbit.tables.hudi.log_files.plan import MergePlan
from tailbit.tables.hudi.log_files.records import block_of, block_parquet
from tailbit.tables.parquet.data_file import named_file
from tailbit.tables.parquet.file import ParquetFile, open_parquet
from tailbit.tables.storage import Storage


class Place(NamedTuple):
    """A row: `block` is the index of its block in the plan, or -1 for the base file."""

    block: int
    row: int


_BASE = -1
"""The number of the base file, where blocks have their index in the plan."""
_A_RECORD, _A_ROW, _A_PLACE = 400, 100, 300
"""Bytes in memory of a record, of the base file row of a key, and of an entry for a partial row."""
_OTHER_TYPES = "ordering values of different types"
_CONTESTED = (
    "a record of a lesser ordering value than one before it in the log, which Hudi before 1.0 leaves out and "
    "Hudi 1.x takes (OverwriteWithLatestAvroPayload),"
)
_COMPACT = "Compact the table's log files (CALL run_compaction) with the release that its readers use."
Slot = int | str
"""The key of a record in the merge state: a position in the base file, or the record's key."""


@dataclass(frozen=True)
class Merged:
    """The outcome of a plan.

    `hidden`: the hidden rows by the path of each slice. `before`: for each row of a partial block that won
    when it was merged, the older row whose other columns it keeps.
    """

    hidden: Mapping[str, BitMap]
    before: Mapping[Place, Place]


def merge(storage: Storage, plan: MergePlan, by_key: bool = False) -> Merged:
    """Merge the blocks of a plan with each other and with the base file.

    `by_key`: whether to ignore the positions in the headers of blocks. Errors: as of `Merging.upto`.
    """
    return Merging.of(storage, plan, by_key).upto(plan)


@dataclass
class Merging:
    """The state of the merge of a group's blocks, to which later blocks are added. Used by one thread.

    `plan`: the plan with the blocks merged so far. `winners`: the winning records of the log, by position in
    the base file, or by key once `by_key` is set. `hidden`: the hidden rows of each data block and of the
    base file. `rows`: the base file rows of the keys that were found there. `unsettled`: partial rows to be
    completed from the base file, with their positions or keys. `changed`: the positions or keys whose winner
    changed with the latest blocks; None: all of them.
    """

    storage: Storage
    plan: MergePlan
    by_key: bool
    winners: dict[Slot, Record] = field(default_factory=dict)
    hidden: dict[int, BitMap] = field(default_factory=dict)
    rows: dict[Slot, int] = field(default_factory=dict)
    before: dict[Place, Place] = field(default_factory=dict)
    unsettled: dict[Place, Slot] = field(default_factory=dict)
    changed: set[Slot] | None = None

    @classmethod
    def of(cls, storage: Storage, plan: MergePlan, by_key: bool = False) -> Merging:
        """Return the state before the first block of a plan."""
        return cls(storage, replace(plan, blocks=()), by_key)

    @property
    def size(self) -> int:
        """The bytes that the state takes in memory."""
        positions = len(self.before) + len(self.unsettled)
        return _A_RECORD * len(self.winners) + _A_ROW * len(self.rows) + _A_PLACE * positions

    def leads_to(self, plan: MergePlan) -> bool:
        """Return whether a plan begins with the blocks of this state."""
        count = len(self.plan.blocks)
        return replace(plan, blocks=plan.blocks[:count]) == self.plan

    def upto(self, plan: MergePlan) -> Merged:
        """Add the blocks that a plan has beyond this state, which must lead to the plan; return the outcome.

        Cost: the keys and ordering values of these blocks; of the base file only the footer, if all keys have
        positions and the rule needs no ordering values. After an error the state must not be used any more.
        """
        first, self.plan = len(self.plan.blocks), plan
        self.changed = set() if first else None
        for number in range(first, len(plan.blocks)):
            self._add(number)
        self._settle(self.winners if self.changed is None else self.changed)
        hidden = {self._path(place): bits.copy() for place, bits in self.hidden.items()}
        return Merged(hidden, dict(self.before))

    def _path(self, place: int) -> str:
        return self.plan.path(self.plan.base or "") if place == _BASE else self.plan.slice_path(place)

    def _add(self, number: int) -> None:
        """Merge the records of a block into the state."""
        name = self.plan.blocks[number]
        path = self.plan.path(name.log)
        block = block_of(self.storage, path, name.number)
        if name.is_deletes:
            deletions = read_deletions(self.storage, path, block)
            records = (Record(*deleted, True, number, row) for row, deleted in enumerate(deletions))
            self._add_records(number, path, block, records, len(deletions))
            return
        with open_parquet(pa.BufferReader(block_parquet(self.storage, path, name.number))) as file:
            count = file.metadata.num_rows
            self.hidden[number] = BitMap(range(count))
            rows = records_of(self.storage, file, self.plan.rule, path, block, number)
            self._add_records(number, path, block, rows, count)

    def _add_records(
        self, number: int, path: str, block: LogBlock, records: Iterable[Record], count: int
    ) -> None:
        positions = None if self.by_key else self._positions(path, block, count)
        if positions is None and not self.by_key:
            self._go_on_by_key(number)
        for record in records:
            self._apply(record, record.key if positions is None else positions[record.row])

    def _go_on_by_key(self, block: int) -> None:
        """Key the winners by the keys of the records, from a block without positions on."""
        self.by_key, winners_before = True, self.winners
        self.winners = {record.key: record for record in winners_before.values()}
        if len(self.winners) != len(winners_before):
            raise self._unproven(block, "updates of two rows of one key, by position and by key")
        self.unsettled = {place: winners_before[slot].key for place, slot in self.unsettled.items()}
        self.changed = None
        self.hidden.pop(_BASE, None)

    def _apply(self, record: Record, slot: Slot) -> None:
        older = self.winners.get(slot)
        if self.plan.blocks[record.block].is_partial:
            self._complete(record, older, slot)
        if older is None or self._wins(record, older, record.block):
            self.winners[slot] = record
            if self.changed is not None:
                self.changed.add(slot)
            if older is not None and older.block in self.hidden:
                self.hidden[older.block].add(older.row)
        elif self.plan.blocks[older.block].is_partial and not record.deletes:
            raise self._unproven(record.block, "a record that is older than a partial update before it")

    def _complete(self, record: Record, older: Record | None, slot: Slot) -> None:
        """Note which row has the other columns of a partial row."""
        place = Place(record.block, record.row)
        if record.deletes or (older is not None and older.deletes):
            raise self._unproven(place.block, "a partial update and a deletion of one row")
        if older is not None and older.block == place.block:
            raise self._unproven(place.block, "two partial updates of one row in a block")
        if older is None:
            self.unsettled[place] = slot
        elif self._wins(record, older, place.block):
            self.before[place] = Place(older.block, older.row)

    def _wins(self, newer: Record, older: Record, block: int) -> bool:
        """Return whether a record replaces the older record of its key, by the merge rule of the table."""
        if not self.plan.rule.by_time:
            if self.plan.rule.contested:
                self._check_agreed(newer, older, block)
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

    def _check_agreed(self, newer: Record, older: Record, block: int) -> None:
        """Check that all releases of Hudi let a later record of the log replace an older one.

        Releases before 1.0 merge records of the log with each other by their ordering values.
        Source: OverwriteWithLatestAvroPayload, preCombine; HoodieMergedLogRecordScanner of 0.15.
        """
        values = newer.ordering, older.ordering
        if not self.plan.blocks[older.block].is_deletes and None not in values and is_less(*values):
            raise unproven(self.storage, self.plan.blocks[block].instant, _CONTESTED, _COMPACT)

    def _less(self, newer: Ordering | None, older: Ordering | None, block: int) -> bool:
        less = is_less(newer, older)
        if less is None:
            is_null = isinstance(newer, Missing) or isinstance(older, Missing)
            feature = "NULL compared with a value of an ordering column" if is_null else _OTHER_TYPES
            raise self._unproven(block, feature)
        return less

    def _positions(self, path: str, block: LogBlock, count: int) -> list[int] | None:
        """Return the base file rows that the header of a block gives; None if it gives none."""
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

    def _settle(self, slots: Collection[Slot]) -> None:
        """Hide and show rows by the winning records of some positions or keys."""
        base_wins = self._against_base(slots)
        for slot in slots:
            record = self.winners[slot]
            if slot not in base_wins and not record.deletes:
                self.hidden[record.block].discard(record.row)
            elif record.block in self.hidden:
                self.hidden[record.block].add(record.row)
        for place, slot in self.unsettled.items():
            row = self._row_of(slot)
            if row is None:
                raise self._unproven(place.block, "a partial update of a row that is not there")
            self.before[place] = Place(_BASE, row)

    def _row_of(self, slot: Slot) -> int | None:
        """Return the base file row of a position or a key; None if the base file has no such row."""
        return self.rows.get(slot) if isinstance(slot, str) else None if self.plan.base is None else slot

    def _check_positions(self, slots: Iterable[Slot], rows: int, path: str) -> None:
        """Check that the positions of records are rows of the base file."""
        for slot in slots:
            if isinstance(slot, int) and slot >= rows:
                name = self.plan.blocks[self.winners[slot].block]
                log, reason = self.plan.path(name.log), f"a position is beyond the {rows} rows of {path}"
                offset = block_of(self.storage, log, name.number).offset
                raise LogBlockError(file=log, offset=offset, reason=reason)

    def _against_base(self, slots: Collection[Slot]) -> set[Slot]:
        """Hide the rows of the base file that lose; return the positions or keys of those that win."""
        if self.plan.base is None:
            return set()
        path = self._path(_BASE)
        with named_file(self.storage, path), open_parquet(self._open(path)) as file:
            if self.by_key:
                unknown_keys = [slot for slot in slots if slot not in self.rows]
                for key, row in find_keys(file, arrow_array(unknown_keys, pa.string()), path):
                    self.rows.setdefault(key, row)
            else:
                self._check_positions(slots, file.metadata.num_rows, path)
            base_wins = self._base_wins(file, slots)
        rows_of_slots = ((slot, self._row_of(slot)) for slot in slots)
        self.hidden.setdefault(_BASE, BitMap()).update(
            row for slot, row in rows_of_slots if row is not None and slot not in base_wins
        )
        self.hidden[_BASE].difference_update(
            BitMap([row for row in map(self._row_of, base_wins) if row is not None])
        )
        return base_wins

    def _open(self, path: str) -> pa.NativeFile:
        return self.storage.open(self.storage.resolve(path))

    def _base_wins(self, file: ParquetFile, slots: Collection[Slot]) -> set[Slot]:
        """Return the positions or keys of the rows of the base file that win by their ordering values."""
        if not self.plan.rule.by_time or not self.plan.rule.ordering:
            return set()
        rows_of_slots = (
            (slot, self._row_of(slot)) for slot in slots if self.winners[slot].ordering is not None
        )
        timed = {row: slot for slot, row in rows_of_slots if row is not None}
        instant = requested_of(self.plan.base or "")
        base_wins = set[Slot]()
        for table, chosen in _rows_of_groups(file, sorted(timed), self.plan.rule.ordering):
            values = orderings(self.storage, table, self.plan.rule.ordering, instant)
            for row, value in zip(chosen, values, strict=True):
                winner = self.winners[timed[row]]
                if self._less(winner.ordering, value, winner.block):
                    base_wins.add(timed[row])
        return base_wins

    def _unproven(self, block: int, feature: str) -> UnsupportedFeatureError:
        return unproven(self.storage, self.plan.blocks[block].instant, feature)


def _rows_of_groups(
    file: ParquetFile, rows: Sequence[int], columns: Sequence[str]
) -> Iterator[tuple[pa.Table, Sequence[int]]]:
    """Yield columns of the given, ascending rows of a file, with the rows; one row group at a time."""
    start, first, stored = 0, 0, stored_of(file, columns)
    for group in range(file.metadata.num_row_groups):
        end = start + file.metadata.row_group(group).num_rows
        until = bisect_left(rows, end, first)
        if until > first:
            chosen = rows[first:until]
            table = file.read_row_group(group, stored)
            yield table.take(arrow_array([row - start for row in chosen], pa.int64())), chosen
        start, first = end, until
