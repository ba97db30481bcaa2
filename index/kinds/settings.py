"""Kind `settings`: the configuration of the index.

The row of highest `seq` counts; one file of it is live.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import pyarrow as pa

from tailbit.base.errors import IndexFormatError
from tailbit.index.kinds.kind import NAMED_FORMAT, Kind, View
from tailbit.index.model import Definition, Settings, Term, TermColumn
from tailbit.tables.arrow import no_rows

if TYPE_CHECKING:
    from tailbit.index.kinds.kind import MergeGroup

FORMAT = 3
"""The number of this layout. Kind `settings` has the column `format` in every format, past and to come."""

ARRAY_FORMAT = 4
"""The number of the same layout with array columns, where a row may stand in several postings of a column.

In `NAMED_FORMAT`, columns of few postings may share row groups, too. Format 5 is the same without that."""

PAGED_FORMAT = 7
"""The number of the same layout with record keys, whose postings lie in small pages."""

PACKED_FORMAT = 8
"""The number of the same layout with record keys of texts, of which UUIDs are stored as sixteen bytes."""

BLOOM_FORMAT = 9
"""The number of the same layout with filters of the values of columns."""

NEWEST_FORMAT = BLOOM_FORMAT
"""The highest number that this release reads and writes."""

OLDEST_FORMAT = 1
"""The oldest format whose settings can be read, so that an index of it can be rebuilt with its columns."""

_INDEXED = pa.struct([(name, pa.string()) for name in ("label", "id", "key_type", "type")])
"""A bitmap of one column, as formats 3 and 4 record it."""

_COLUMNS = pa.list_(pa.struct([(name, pa.string()) for name in ("label", "id", "type")]))
_TERM = pa.struct(
    [
        ("text", pa.string()),
        ("columns", _COLUMNS),
        ("key_type", pa.string()),
        ("type", pa.string()),
        ("zone", pa.string()),
    ]
)
_DEFINITION = pa.struct(
    [
        *((name, pa.string()) for name in ("id", "name", "kind")),
        ("terms", pa.list_(_TERM)),
        ("options", pa.map_(pa.string(), pa.string())),
        ("only", pa.string()),
        ("only_columns", _COLUMNS),
    ]
)


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
            ("definitions", pa.list_(_DEFINITION)),
        ]
    )

    def reader(self, view: View) -> pa.Table:
        """Return all rows; none if the table is not an index."""
        tables = self.read_all(view)
        return pa.concat_tables([no_rows(self.schema), *tables])

    def due(self, view: View, earliest: int | None) -> Iterator[MergeGroup]:
        """Return no groups: changed settings replace the previous file."""
        return iter(())


SETTINGS = SettingsKind()


def may_share(settings: Settings) -> bool:
    """Return whether columns may share row groups of postings, which releases before format 5 cannot read."""
    return settings.format >= NAMED_FORMAT


class PostingForms(NamedTuple):
    """How segments of postings are written, as the format of the index and its definitions allow.

    `share`: columns of few postings may share row groups. `paged`: ids whose postings lie in small pages, in
    a segment of their own. `packs`: UUIDs among the keys in small pages are stored as sixteen bytes.
    """

    share: bool = False
    paged: frozenset[str] = frozenset()
    packs: bool = False

    @classmethod
    def of(cls, settings: Settings) -> PostingForms:
        """Return the forms that the settings of an index ask for."""
        paged = frozenset(definition.id for definition in settings.definitions if definition.is_paged)
        return cls(may_share(settings), paged, settings.format >= PACKED_FORMAT)


PLAIN_FORMS = PostingForms()
"""The forms of postings that every release reads."""


def settings_to_arrow(settings: Settings, seq: int) -> pa.Table:
    """Convert a settings record to one row; bitmaps of one column go into `indexed`, as in older formats."""
    others = [definition for definition in settings.definitions if not definition.is_plain]
    row = {
        "seq": seq,
        "settings_version": settings.version,
        "index_id": settings.index_id,
        "format": settings.format,
        "indexed": [_plain_row(definition) for definition in settings.definitions if definition.is_plain],
        "options": list(settings.options.items()),
        "dropped": list(settings.dropped),
        "definitions": [asdict(other) | {"options": list(other.options.items())} for other in others],
    }
    return pa.Table.from_pylist([row], schema=SETTINGS.schema)


def _plain_row(definition: Definition) -> dict[str, str]:
    (term,) = definition.terms
    return {"label": term.text, "id": definition.id, "key_type": term.key_type, "type": term.type}


def _definition_from(row: Mapping[str, Any]) -> Definition:
    terms = tuple(Term(**{**term, "columns": _columns_from(term["columns"])}) for term in row["terms"])
    only = _columns_from(row["only_columns"] or ())
    return Definition(**{**row, "terms": terms, "options": dict(row["options"]), "only_columns": only})


def _columns_from(rows: Iterable[Mapping[str, str]]) -> tuple[TermColumn, ...]:
    return tuple(TermColumn(**column) for column in rows)


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
    others = [_definition_from(definition) for definition in row["definitions"] or ()]
    settings = Settings(
        version=row["settings_version"],
        index_id=row["index_id"],
        format=row["format"],
        definitions=(*(Definition.plain(*plain.values()) for plain in row["indexed"]), *others),
        options=dict(row["options"] or ()),
        dropped=tuple(row["dropped"] or ()),
    )
    return settings, int(row["seq"])
