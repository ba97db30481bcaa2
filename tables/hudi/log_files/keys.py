"""What merging needs of a row or of a delete block: key, ordering value, deletion.

The keys that a delete block deletes, each with its ordering value. The content is a version, a length, and an
Avro array of records: key, partition, ordering value. Releases before 0.14 write versions 1 and 2, which are
serialised Java objects and are refused. They are decoded here: fastavro counts negative branches of a union
from its end, and so reads what is damaged. Source: HoodieDeleteBlock; HoodieDeleteRecord.avsc.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import repeat
from typing import Any, NamedTuple

import pyarrow as pa

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import DataFileError, LogBlockError, UnsupportedFeatureError
from tailbit.tables import compute as pc
from tailbit.tables.hudi.log_files.blocks import LogBlock, read_span
from tailbit.tables.hudi.log_files.plan import MergeRule
from tailbit.tables.hudi.log_files.records import refused_block
from tailbit.tables.hudi.schema import META
from tailbit.tables.parquet.file import ParquetFile
from tailbit.tables.storage import Storage

KEY, MARK, OPERATION = META[2], "_hoodie_is_deleted", "_hoodie_operation"
DELETING = ("D", "-U")
"""The values of `_hoodie_operation` in rows that delete: a deletion, and the row before an update."""
_LONG_BITS, _DOUBLE_BITS = struct.Struct(">q"), struct.Struct(">d")
_NOT_A_NUMBER = 0x7FF8 << 48
_LARGEST = (1 << 63) - 1
_HINT = "Copy the rows into a COPY_ON_WRITE table, where no reader merges."


class FloatOrder(int):
    """A float or double as a whole number that sorts as Java compares: -0.0 before 0.0, and NaN last."""

    @classmethod
    def of(cls, value: float) -> FloatOrder:
        """Return the integer of a number."""
        bits: int = _NOT_A_NUMBER if value != value else _LONG_BITS.unpack(_DOUBLE_BITS.pack(value))[0]
        return cls(bits if bits >= 0 else bits ^ _LARGEST)


class Missing(int):
    """The value that stands for NULL in an ordering column: the int 0, whatever the type of the column.

    Hudi cannot compare it with values of other types: it fails if the two meet.
    """


class Millis(int):
    """An instant in milliseconds; others are in microseconds, unless a writer mislabelled them."""


class Truth(int):
    """A boolean: False is less than True."""


OneOrdering = int | str | Decimal
"""The value of one ordering column; texts sort by code points, which is the order of their UTF-8 bytes."""
Ordering = OneOrdering | tuple[OneOrdering, ...]


def is_less(first: Ordering | None, other: Ordering | None) -> bool | None:
    """Return whether an ordering value is less than another; None if the two are of different types.

    >>> is_less(FloatOrder.of(-0.0), FloatOrder.of(0.0)), is_less(1, "1")
    (True, None)
    """
    return first < other if _types(first) == _types(other) else None  # type: ignore[operator]


def _types(value: Ordering | None) -> list[type]:
    return [type(item) for item in value] if isinstance(value, tuple) else [type(value)]


class Record(NamedTuple):
    """A row of a log block. `ordering`: None for a deletion for which only the order in the log decides.

    `block`: the index of the block among the merged blocks; `row`: the row in the block.
    """

    key: str
    ordering: Ordering | None
    deletes: bool
    block: int
    row: int


def records_of(
    storage: Storage, file: ParquetFile, rule: MergeRule, path: str, block: LogBlock, number: int
) -> Iterator[Record]:
    """Yield the records of a data block in order; `number`: the index of the block among the merged blocks.

    Memory: the keys and ordering values of a row group.
    """
    names = {*file.schema_arrow.names}
    wanted, start = stored_of(file, (KEY, MARK, OPERATION, *rule.ordering)), 0
    # Releases before 1.0 take 0 if a row has no value. Source: SpillableMapUtils, getPreCombineVal.
    has_ordering = len(stored_of(file, rule.ordering)) == len(rule.ordering)
    for group in range(file.metadata.num_row_groups):
        rows = file.read_row_group(group, wanted)
        if KEY not in names or rows[KEY].null_count:
            raise LogBlockError(file=path, offset=block.offset, reason=f"a row has no {KEY}")
        values: Iterable[Ordering | None] = repeat(0, len(rows))
        if rule.by_time or (rule.contested and has_ordering):
            values = orderings(storage, rows, rule.ordering, block.instant)
        marks = _marks(rows)
        ints = (
            rule.by_time
            and len(rule.ordering) == 1
            and pa.types.is_int32(_column(rows, rule.ordering[0]).type)
        )
        numbers = range(start, start + len(rows))
        for row, key, value, mark in zip(numbers, rows[KEY].to_pylist(), values, marks, strict=True):
            wins = mark and (isinstance(value, Missing) or (ints and value == 0))
            yield Record(key, None if wins else value, mark, number, row)
        start = numbers.stop


def _marks(rows: pa.Table) -> Iterable[bool]:
    """Return for each row whether one of the two columns marks it as deleting. Source: DeleteContext."""
    there = [name for name in (MARK, OPERATION) if name in rows.column_names]
    marked = [rows[name].to_pylist() for name in there]
    if not marked:
        return repeat(False, len(rows))
    return [any(value is True or value in DELETING for value in row) for row in zip(*marked, strict=True)]


def stored_of(file: ParquetFile, columns: Iterable[str]) -> list[str]:
    """Return those of some columns that a file has; a column with a dot counts by the part before the dot."""
    names = {*file.schema_arrow.names}
    return [column for column in columns if column.partition(".")[0] in names]


def orderings(storage: Storage, rows: pa.Table, columns: Sequence[str], instant: str) -> list[Ordering]:
    """Return the ordering values of rows; tuples if there are several ordering columns."""
    by_column = [_values(storage, rows, column, instant) for column in columns]
    if len(by_column) == 1:
        return list(by_column[0])
    for column, values in zip(columns, by_column, strict=True):
        if any(isinstance(value, Missing) for value in values):
            raise unproven(storage, instant, f"NULL in {column}, one of several ordering columns")
    return list(zip(*by_column, strict=True)) if by_column else [()] * len(rows)


def _values(storage: Storage, rows: pa.Table, column: str, instant: str) -> list[OneOrdering]:
    try:
        values, types = _column(rows, column), pa.types
    except KeyError as missing:
        raise unproven(storage, instant, f"rows without the ordering column {column}") from missing
    type_ = values.type
    if types.is_int32(type_):
        values = pc.fill_null(values, 0)
    if types.is_timestamp(type_):
        if type_.unit == "ms":
            numbers = values.cast(pa.int64()).to_pylist()
            return [Missing() if value is None else Millis(value) for value in numbers]
        values = values.cast(pa.timestamp("us", type_.tz)).cast(pa.int64())
    elif types.is_date32(type_):
        values = values.cast(pa.int32())
    elif not (types.is_signed_integer(type_) or types.is_string(type_) or types.is_decimal(type_)):
        if not (types.is_float32(type_) or types.is_float64(type_)):
            if not types.is_boolean(type_):
                raise unproven(storage, instant, f"the ordering column {column} of type {type_}")
            return [Missing() if value is None else Truth(value) for value in values.to_pylist()]
        return [Missing() if value is None else FloatOrder.of(value) for value in values.to_pylist()]
    listed: list[Any] = values.to_pylist()
    return [Missing() if value is None else value for value in listed] if values.null_count else listed


def _column(rows: pa.Table, name: str) -> pa.ChunkedArray:
    """Return a column, or a field of a struct column, named after a dot."""
    root, *fields = name.split(".")
    values = rows[root]
    for field in fields:
        if not pa.types.is_struct(values.type) or values.type.get_field_index(field) < 0:
            raise KeyError(name)
        values = pc.struct_field(values, field)
    return values


def unproven(storage: Storage, version: str, feature: str, hint: str = _HINT) -> UnsupportedFeatureError:
    """Return the error that records are merged in a way that is not proven to be Hudi's."""
    return UnsupportedFeatureError(
        path=storage.root, version=version, feature=f"{feature} in MERGE_ON_READ", hint=hint
    )


