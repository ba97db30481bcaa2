"""A hand-made table with many columns of arrays, whose elements an index may have."""

from __future__ import annotations

from dataclasses import replace

from support.fuzzer.built import BuiltHistory
from support.fuzzer.columns import ARRAY_TYPES, Field
from support.fuzzer.model import Shape


class ArrayHistory(BuiltHistory):
    """Two thirds of its columns are arrays, nested ones too."""

    def random_shape(self, mapping: str) -> Shape:
        """Columns as ever, and then their types are drawn once more."""
        shape = super().random_shape(mapping)
        return replace(shape, fields=tuple(self._arrays(f, shape.partitions) for f in shape.fields))

    def _arrays(self, field: Field, partitions: tuple[str, ...]) -> Field:
        if field.fields:
            return replace(field, fields=tuple(self._arrays(inner, ()) for inner in field.fields))
        if field.name in partitions or self.rng.random() < 0.33:
            return field
        return replace(field, type=self.rng.choice(ARRAY_TYPES))
