"""Sorted keys as numbers or as texts of one width, in which many wanted keys are found at once.

Bytes that all keys of a table share are left out, and keys of eight bytes or fewer that remain are integers:
they take less memory and are compared faster. Keys of very different lengths are kept apart by length, so
that a few long keys do not make all others as long. A length is part of a key where lengths differ: without
it, texts that end with zero bytes would be equal.

Worked example: three of the four bytes differ, so that the keys become integers of eight bytes.

    keys          u-17   u-23   w-05
    shared         -      -      -
    kept          u17    u23    w05
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.base.dataclass import dataclass
from tailbit.base.once import once
from tailbit.index.keys import bytes_of, ordered_of, texts_of
from tailbit.index.postings.paged_forms import Form, sixteen_of, values_of
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, numpy_of

Matrix: TypeAlias = npt.NDArray[np.uint8]
"""Keys as rows of bytes."""

Ordered: TypeAlias = npt.NDArray[Any]
"""Keys as integers or as texts of one width, which compare as the keys do."""

_WORD = 8
_LENGTH = 2
"""Bytes that hold the length of a key."""

_SLACK = 16
"""Bytes by which each key may be longer for being as long as the longest, beside twice its own length."""


@dataclass(frozen=True, eq=False)
class LookupKeys:
    """Distinct keys to find: `codes`, their bytes, ascending, none null.

    `spans`: by segment and column, the row groups that may hold some of the keys, as `Segment.spans` says.
    """

    codes: pa.BinaryArray
    spans: dict[tuple[str, str], list[tuple[int, int, int]]] = field(default_factory=dict)

    @once
    def numbers(self) -> Longs:
        """Return keys of eight bytes as integers."""
        return numpy_of(ordered_of(self.codes))

    @once
    def uuids(self) -> tuple[Any, Mask]:
        """Return keys as sixteen bytes, and which of them are UUIDs."""
        return sixteen_of(self.codes)

    @once
    def matrix(self) -> Matrix | None:
        """Return keys as rows of bytes; None if their lengths differ."""
        lengths = _lengths(self.codes)
        alike = len(lengths) > 0 and lengths.min() == lengths.max()
        return _matrix(self.codes, int(lengths[0]), False) if alike else None

    def pages(self, form: Form, lows: pa.Array, low: int, high: int) -> Longs:
        """Return for the keys `[low, high)` the page that may hold each, ascending; some keys have none.

        `lows`: the least key of each page, in the form `form`. The first page may begin with NULL's posting.
        """
        if form is Form.NUMBER:
            indexes = np.searchsorted(numpy_of(lows), self.numbers[low:high], side="right")
        elif form is Form.UUID:
            values, are = self.uuids
            indexes = np.searchsorted(values_of(lows), values[low:high][are[low:high]], side="right")
        else:
            codes = self.codes.slice(low, high - low)
            width = max(int(_lengths(codes).max(initial=0)), int(_lengths(lows).max(initial=0)))
            begins, texts = (_text(_matrix(keys, width, True)) for keys in (lows, codes))
            indexes = np.searchsorted(begins, texts, side="right")
        pages: Longs = np.maximum(indexes - 1, 0)
        return pages


def ascending(keys: pa.BinaryArray) -> tuple[Longs, Mask]:
    """Return the order of keys, and which of the ordered keys is equal to the one before it.

    Equal keys stay in their order. `keys`: none null.
    """
    if not len(keys):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.bool_)
    lengths = _lengths(keys)
    values = _keys_of_similar_length(keys, lengths, None).values if lengths.min() == lengths.max() else None
    if values is not None and values.dtype.kind == "u":
        order = order_of(values)
        values = values[order]
        same = np.r_[False, values[1:] == values[:-1]]
    else:
        order = numpy_of(pc.sort_indices(keys)).astype(np.int64)
        listed = pc.take(keys, arrow_array(order))
        same = np.r_[False, numpy_of(pc.equal(listed.slice(1), listed.slice(0, len(listed) - 1)))]
    return order, same


def order_of(values: npt.NDArray[np.uint64]) -> Longs:
    """Return the order of some integers; equal ones stay in theirs."""
    every, least = int(np.bitwise_or.reduce(values)), values.min()
    # Keys of fewer than eight bytes end with zeros.
    low = (every & -every).bit_length() - 1 if every else 0
    high = int(values.max() - least).bit_length()
    if high - low > _MOST_DIGITS * _DIGIT:
        return np.argsort(values, kind="stable").astype(np.int64)
    return order_by_digits((values - least).view(np.int64), low, high)


def order_by_digits(numbers: Longs, low: int, high: int) -> Longs:
    """Return the order of numbers by their bits `[low, high)`; those with equal bits stay in theirs.

    Cost: sixteen bits at a time, which numpy sorts by counting, in half the time of a sort or less.
    """
    order = np.argsort((numbers >> low).astype(np.uint16), kind="stable")
    for shift in range(low + _DIGIT, high, _DIGIT):
        order = order[np.argsort((numbers >> shift).astype(np.uint16)[order], kind="stable")]
    return order


_DIGIT, _MOST_DIGITS = 16, 3
"""Bits by which numpy sorts by counting; a sort by more than three such digits takes longer than another."""


def keys_at(keys: pa.BinaryArray, rows: Longs) -> pa.BinaryArray:
    """Return some keys, none null, in the order of `rows`; those of one length in a fifth of the time."""
    offsets, data = bytes_of(keys)
    width = int(offsets[1] - offsets[0]) if len(keys) else 0
    if not width or not (np.diff(offsets) == width).all():
        return pc.take(keys, arrow_array(rows))
    ends = np.arange(len(rows) + 1, dtype=np.int32) * np.int32(width)
    return texts_of(ends, data.view(f"V{width}")[rows])


class _Numbers(NamedTuple):
    """Keys that are stored as integers."""

    def comparable(
        self, keys: LookupKeys, stored: Ordered, low: int, high: int
    ) -> tuple[Ordered, Ordered] | None:
        return keys.numbers[low:high], stored

    def of(self, lookup: LookupKeys, low: int, high: int) -> tuple[Longs, Ordered]:
        return np.arange(low, high), lookup.numbers[low:high]


class _Uuids(NamedTuple):
    """Keys that are stored as the sixteen bytes of UUIDs."""

    def comparable(
        self, keys: LookupKeys, stored: Ordered, low: int, high: int
    ) -> tuple[Ordered, Ordered] | None:
        values, uuids = keys.uuids
        return (values[low:high], stored) if uuids[low:high].all() else None

    def of(self, lookup: LookupKeys, low: int, high: int) -> tuple[Longs, Ordered]:
        values, are = lookup.uuids
        owners = low + np.flatnonzero(are[low:high])
        return owners, values[owners]


class _Texts(NamedTuple):
    """Keys of `least` to `most` bytes, filled up with zeros to the longest.

    `kept`: mask of the bytes that are not the same in all keys; `shared`: the other bytes.
    """

    least: int
    most: int
    varying: Mask
    shared: Matrix

    @property
    def varies(self) -> bool:
        """Whether lengths differ."""
        return self.least < self.most

    def comparable(
        self, keys: LookupKeys, stored: Ordered, low: int, high: int
    ) -> tuple[Ordered, Ordered] | None:
        """Return the wanted and the stored keys as texts of one width; None if their widths differ."""
        if keys.matrix is None or self.varies or keys.matrix.shape[1] != self.most or not self.most:
            return None
        bytes_ = np.empty((len(stored), self.most), dtype=np.uint8)
        bytes_[:, ~self.varying] = self.shared
        texts = stored if stored.dtype.kind == "S" else stored.astype(">u8")
        width = int(self.varying.sum())
        bytes_[:, self.varying] = texts.view(np.uint8).reshape(len(texts), texts.itemsize)[:, :width]
        return _text(keys.matrix[low:high]), _text(bytes_)

    def of(self, lookup: LookupKeys, low: int, high: int) -> tuple[Longs, Ordered]:
        """Return the indices of those wanted keys that may be among the keys, and the keys as these are."""
        owners, bytes_ = np.arange(low, high), lookup.matrix
        if bytes_ is None or self.varies or bytes_.shape[1] != self.most:
            codes = lookup.codes.slice(low, high - low)
            lengths = _lengths(codes)
            fit = (lengths >= self.least) & (lengths <= self.most)
            if not fit.all():
                codes, owners = pc.filter(codes, arrow_array(fit)), owners[fit]
            bytes_ = _matrix(codes, self.most, self.varies)
        else:
            bytes_ = bytes_[low:high]
        if not self.varying.all():
            same = (bytes_[:, ~self.varying] == self.shared).all(axis=1)
            owners, bytes_ = owners[same], bytes_[same]
        return owners, _ordered(bytes_, self.varying)


class _Filter(NamedTuple):
    """What makes searches of many keys cheap: a Bloom filter of one hash, and every sixteenth key.

    Most lookups ask in several segments for keys that are in one: most keys that are not there are told apart
    without a search. `bits`: packed, eight and more to a key. `steps`: so few keys that a search among them
    stays in the processor's cache; the four halvings that are left are done for all wanted keys at once.
    """

    bits: npt.NDArray[np.uint8]
    shift: np.uint64
    steps: Ordered

    @classmethod
    def of(cls, values: Ordered) -> _Filter:
        """Return the filter of some keys."""
        width = (_BITS_A_KEY * len(values) - 1).bit_length()
        shift = np.uint64(64 - width)
        set_ = np.zeros(1 << width, dtype=np.bool_)
        set_[_hashes(values) >> shift] = True
        return cls(np.packbits(set_, bitorder="little"), shift, values[:: 1 << _HALVINGS].copy())

    def pass_(self, values: Ordered) -> Longs:
        """Return the indices of those of some keys that may be there."""
        numbers = (_hashes(values) >> self.shift).view(np.int64)
        bits = self.bits.take(numbers >> 3) >> (numbers & 7).astype(np.uint8)
        return np.flatnonzero((bits & np.uint8(1)).view(np.bool_))

    def search(self, values: Ordered, keys: Ordered) -> Longs:
        """Return for each of some keys the row of the last value that is not larger, or 0."""
        rows: Longs = np.maximum(np.searchsorted(self.steps, keys, side="right") - 1, 0) << _HALVINGS
        for step in (1 << halving for halving in reversed(range(_HALVINGS))):
            rows += (values.take(rows + step, mode="clip") <= keys) * step
        return np.minimum(rows, len(values) - 1, out=rows)


_BITS_A_KEY = 8
_HALVINGS = 4
_MANY = 1 << 12
"""Keys among which a search costs more than a filter."""


def _hashes(values: Ordered) -> npt.NDArray[np.uint64]:
    """Return a hash of the first eight bytes of each key."""
    if values.dtype.kind == "S":
        width = min(values.dtype.itemsize, _WORD)
        heads = values.view(np.uint8).reshape(len(values), -1)[:, :width]
        words = np.zeros((len(values), _WORD), dtype=np.uint8)
        words[:, :width] = heads
        values = words.view(np.uint64)[:, 0]
    hashes: npt.NDArray[np.uint64] = values.view(np.uint64) * _ODD
    return hashes


_ODD = np.uint64(0x9E3779B97F4A7C15)
"""Multiplication by this number spreads neighbouring numbers over the highest bits."""


class _SimilarKeys(NamedTuple):
    """Some of the keys: `values`, ascending; `rows`, int32, their numbers, None if these are all keys."""

    form: _Numbers | _Uuids | _Texts
    values: Ordered
    rows: npt.NDArray[np.int32] | None
    filter: _Filter | None = None

    def with_filter(self) -> _SimilarKeys:
        """Return the part with a filter, if the keys are many."""
        return self if len(self.values) < _MANY else self._replace(filter=_Filter.of(self.values))


class SortedKeys(NamedTuple):
    """Distinct keys in ascending order, none null."""

    groups: tuple[_SimilarKeys, ...]

    @classmethod
    def of(cls, keys: pa.Array) -> SortedKeys:
        """Wrap keys as they are stored: integers, the sixteen bytes of UUIDs, or bytes."""
        if pa.types.is_int64(keys.type):
            return cls((_SimilarKeys(_Numbers(), numpy_of(keys), None),))
        if pa.types.is_fixed_size_binary(keys.type):
            return cls((_SimilarKeys(_Uuids(), values_of(keys), None),))
        lengths = _lengths(keys)
        classes = _classes(lengths)
        if classes is None:
            return cls((_keys_of_similar_length(keys, lengths, None),))
        groups = [np.flatnonzero(classes == number) for number in np.unique(classes).tolist()]
        return cls(
            tuple(
                _keys_of_similar_length(pc.take(keys, arrow_array(rows)), lengths[rows], rows)
                for rows in groups
            )
        )

    def find(self, lookup: LookupKeys, low: int, high: int) -> tuple[Longs, Longs]:
        """Return the indices of those of the wanted keys `[low, high)` that are here, and where they are.

        Cost: a binary search of each wanted key, all at once.
        """
        hits = [_hits(group, lookup, low, high) for group in self.groups]
        if len(hits) == 1:
            return hits[0]
        owners, rows = (
            np.concatenate([np.zeros(0, dtype=np.int64), *arrays]) for arrays in zip(*hits, strict=True)
        )
        return owners, rows

    def with_filters(self) -> SortedKeys:
        """Return the keys with filters, for keys that are asked for again and again."""
        return SortedKeys(tuple(group.with_filter() for group in self.groups))

    @property
    def size(self) -> int:
        """Return the bytes of memory that the keys take."""
        arrays = [
            array
            for group in self.groups
            for array in (group.values, group.rows, *(() if group.filter is None else group.filter))
        ]
        return sum(array.nbytes for array in arrays if array is not None)


def _hits(group: _SimilarKeys, lookup: LookupKeys, low: int, high: int) -> tuple[Longs, Longs]:
    fewer = group.form.comparable(lookup, group.values, low, high) if len(group.values) < high - low else None
    if fewer is not None:
        # The stored keys are the fewer ones: each of them is looked for.
        rows, indices = _searched(*fewer)
        return low + indices, rows if group.rows is None else group.rows[rows].astype(np.int64)
    owners, values = group.form.of(lookup, low, high)
    if not len(group.values) or not len(owners):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    if group.filter is None:
        there, rows = _searched(group.values, values)
    else:
        likely = group.filter.pass_(values)
        owners, values = owners[likely], values[likely]
        there, rows = _equal(group.values, values, group.filter.search(group.values, values))
    return owners[there], rows if group.rows is None else group.rows[rows].astype(np.int64)


def _searched(values: Ordered, keys: Ordered) -> tuple[Longs, Longs]:
    """Return the indices of those of the keys that are among the values, and the rows of these values."""
    return _equal(values, keys, np.minimum(np.searchsorted(values, keys), len(values) - 1))


def _equal(values: Ordered, keys: Ordered, rows: Longs) -> tuple[Longs, Longs]:
    """Return the indices of the keys that equal the values in `rows`, one a key, and the rows of these."""
    indices = np.flatnonzero(values[rows] == keys)
    return indices, rows[indices]


def _keys_of_similar_length(keys: pa.BinaryArray, lengths: Longs, rows: Longs | None) -> _SimilarKeys:
    """Return keys of similar lengths with the bytes that differ."""
    least, most = (int(lengths.min()), int(lengths.max())) if len(lengths) else (0, 0)
    bytes_ = _matrix(keys, most, least < most)
    first = bytes_[:1]
    varying = np.bitwise_or.reduce(bytes_ ^ first, axis=0, initial=0) != 0
    form = _Texts(least, most, varying, bytes_[0][~varying] if len(bytes_) else bytes_[:0, ~varying])
    return _SimilarKeys(form, _ordered(bytes_, varying), None if rows is None else rows.astype(np.int32))


def _classes(lengths: Longs) -> Longs | None:
    """Return a class for each length, so that lengths of a class are alike; None if all are alike enough."""
    most = int(lengths.max(initial=0))
    if len(lengths) * most <= 2 * int(lengths.sum()) + _SLACK * len(lengths):
        return None
    return np.ceil(np.log2(np.maximum(lengths, _SLACK))).astype(np.int64)


def _lengths(keys: pa.BinaryArray) -> Longs:
    return np.diff(bytes_of(keys)[0])


def _matrix(keys: pa.BinaryArray, width: int, with_length: bool) -> Matrix:
    """Return keys of at most `width` bytes as rows of bytes, with their lengths behind them if asked for."""
    offsets, data = bytes_of(keys)
    lengths = np.diff(offsets)
    if not with_length and width and len(data) == width * len(keys):
        return data.reshape(-1, width)
    out = np.zeros((len(keys), width + _LENGTH * with_length), dtype=np.uint8)
    out[:, :width][np.arange(width) < lengths[:, None]] = data
    if with_length:
        out[:, width:] = lengths.astype(">u2").view(np.uint8).reshape(-1, _LENGTH)
    return out


def _ordered(bytes_: Matrix, varying: Mask) -> Ordered:
    """Return the kept bytes of each row as an integer, or as a text if they are many."""
    own = bytes_ if varying.all() else bytes_[:, varying]
    if own.shape[1] > _WORD:
        return _text(own)
    words = np.zeros((len(own), _WORD), dtype=np.uint8)
    words[:, : own.shape[1]] = own
    return words.view(">u8")[:, 0].astype(np.uint64)


def _text(bytes_: Matrix) -> Ordered:
    """Return each row as a text of its width."""
    texts: Ordered = np.ascontiguousarray(bytes_).view(f"S{bytes_.shape[1]}")[:, 0]
    return texts
