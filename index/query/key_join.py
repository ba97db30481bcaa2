"""A join of rows with keys: for each of many rows, the key that it holds.

Every column becomes numbers: those of numbers and times count from the least key on, that of a text is its
place among the keys' texts. They are the digits of one number, so that a key of any shape is an integer.
Integers that lie close together index an array; others, and texts that are a whole key, are joined by hash.

Worked example: keys of (carrier, flight), and rows of which the first holds the second key.

    carriers   UA, DL         digits 0 and 1
    flights    6 to 8         digits 0 to 2
    keys       (UA, 8) 2      (DL, 6) 3
    rows       (DL, 6) 3      (UA, 7) 1      (AA, 6) -1
    owners             1             -1              -1
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.base.dataclass import dataclass
from tailbit.base.once import once
from tailbit.index.keys import decimal_longs, encode_array, is_textual, ordered_ints, scale_of
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, filled, in_one, numpy_of
from tailbit.tables.parquet.assembly import polars

MANY = 1 << 16
"""Keys that are worth the time to load Polars, which joins them in two thirds of the time of Arrow."""

_WIDEST = 1 << 62
"""Numbers of keys are at most this."""

_SPARSE = 16
"""Entries of an array that numbers index, at most, for each key or for each row that is looked for."""

_BLOCK = 1 << 17
"""Rows that are joined together with a table of keys: their arrays stay in a cache."""

Arrow: TypeAlias = pa.Array | pa.ChunkedArray


@dataclass(frozen=True, eq=False)
class KeyJoin:
    """Keys without NULL. `key_types`: those of the columns; `values`: per column, its value in each key."""

    key_types: Sequence[str]
    values: Sequence[pa.Array]

    @once
    def is_distinct(self) -> bool:
        """Return whether no two keys are equal."""
        return self._joined[1].is_distinct

    def owners(self, rows: Sequence[Arrow]) -> Longs:
        """Return for each row the index (int64) of its key, or -1, as for a row with a NULL.

        `rows`: per column its values, in the type that it has in the table. The keys are distinct.
        """
        valid = [numpy_of(pc.is_valid(values)) for values in rows if values.null_count]
        if valid:
            whole = np.logical_and.reduce(valid)
            owners = np.full(len(whole), -1, dtype=np.int64)
            owners[whole] = self.owners([pc.filter(values, arrow_array(whole)) for values in rows])
            return owners
        digits, numbering = self._joined
        numbers = digits[0].of(rows[0])
        for digit, values in zip(digits[1:], rows[1:], strict=True):
            numbers = digit.appended(numbers, values)
        return numbering.of(numbers)

    def matches(self, rows: pa.Table) -> tuple[Longs, Longs]:
        """Return the indices of keys that rows hold, and of these rows; `rows`: the key columns, in order."""
        size = _BLOCK if self._joined[1].is_kept else max(1, len(rows))
        owners, indices = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        for start in range(0, len(rows), size):
            block = self.owners(rows.slice(start, size).columns)
            matches = np.flatnonzero(block >= 0)
            owners.append(block[matches])
            indices.append(matches + start)
        return np.concatenate(owners), np.concatenate(indices)

    @once
    def _joined(self) -> tuple[Sequence[_Digit], _Numbering]:
        """Return the digits of the numbers of keys, and the keys by these numbers."""
        (first, values), *others = zip(self.key_types, self.values, strict=True)
        digit = _Digit.among(first, values, not others)
        digits, numbers, width = [digit], digit.of(values), digit.width
        for key_type, values in others:
            digit = _Digit.among(key_type, values, False)
            if width * digit.width > _WIDEST:
                some = np.unique(numbers)
                digit, width = digit._replace(before=_Numbering(arrow_array(some))), len(some)
            digits.append(digit)
            numbers, width = digit.appended(numbers, values), width * digit.width
        return digits, _Numbering(numbers if isinstance(numbers, pa.Array) else arrow_array(numbers), width)


@dataclass(frozen=True, eq=False)
class _Numbering:
    """Values, none null, numbered in their order; `width`: they are whole numbers and less; 0 if unknown."""

    values: pa.Array
    width: int = 0

    @once
    def _table(self) -> npt.NDArray[np.int32]:
        """Return the index of each number up to the width, from 1 on; 0 for numbers of no value, and last."""
        table = np.zeros(self.width + 1, dtype=np.int32)
        table[numpy_of(self.values)] = np.arange(1, len(self.values) + 1, dtype=np.int32)
        return table

    def is_dense(self, rows: int = 0) -> bool:
        """Return whether an array of all numbers up to the width pays: for many values, or for many rows."""
        return 0 < self.width <= _SPARSE * max(len(self.values), rows)

    @once
    def is_distinct(self) -> bool:
        """Return whether no two values are equal."""
        if self.is_dense():
            return np.array_equal(self._table[numpy_of(self.values)], np.arange(1, len(self.values) + 1))
        if self._hashed is not None and self._hashed.are_distinct:
            return True
        return len(pc.unique(self.values)) == len(self.values)

    @property
    def is_kept(self) -> bool:
        """Return whether the table of values is made once; else each call of `of` makes one."""
        return self.is_dense() or self._hashed is not None

    def of(self, values: Arrow | Longs) -> Longs:
        """Return the index (int64) of each of some values, or -1; a value -1 is no number up to the width."""
        if self.is_dense(len(values)):
            indices = self._table.take(values).astype(np.int64)
            indices -= 1
            return indices
        values = arrow_array(values) if isinstance(values, np.ndarray) else values
        if self._hashed is None or not self._hashed.are_distinct:
            return numpy_of(filled(pc.index_in(values, value_set=self.values), -1), dtype=np.int64)
        return self._hashed.indices(values)

    @once
    def _hashed(self) -> _Hashed | None:
        """Return the values by hash, where there are enough of them to load Polars for; else None."""
        library = polars() if len(self.values) >= MANY else None
        return None if library is None else _Hashed(library, library.from_arrow(self.values))


@dataclass(frozen=True, eq=False)
class _Hashed:
    """Values by hash. `values`: a Polars series, and `library` is Polars.

    A value stands in the slot of a table that its hash selects: half of the hash above its index from 1 on.
    Values that find it taken, a fifth at most, stand in the next table. At the end the values are compared.
    """

    library: Any
    values: Any

    @once
    def _tables(self) -> Sequence[tuple[_Slots, _Words]]:
        """Return the tables and their slots; none where two values have one slot and one half of a hash."""
        tables = list[tuple[_Slots, _Words]]()
        every, rest = _hashes(self.values), np.arange(1, len(self.values) + 1, dtype=np.uint32)
        while len(rest):
            slots = _Slots(len(tables), 64 - max(6, (2 * len(rest) - 1).bit_length()))
            table = np.zeros(1 << (64 - slots.shift), dtype=np.uint64)
            hashes = every[rest - 1]
            selected = slots.of(hashes)
            table[selected] = hashes << _HALF | rest
            tables.append((slots, table))
            stored = table[selected]
            lost = stored.astype(np.uint32) != rest
            if (lost & _is_half(stored, hashes)).any():
                return ()
            rest = rest[lost]
        return tables

    @property
    def are_distinct(self) -> bool:
        """Return whether no two values have one slot and one half of a hash."""
        return bool(self._tables)

    def indices(self, values: Arrow) -> Longs:
        """Return the index (int64) of each of some values, or -1."""
        series = self.library.from_arrow(values)
        hashes = _hashes(series)
        indices, rows = np.zeros(len(hashes), dtype=np.int64), np.arange(len(hashes))
        for slots, table in self._tables:
            stored = table.take(slots.of(hashes))
            equal = _is_half(stored, hashes)
            indices[rows] = np.where(equal, stored.astype(np.uint32), 0)
            others = np.flatnonzero((stored != 0) & ~equal)
            rows, hashes = rows[others], hashes[others]
        indices -= 1
        matches = np.flatnonzero(indices >= 0)
        equal = (self.values.gather(indices[matches]) == series.gather(matches)).to_numpy()
        indices[matches[~equal]] = -1
        return indices


_Words: TypeAlias = npt.NDArray[np.uint64]

_HALF = np.uint64(32)
"""Bits of half a hash."""


def _is_half(stored: _Words, hashes: _Words) -> Mask:
    """Return whether the upper half of each entry of a table is the lower half of a hash."""
    same: Mask = (stored >> _HALF).astype(np.uint32) == hashes.astype(np.uint32)
    return same


def _hashes(series: Any) -> _Words:
    hashes: _Words = series.hash().to_numpy()
    return hashes


class _Slots(NamedTuple):
    """The slots of a table: the product of a hash with an odd number, without its last `shift` bits."""

    turn: int
    shift: int

    def of(self, hashes: _Words) -> Longs:
        """Return the slot of each hash."""
        odd = np.uint64((0x9E3779B97F4A7C15 * (2 * self.turn + 1)) % (1 << 64))
        slots: Longs = ((hashes * odd) >> np.uint64(self.shift)).view(np.int64)
        return slots


class _Digit(NamedTuple):
    """What makes a number of a column's value: a digit from 0 to `width` - 1, or -1 for a value of no key.

    `least`: the value of digit 0. None for values that are not counted: `numbering` has the digits of those,
    or is None if values are a whole key and joined as they are. `before`: numbering of the numbers of the
    digits before this one, where these numbers are too large to append a digit.
    """

    key_type: str
    width: int
    least: int | None = None
    numbering: _Numbering | None = None
    before: _Numbering | None = None

    @classmethod
    def among(cls, key_type: str, keys: pa.Array, alone: bool) -> _Digit:
        """Return what makes digits of the values of some keys; `alone`: the keys have no other column."""
        if not is_textual(key_type) and len(keys):
            numbers, are_numbers = _numbers(key_type, keys)
            least, most = int(numbers.min()), int(numbers.max())
            if are_numbers is None and most - least < _WIDEST:
                return cls(key_type, most - least + 1, least)
        if alone:
            return cls(key_type, 0)
        numbering = _Numbering(pc.unique(_values(key_type, keys)))
        return cls(key_type, len(numbering.values), None, numbering)

    def of(self, values: Arrow) -> Longs | Arrow:
        """Return the digit of each value, or -1; of keys of one column that are not counted, the value."""
        if self.least is None:
            joined = _values(self.key_type, values)
            return joined if self.numbering is None else self.numbering.of(joined)
        numbers, are_numbers = _numbers(self.key_type, values)
        digits = numbers.view(np.uint64) - np.uint64(self.least % (1 << 64))
        beyond = digits >= self.width
        if are_numbers is not None:
            beyond |= ~are_numbers
        digits[beyond] = _NONE
        return digits.view(np.int64)

    def appended(self, numbers: Longs, values: Arrow) -> Longs:
        """Return numbers with the digit of each value appended; -1 if there is none of either."""
        if self.before is not None:
            numbers = self.before.of(numbers)
        digits = self.of(values)
        longer: Longs = numbers * self.width + digits
        longer[(numbers < 0) | (digits < 0)] = -1
        return longer


_NONE = np.uint64((1 << 64) - 1)
"""The bits of -1."""


def _numbers(key_type: str, values: Arrow) -> tuple[Longs, Mask | None]:
    """Return values as integers in their order, and which of them are these; None if all are.

    `values`: no texts. Decimals are integers of their scale, where 64 bits hold them.
    """
    whole, scale = in_one(values), scale_of(key_type)
    return (ordered_ints(whole, key_type), None) if scale is None else decimal_longs(whole, scale)


def _values(key_type: str, values: Arrow) -> Arrow:
    """Return values as Arrow's integers or bytes, which are equal where the values are."""
    if is_textual(key_type):
        return pc.cast(values, pa.binary())
    if scale_of(key_type) is not None:
        return encode_array(values, key_type)
    return arrow_array(ordered_ints(in_one(values), key_type))
