"""Kind `bitmap_index`: a posting says at which positions of a row space a column has a value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from tailbit.base.once import once
from tailbit.index.keys import element_type, is_textual, posting_type_of
from tailbit.index.kinds.files import FILES
from tailbit.index.kinds.kind import NAMED_FORMAT, Definable, Kind, View
from tailbit.index.kinds.settings import ARRAY_FORMAT, FORMAT, PACKED_FORMAT, PAGED_FORMAT, PostingForms
from tailbit.index.model import BITMAP, COUNTS, HASH, KEYS, RECORD_KEY, Definition, IndexFile
from tailbit.index.postings.layout import NAME, PAGED_SCHEMA, UUID
from tailbit.index.postings.segment import Segment
from tailbit.tables.model import Column
from tailbit.tables.storage import Storage

if TYPE_CHECKING:
    from tailbit.index.evaluation.row_space import Access
    from tailbit.index.kinds.kind import Merged, MergeGroup


class Segments:
    """The live segments; a segment that stays live stays the same object and keeps its footer."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = segments

    @once
    def by_space(self) -> Mapping[str, list[Segment]]:
        """Map row space to its segments, sorted by path."""
        spaces: dict[str, list[Segment]] = {}
        for segment in sorted(self._segments, key=lambda s: s.path):
            spaces.setdefault(segment.space, []).append(segment)
        return spaces

    def replaced(self, view: View) -> Segments:
        """Return the segments that are live in `view`, reusing known objects."""
        segments = {segment.path: segment for segment in self._segments}
        paths = view.paths_of(BITMAP_INDEX)
        return Segments([segments.get(path) or Segment(view.storage, path) for path in paths])


def _unfit_key(column: Column) -> str | None:
    is_array = element_type(posting_type_of(column.type)) is not None
    return "a record key has one value a row, and {term} is an array" if is_array else None


_HIVE = "org.apache.hadoop.hive.ql.index."


class BitmapIndexKind(Kind[Segments]):
    """Kind whose rows are postings; `write_segment` writes them."""

    name: ClassVar[str] = NAME
    definable: ClassVar[Mapping[str, Definable]] = {
        BITMAP: Definable(
            4,
            {COUNTS: ("auto", "on", "off")},
            # Hive's compact index holds blocks of a value, a bitmap holds rows.
            (
                *("secondary_index", "expression_index", "expr_index", "functional_index", "compact"),
                *(f"{_HIVE}bitmap.bitmapindexhandler", f"{_HIVE}compact.compactindexhandler"),
            ),
        ),
        RECORD_KEY: Definable(
            4,
            {KEYS: ("values", HASH)},
            ("record_index", "record_level_index"),
            "a record key is",
            _unfit_key,
        ),
    }
    schema: ClassVar[pa.Schema] = PAGED_SCHEMA.append(pa.field(UUID, pa.binary()))
    sorted_by: ClassVar[tuple[str, ...]] = ("column", "key")

    def format_of(self, definition: Definition) -> int:
        """Return the format of a definition: of one column, of arrays, named, or with small pages of keys."""
        if definition.is_plain:
            is_array = any(element_type(term.key_type) is not None for term in definition.terms)
            return ARRAY_FORMAT if is_array else FORMAT
        if not definition.is_paged:
            return NAMED_FORMAT
        return PACKED_FORMAT if is_textual(definition.key_type) else PAGED_FORMAT

    def reader(self, view: View) -> Segments:
        """Return the live segments; their footers are read on first use."""
        return Segments(()).replaced(view)

    def renewed(
        self, reader: Segments, view: View, added: Sequence[IndexFile], removed: Sequence[str]
    ) -> Segments:
        """Return the segments that are live now."""
        return reader.replaced(view)

    def accesses(self, view: View, columns: Sequence[Column]) -> Sequence[Access]:
        """Return the access of each tuple and expression; the postings of a column are found by its id."""
        from tailbit.index.expression.indexed_term import IndexedTerm, IndexedTuple
        from tailbit.index.kinds.bitmap_access import TermAccess, TupleAccess

        terms = {column.id: column for column in columns if isinstance(column, IndexedTerm)}
        pairs = [(d, terms[d.id]) for d in view.settings.definitions if d.id in terms]
        # Tuples of more parts come first, since they may serve more conditions of an AND at once.
        tuples = [TupleAccess(d, term) for d, term in pairs if isinstance(term, IndexedTuple)]
        tuples.sort(key=lambda access: len(access.term.parts), reverse=True)
        others = [TermAccess(d, term) for d, term in pairs if not isinstance(term, IndexedTuple)]
        return [*tuples, *others]

    def due(self, view: View, earliest: int | None) -> Iterator[MergeGroup]:
        """Yield the row spaces of a full size class, and each row space of mostly unreachable rows."""
        from tailbit.index.kinds.bitmap_merging import due_spaces

        return due_spaces(view.reader(self).by_space, view, view.reader(FILES), earliest)

    def merge(self, view: View, group: MergeGroup, earliest: int | None) -> Merged:
        """Merge row spaces into one; claims of reachable files move there, other claims are dropped."""
        from tailbit.index.kinds.bitmap_merging import merge_spaces

        spaces = view.reader(self).by_space
        sources = [spaces.get(space, []) for space in group.spaces]
        claims = [view.reader(FILES).claims(space) for space in group.spaces]
        return merge_spaces(view.storage, sources, claims, earliest, PostingForms.of(view.settings))

    def may_commit(self, view: View, group: MergeGroup, merged: Merged | None) -> bool:
        """Return whether a merge may be committed.

        A merge is refused if one of its row spaces has a new segment, or if a file whose claim it drops is
        live again.
        """
        spaces = view.reader(self).by_space
        present = {s.path for space in group.spaces for s in spaces.get(space, ())}
        if not super().may_commit(view, group, merged) or not present <= set(group.inputs):
            return False
        moved = merged.moved if merged is not None else ()
        dropped = view.reader(FILES).get_all(claim.path for claim in moved if claim.new_space is None)
        return all(record.left is not None for record in dropped)

    def read_whole(self, storage: Storage, path: str) -> None:
        """Decode every posting of a segment, with its keys as stored."""
        super().read_whole(storage, path)
        segment = Segment(storage, path)
        for column in segment.columns:
            for _ in segment.postings(column):
                pass


BITMAP_INDEX = BitmapIndexKind()
