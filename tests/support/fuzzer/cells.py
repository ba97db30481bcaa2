"""A history of a table with columns of every type, in rows that mix their edge values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from support.function_cells import COLUMNS
from support.fuzzer.columns import STRING, Field, random_values
from support.fuzzer.model import Shape
from support.fuzzer.varied import VariedHistory
from support.implications import SCHEMA, TABLE, pool
from support.nested_cells import NESTED_COLUMNS
from tailbit.index.functions.vectors import from_canonical

NESTED = ("tags", "ai", "al", "ad", "m", "mi", "j")
PARTITIONS = ("b", "bo", "dt", "i", "s")
_TYPES = {column.id: column for column in SCHEMA.columns}
_DAYS, _MICROSECONDS = (-719_162, 2_932_896), 86_400_000_000


class CellsHistory(VariedHistory):
    """A hand-made table with the columns of `function_cells`, in rows that mix their values."""

    def random_shape(self, mapping: str) -> Shape:
        """The columns in any order, at most two of them partition columns."""
        types = {name: type_ for name, (_, type_, _) in {**COLUMNS, **NESTED_COLUMNS}.items()}
        fields = [self.new_field(name, types[name], mapping) for name in (*COLUMNS, *NESTED)]
        inner = (("city", STRING), ("zip", pa.int32()), ("labels", pa.list_(STRING)))
        inside = tuple(self.new_field(name, type_, mapping) for name, type_ in inner)
        fields.append(replace(self.new_field("st", pa.struct([]), mapping), fields=inside))
        self.rng.shuffle(fields)
        parts = self.rng.sample(PARTITIONS, self.rng.choice((0, 1, 1, 2)))
        fields.sort(key=lambda field: field.name in parts)
        return Shape(tuple(fields), tuple(f.name for f in fields if f.name in parts), mapping=mapping)

    def rows(self, count: int) -> pa.Table:
        """Random rows: edges, values near to others, or few distinct ones."""
        if self.rng.random() < 0.3:
            count *= self.rng.choice((3, 8))
        stored = self.shape.stored()
        return pa.table([self._values(field, count) for field in stored], names=[f.physical for f in stored])

    def _values(self, field: Field, count: int) -> pa.Array:
        name, known = field.name, COLUMNS.get(field.name) or NESTED_COLUMNS.get(field.name)
        if known is None or field.type != known[1]:
            return random_values(self.rng, field, count)
        if name in NESTED or self.rng.random() < 0.3:
            every = TABLE[name].combine_chunks()
            return every.take(pa.array([self.rng.randrange(len(every)) for _ in range(count)], pa.int64()))
        few = [self._value(name) for _ in range(6)] if self.rng.random() < 0.5 else None
        values = [self.rng.choice(few) if few else self._value(name) for _ in range(count)]
        drawn = [None if self.rng.random() < 0.125 else value for value in values]
        return from_canonical(drawn, _TYPES[name].type).cast(field.type)

    def _value(self, name: str) -> Any:
        value = pool(_TYPES[name], self.rng)
        low, high = _DAYS
        if name == "dt":
            return min(max(value, low), high)
        if name in ("ts", "nt"):
            return min(max(value, low * _MICROSECONDS), (high + 1) * _MICROSECONDS - 1)
        return value.decode("utf-8", "ignore").encode() if name in ("s", "n", "t") else value
