"""Kind `settings`: the configuration of the index.

The row of highest `seq` counts; one file of it is live.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from tailbit.errors import IndexFormatError
from tailbit.index.keys import element_type
from tailbit.index.kinds.kind import Kind, View
from tailbit.index.model import IndexedColumn, Settings
from tailbit.tables.arrow import no_rows

if TYPE_CHECKING:
    from tailbit.index.kinds.merging import MergeGroup

FORMAT = 3
"""The number of this layout. Kind `settings` has the column `format` in every format, past and to come."""

NEWEST_FORMAT = 4
"""The number of the same layout with array columns, where a row may stand in several postings of a column."""

OLDEST_FORMAT = 1
"""Settings have the same layout since this format: an index of it can be rebuilt with its columns."""

_INDEXED = pa.struct([(name, pa.string()) for name in ("label", "id", "key_type", "type")])


@dataclass(frozen=True)
class SettingsKind(Kind[pa.Table]):
    """Kind of the settings; its reader returns all rows, `settings_from_arrow` the newest."""

    name: ClassVar[str] = "settings"
    schema: ClassVar[pa.Schema] = pa.schema(
        [
            ("seq", pa.int64()),
            ("settings_version", pa.int64()),
            ("index_id", pa.string()),
            ("format", pa.int64()),
            ("indexed", pa.list_(_INDEXED)),
            ("options", pa.map_(pa.string(), pa.string())),
            ("dropped", pa.list_(pa.string())),
        ]
    )

    def reader(self, view: View) -> pa.Table:
        """Return all rows; none if the table is not an index."""
        parts = [self.read(view.storage, file.path) for file in view.files_of(self)]
        return pa.concat_tables([no_rows(self.schema), *parts])

    def due(self, view: View, earliest: int | None) -> Iterator[MergeGroup]:
        """Return no groups: changed settings replace the previous file."""
        return iter(())


SETTINGS = SettingsKind()


def format_of(columns: Iterable[IndexedColumn], before: int = FORMAT) -> int:
    """Return the lowest format that can express the columns, but at least `before`.

    An older release refuses a format that it does not know, and keeps working with an index that uses nothing
    new.
    """
    some = any(element_type(column.key_type) is not None for column in columns)
    return max(before, NEWEST_FORMAT if some else FORMAT)


def settings_to_arrow(settings: Settings, seq: int) -> pa.Table:
    """Convert a settings record to one row."""
    row = {
        "seq": seq,
        "settings_version": settings.version,
        "index_id": settings.index_id,
        "format": settings.format,
        "indexed": [asdict(column) for column in settings.columns],
        "options": list(settings.options.items()),
        "dropped": list(settings.dropped),
    }
    return pa.Table.from_pylist([row], schema=SETTINGS.schema)


_ANEW = "Make it anew, with its columns: tailbit repair TABLE. Questions scan the data files meanwhile."


def settings_from_arrow(table: pa.Table, path: str, oldest: int = FORMAT) -> tuple[Settings, int]:
    """Return the newest settings record and its seq.

    Formats from `oldest` on are accepted: their layout is the same.

    Raises:
        IndexFormatError: the record is of another format.
    """
    row = max(table.to_pylist(), key=lambda r: int(r["seq"] or 0))
    if not oldest <= row["format"] <= NEWEST_FORMAT:
        hint = {"hint": _ANEW} if OLDEST_FORMAT <= row["format"] < FORMAT else {}
        raise IndexFormatError(path=path, found=row["format"], supported=NEWEST_FORMAT, **hint)
    settings = Settings(
        version=row["settings_version"],
        index_id=row["index_id"],
        format=row["format"],
        columns=tuple(IndexedColumn(**column) for column in row["indexed"]),
        options=dict(row["options"] or ()),
        dropped=tuple(row["dropped"] or ()),
    )
    return settings, int(row["seq"])