def find_keys(file: ParquetFile, lookup_keys: pa.Array, path: str) -> Iterator[tuple[str, int]]:
    """Yield the wanted keys that a base file has, each with its row, in the order of the rows.

    Cost: decodes the key column, one row group at a time.
    """
    if KEY not in file.schema_arrow.names:
        raise DataFileError(file=path, reason=f"it has no column {KEY}")
    start = 0
    for group in range(file.metadata.num_row_groups):
        keys = file.read_row_group(group, [KEY])[KEY].combine_chunks()
        indexes = pc.indices_nonzero(pc.is_in(keys, value_set=lookup_keys))
        yield from zip(
            keys.take(indexes).to_pylist(), (start + index for index in indexes.to_pylist()), strict=True
        )
        start += len(keys)


_HEAD = struct.Struct(">ii")
_VERSION = 3
_NONE, _TRUTH, _INT, _LONG, _FLOAT, _DOUBLE, _TEXT, _DECIMAL, _MOMENT, _SEVERAL = (
    0,
    1,
    2,
    3,
    4,
    5,
    7,
    9,
    11,
    12,
)
"""Branches of the union of the ordering value: no value, a record with one value, or several values."""
_FLOATS = {_FLOAT: struct.Struct("<f"), _DOUBLE: struct.Struct("<d")}
_DIGITS = 15
"""Digits after the point of every decimal in a delete block."""


