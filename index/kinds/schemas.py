"""All record kinds, and the schema of the index table: the union of their schemas.

`docs/index-format.md` describes the kinds for readers in other languages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tailbit.base.dataclass import dataclass
from tailbit.index.kinds.bitmap_index import BITMAP_INDEX
from tailbit.index.kinds.bloom_filter import BLOOM_FILTER
from tailbit.index.kinds.column_stats import COLUMN_STATS
from tailbit.index.kinds.files import FILES
from tailbit.index.kinds.hidden_rows import HIDDEN_ROWS
from tailbit.index.kinds.kind import Definable, Kind, View, kind_of
from tailbit.index.kinds.ledger import LEDGER
from tailbit.index.kinds.settings import FORMAT, SETTINGS
from tailbit.index.kinds.value_counts import VALUE_COUNTS
from tailbit.index.model import Definition
from tailbit.tables.model import Column

if TYPE_CHECKING:
    from tailbit.index.evaluation.row_space import Access


@dataclass(frozen=True)
class Kinds:
    """The record kinds of an index, accessible by name.

    Invariant: names are distinct, and a column name has one type in all kinds.
    """

    every: tuple[Kind[Any], ...]

    def __post_init__(self) -> None:
        if len({kind.name for kind in self.every}) < len(self.every):
            raise ValueError("two kinds have one name")
        types: dict[str, pa.DataType] = {}
        for kind in self.every:
            for field in kind.schema:
                if types.setdefault(field.name, field.type) != field.type:
                    raise ValueError(f"column {field.name} of kind {kind.name} has another type elsewhere")

    def __iter__(self) -> Iterator[Kind[Any]]:
        return iter(self.every)

    def __getitem__(self, name: str) -> Kind[Any]:
        return next(kind for kind in self.every if kind.name == name)

    def of(self, path: str) -> Kind[Any] | None:
        """Return the kind of a file of the index, or None if this release does not know the kind."""
        return next((kind for kind in self.every if kind.name == kind_of(path)), None)

    def serving(self, definition: Definition) -> Kind[Any]:
        """Return the kind whose rows serve a definition."""
        return next(kind for kind in self.every if definition.kind in kind.definable)

    def format_of(self, definitions: Iterable[Definition], before: int = FORMAT) -> int:
        """Return the lowest format that can express the definitions, but at least `before`.

        An older release refuses a format that it does not know, and keeps working with an index that uses
        nothing new.
        """
        return max([before, *(self.serving(definition).format_of(definition) for definition in definitions)])

    def accesses(self, view: View, columns: Sequence[Column]) -> list[Access]:
        """Return the accesses of the definitions of all kinds; see `Kind.accesses`."""
        return [access for kind in self.every for access in kind.accesses(view, columns)]

    def table_schema(self) -> pa.Schema:
        """Return the schema of the index table: `kind`, then the union of all kinds' columns."""
        union = {field.name: field for kind in self.every for field in kind.schema}
        return pa.schema([pa.field("kind", pa.string()), *union.values()])


KINDS = Kinds(
    (
        BITMAP_INDEX,
        VALUE_COUNTS,
        HIDDEN_ROWS,
        FILES,
        LEDGER,
        SETTINGS,
        COLUMN_STATS,
        BLOOM_FILTER,
    )
)
"""The kinds that this release writes. A new kind is one module, and its import and name here."""

DEFINABLE: Mapping[str, Definable] = {
    name: definable for kind in KINDS for name, definable in kind.definable.items()
}
"""What statements may say of the definitions of each name."""
