"""The keys that a delete block deletes, each with its ordering value.

The content is a version, a length, and an Avro array of records: key, partition, ordering value. Releases
before 0.14 write versions 1 and 2, which are serialised Java objects and are refused. Source:
HoodieDeleteBlock; HoodieDeleteRecord.avsc.
"""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import NamedTuple

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import LogBlockError
from tailbit.tables.hudi.log_files.blocks import LogBlock, read_span
from tailbit.tables.hudi.log_files.keys import FloatOrder, OneOrdering, Ordering, Truth
from tailbit.tables.hudi.log_files.records import refused_block
from tailbit.tables.storage import Storage

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
    """Return the deletions of a delete block in their order.

    Raises:
        FileNotFoundError: the log file is gone.
        LogBlockError: the content is damaged.
        UnsupportedFeatureError: the block is in a form of older releases, or orders by a type whose order is
            not proven.
    """
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
    at: int

    def deletions(self) -> list[Deletion]:
        out: list[Deletion] = []
        while count := self._long():
            if count < 0:
                count, _ = -count, self._long()
            if count > len(self.content):
                raise ValueError(f"{count} records cannot be there")
            out += [self._deletion() for _ in range(count)]
        if self.at != len(self.content):
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
        if not 0 <= length <= len(self.content) - self.at:
            raise ValueError(f"a value of {length} bytes goes beyond the end")
        self.at += length
        return self.content[self.at - length : self.at]

    def _long(self) -> int:
        """Return an integer in Avro's encoding."""
        number, shift = 0, 0
        while True:
            byte = self.content[self.at]
            self.at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)
            shift += 7
            if shift > 63:
                raise ValueError("a number has more than 64 bits")
