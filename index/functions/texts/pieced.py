"""Texts built of pieces of bounded width (digits, names, hexadecimal): a table with a column per byte."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.index.functions.texts.buffers import HEX_OF_BYTE, Bytes, texts_of

Piece = tuple[Bytes, Mask | None]
"""A table with a row of bytes per text, and the mask of the bytes that belong to the text; None for all."""


def digits(numbers: Longs, least: int, most: int) -> Piece:
    """Return numbers (not negative) in `most` digits; leading zeros are kept up to `least` digits.

    >>> table, kept = digits(np.array([7, 12, 345]), 2, 3)
    >>> [row[there].tobytes() for row, there in zip(table, kept, strict=True)]
    [b'07', b'12', b'345']
    """
    table = np.empty((len(numbers), most), np.uint8)
    rest = numbers
    for column in range(most - 1, -1, -1):
        table[:, column] = rest % 10 + ord("0")
        rest = rest // 10
    if least == most:
        return table, None
    kept = np.ones(table.shape, np.bool_)
    for column in range(most - least):
        kept[:, column] = numbers >= 10 ** (most - 1 - column)
    return table, kept


def named(names: Sequence[str], at: Longs) -> Piece:
    """Return the name at each index of a list."""
    encoded = [name.encode() for name in names]
    width = max(map(len, encoded))
    table = np.frombuffer(b"".join(name.ljust(width) for name in encoded), np.uint8).reshape(
        len(names), width
    )
    if all(len(name) == width for name in encoded):
        return table.take(at, axis=0), None
    kept = np.arange(width) < np.array([[len(name)] for name in encoded])
    return table.take(at, axis=0), kept.take(at, axis=0)


def hexadecimal(numbers: Longs) -> Piece:
    """Return the 64 bits of numbers as hexadecimal text without leading zeros."""
    table = HEX_OF_BYTE[numbers.astype(">i8").view(np.uint8)].view(np.uint8).reshape(len(numbers), 16)
    kept = np.logical_or.accumulate(table != ord("0"), axis=1)
    kept[:, -1] = True
    return table, kept


def side_by_side(pieces: Sequence[Piece]) -> Piece:
    """Concatenate the pieces of each text."""
    table = np.concatenate([table for table, _ in pieces], axis=1)
    if all(kept is None for _, kept in pieces):
        return table, None
    masks = [np.ones(table.shape, np.bool_) if kept is None else kept for table, kept in pieces]
    return table, np.concatenate(masks, axis=1)


def texts_of_pieces(pieces: Sequence[Piece], null: Mask) -> pa.Array:
    """Concatenate the pieces of each text to a text; NULL where `null`. No pieces give empty texts."""
    if not pieces:
        return texts_of(np.zeros(len(null) + 1, np.int64), np.zeros(0, np.uint8), null)
    table, kept = side_by_side(pieces) if len(pieces) > 1 else pieces[0]
    if kept is None:
        return texts_of(np.arange(len(null) + 1) * table.shape[1], table.reshape(-1), null)
    places = np.zeros(len(null) + 1, np.int64)
    np.cumsum(kept.sum(axis=1), out=places[1:])
    return texts_of(places, table[kept], null)
