"""The location of each column's postings in a segment, read from the footer alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tailbit.base.errors import CorruptIndexError
from tailbit.base.lazy import lazy
from tailbit.index.keys import encode_value
from tailbit.index.postings.layout import NUMBER, SCHEMA, UUID, Section, sections_of

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from tailbit.index.postings import paged_forms
else:
    paged_forms = lazy("tailbit.index.postings.paged_forms")

_KEY = SCHEMA.get_field_index("key")


class Place(NamedTuple):
    """Rows of one column and their first and last key; None if they are only NULL's posting.

    `number`: index into the spans of the segment.
    """

    number: int
    low: bytes | None
    high: bytes | None


class Span(NamedTuple):
    """Rows of one column in a row group: all of them, or those of one section of a shared row group.

    `start`: the first row. `share`: of the bytes of the row group.
    """

    group: int
    start: int = 0
    section: Section | None = None
    share: float = 1.0


class Directory(NamedTuple):
    """A footer as key types by column, spans, and per column its places and their highest keys."""

    types: dict[str, str]
    spans: list[Span]
    entries: dict[str, tuple[list[Place], list[bytes]]]

    def add(self, column: str, key_type: str, span: Span, low: bytes | None, high: bytes | None) -> None:
        """Add the next rows of a column."""
        self.types[column] = key_type
        entries, highs = self.entries.setdefault(column, ([], []))
        entries.append(Place(len(self.spans), low, high))
        highs.append(high or b"")
        self.spans.append(span)

    @classmethod
    def of(cls, footer: pq.FileMetaData, path: str) -> Directory:
        """Return where the rows of each column of a segment lie, read from its footer.

        Raises:
            CorruptIndexError: a row group holds several columns, and the file does not say which rows.
        """
        out = cls({}, [], {})
        try:
            shared = sections_of(footer.metadata or {})
        except (ValueError, TypeError) as damage:
            raise CorruptIndexError(file=path, reason=str(damage)) from damage
        for number in range(footer.num_row_groups):
            group, start = footer.row_group(number), 0
            sections = shared.get(number, [])
            total = sum(section.size for section in sections)
            for own in sections:
                span = Span(number, start, own, own.size / total)
                out.add(own.column, own.key_type, span, own.low, own.high)
                start += own.keys
            if sections:
                continue
            column, types = (group.column(leaf).statistics for leaf in (1, 2))
            if column.min != column.max:
                raise CorruptIndexError(file=path, reason="it does not say whose its rows are")
            out.add(column.min, types.min, Span(number), *_ends(group))
        return out


def _ends(group: pq.RowGroupMetaData) -> tuple[bytes | None, bytes | None]:
    """Return the first and the last key of a row group; None if it has only NULL's posting."""
    for leaf in (_KEY, *range(len(SCHEMA), group.num_columns)):
        column = group.column(leaf)
        if column.statistics is not None and column.statistics.has_min_max:
            low, high = column.statistics.min, column.statistics.max
            if column.path_in_schema == NUMBER:
                return encode_value(low, "integer"), encode_value(high, "integer")
            if column.path_in_schema == UUID:
                return paged_forms.uuid_text(low), paged_forms.uuid_text(high)
            return low, high
    return None, None
