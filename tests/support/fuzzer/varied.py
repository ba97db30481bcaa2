"""A hand-made table with larger files, and columns of many values beside those of a few at the edges."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from support.fuzzer.built import BuiltHistory
from support.fuzzer.columns import DATE, STRING, TIMESTAMP, UTC, Field, pool, random_values
from support.predicates import LONG

_DAY = datetime.datetime.fromisoformat("2000-01-01")


class VariedHistory(BuiltHistory):
    """Now and then a data file has some hundred rows; a third of its columns are drawn far and wide."""

    def rows(self, count: int) -> pa.Table:
        """Random rows for a data file of today."""
        if self.rng.random() < 0.2:
            count *= self.rng.choice((4, 20))
        stored = self.shape.stored()
        columns = [
            wide_values(self.rng, f, count)
            if self.rng.random() < 0.3 and not f.fields
            else random_values(self.rng, f, count)
            for f in stored
        ]
        return pa.table(columns, names=[f.physical for f in stored])


def wide_values(rng: random.Random, field: Field, count: int) -> pa.Array:
    """Values of a column from all over its type, or near to each other; one in eight is NULL."""
    make, near = _maker(field.type), rng.random() < 0.5
    drawn = [None if rng.random() < 0.125 else make(rng, near) for _ in range(count)]
    return pa.array(drawn, field.type)


def _maker(type_: pa.DataType) -> Callable[[random.Random, bool], Any]:
    """What makes one value of a type; the second argument asks for one near to others."""
    if pa.types.is_integer(type_):
        most = 2 ** (type_.bit_width - 1) - 1
        return lambda rng, near: rng.randint(-60, 60) if near else rng.randint(-most - 1, most)
    if pa.types.is_floating(type_):
        return lambda rng, near: float(np.float32(rng.gauss(0, 1) if near else rng.uniform(-1e9, 1e9)))
    if pa.types.is_decimal(type_):
        return lambda rng, near: _decimal(rng, type_, min(4, type_.precision) if near else type_.precision)
    if type_ == DATE:
        return lambda rng, near: _moment(rng, near).date()
    if pa.types.is_timestamp(type_):
        zone = UTC if type_ == TIMESTAMP else None
        return lambda rng, near: _moment(rng, near).replace(tzinfo=zone)
    if type_ == STRING:
        return lambda rng, near: LONG * near + str(rng.randint(0, 200))
    if type_ == pa.binary():
        return lambda rng, near: LONG.encode() * near + rng.randbytes(1)
    return lambda rng, near: rng.choice(pool(type_))


def _decimal(rng: random.Random, type_: pa.DataType, digits: int) -> Decimal:
    whole = rng.randint(0, 10**digits - 1)
    return Decimal((rng.randint(0, 1), tuple(map(int, str(whole))), -type_.scale))


def _moment(rng: random.Random, near: bool) -> datetime.datetime:
    if near:
        return _DAY + datetime.timedelta(seconds=rng.randint(0, 40 * 86_400))
    return _DAY + datetime.timedelta(
        days=rng.randint(-36_000, 36_000), microseconds=rng.randint(0, 86_399_999_999)
    )