class Deletion(NamedTuple):
    """A deleted key. `ordering`: None if only the order in the log decides whether the deletion wins."""

    key: str
    ordering: Ordering | None


def read_deletions(storage: Storage, path: str, block: LogBlock) -> list[Deletion]:
    """Return the deletions of a delete block in their order."""
    content = read_span(storage, path, block.content, block.offset)
    try:
        version, length = _HEAD.unpack_from(content)
        if version != _VERSION:
            raise refused_block(storage, block, f"delete blocks of version {version}")
        if length != len(content) - _HEAD.size:
            raise ValueError(f"it should have {length} bytes")
        return _Reader(storage, block, content, _HEAD.size).deletions()
    except (ValueError, struct.error, IndexError) as wrong:
        reason = f"its content cannot be decoded: {wrong!r}"
        raise LogBlockError(file=path, offset=block.offset, reason=reason) from wrong


@dataclass
class _Reader:
    """A reader of the records of a delete block, at byte `at` of its content."""

    storage: Storage
    block: LogBlock
    content: bytes
    offset: int

    def deletions(self) -> list[Deletion]:
        out: list[Deletion] = []
        while count := self._long():
            if count < 0:
                count, _ = -count, self._long()
            if count > len(self.content):
                raise ValueError(f"{count} records cannot be there")
            out += [self._deletion() for _ in range(count)]
        if self.offset != len(self.content):
            raise ValueError("bytes follow the last record")
        return out

    def _deletion(self) -> Deletion:
        key, _ = self._text(), self._text()
        if key is None:
            raise ValueError("a deletion has no key")
        return Deletion(key, self._ordering())

    def _ordering(self) -> Ordering | None:
        """Return an ordering value; None if there is none, or if it is the int 0, as in Hudi."""
        branch = self._long()
        if branch == _NONE:
            return None
        if branch == _SEVERAL:
            return self._several()
        value = self._value(branch)
        return None if branch == _INT and value == 0 else value

    def _several(self) -> tuple[OneOrdering, ...]:
        """Return the ordering values of several columns."""
        values: list[OneOrdering] = []
        count = self._long() and self._long()
        while count:
            if not 0 < count <= len(self.content):
                raise ValueError(f"{count} ordering values cannot be there")
            values += [self._value(self._long()) for _ in range(count)]
            count = self._long()
        if not any(values):
            raise refused_block(self.storage, self.block, "deletions whose ordering values are all 0")
        return tuple(values)

    def _value(self, branch: int) -> OneOrdering:
        if branch in (_INT, _LONG, _MOMENT):
            return self._long()
        if branch == _TRUTH:
            return Truth(self._bytes(1) != b"\0")
        if branch in _FLOATS:
            form = _FLOATS[branch]
            (number,) = form.unpack(self._bytes(form.size))
            return FloatOrder.of(number)
        if branch == _TEXT:
            return self._bytes(self._long()).decode()
        if branch == _DECIMAL:
            return Decimal(f"{int.from_bytes(self._bytes(self._long()), 'big', signed=True)}E-{_DIGITS}")
        raise refused_block(self.storage, self.block, f"deletions with ordering values of kind {branch}")

    def _text(self) -> str | None:
        return self._bytes(self._long()).decode() if self._long() else None

    def _bytes(self, length: int) -> bytes:
        if not 0 <= length <= len(self.content) - self.offset:
            raise ValueError(f"a value of {length} bytes goes beyond the end")
        self.offset += length
        return self.content[self.offset - length : self.offset]

    def _long(self) -> int:
        """Return an integer in Avro's encoding."""
        number, shift = 0, 0
        while True:
            byte = self.content[self.offset]
            self.offset += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)
            shift += 7
            if shift > 63:
                raise ValueError("a number has more than 64 bits")
