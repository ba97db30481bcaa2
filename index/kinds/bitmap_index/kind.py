"""Kind `bitmap_index`: a posting says where in a row space a column has a value; all rows count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from tailbit.index.kinds.bitmap_index.postings import NAME, SCHEMA
from tailbit.index.kinds.bitmap_index.segment import Segment
from tailbit.index.kinds.files.kind import FILES
from tailbit.index.kinds.kind import Kind, View
from tailbit.index.kinds.merging import Merged, MergeGroup
from tailbit.index.model import IndexFile
from tailbit.once import once
from tailbit.tables.storage import Storage


class Segments:
    """The live segments; one that stays live stays the same object, with its footer."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = segments

    @once
    def by_space(self) -> Mapping[str, list[Segment]]:
        """Row space to its segments, by path."""
        spaces: dict[str, list[Segment]] = {}
        for segment in sorted(self._segments, key=lambda s: s.path):
            spaces.setdefault(segment.space, []).append(segment)
        return spaces

    def replaced(self, view: View) -> Segments:
        """Those that are live now."""
        known = {segment.path: segment for segment in self._segments}
        paths = view.paths_of(BITMAP_INDEX)
        return Segments([known.get(path) or Segment(view.storage, path) for path in paths])


@dataclass(frozen=True)
class BitmapIndexKind(Kind[Segments]):
    """One row is one posting. Written by `write_segment`, which keeps columns apart."""

    name: ClassVar[str] = NAME
    schema: ClassVar[pa.Schema] = SCHEMA
    sorted_by: ClassVar[tuple[str, ...]] = ("column", "key")

    def reader(self, view: View) -> Segments:
        """The live segments; their footers are read when asked."""
        return Segments(()).replaced(view)

    def renewed(
        self, reader: Segments, view: View, added: Sequence[IndexFile], removed: Sequence[str]
    ) -> Segments:
        """The segments that are live now."""
        return reader.replaced(view)

    def due(self, view: View, earliest: int | None) -> Iterator[MergeGroup]:
        """Row spaces of a full size class, and each that holds mostly what nobody can reach."""
        from tailbit.index.kinds.bitmap_index.merging.due import due_spaces

        return due_spaces(view.reader(self).by_space, view, view.reader(FILES), earliest)

    def merge(self, view: View, group: MergeGroup, earliest: int | None) -> Merged:
        """One segment over one row space, into which the claims of files that can be reached are moved."""
        from tailbit.index.kinds.bitmap_index.merging.merge import merge_spaces

        spaces = view.reader(self).by_space
        sources = [spaces.get(space, []) for space in group.spaces]
        claims = [view.reader(FILES).claims(space) for space in group.spaces]
        return merge_spaces(view.storage, sources, claims, earliest)

    def may_commit(self, view: View, group: MergeGroup, merged: Merged | None) -> bool:
        """Not where a row space has got another segment, or where a file whose bits are dropped came back."""
        spaces = view.reader(self).by_space
        present = {s.path for space in group.spaces for s in spaces.get(space, ())}
        if not super().may_commit(view, group, merged) or not present <= set(group.inputs):
            return False
        moved = merged.moved if merged is not None else ()
        dropped = view.reader(FILES).get_all(claim.path for claim in moved if claim.new_space is None)
        return all(record.left is not None for record in dropped)

    def read_whole(self, storage: Storage, path: str) -> None:
        """Every posting of a segment is decoded, its keys as they are stored."""
        super().read_whole(storage, path)
        segment = Segment(storage, path)
        for column in segment.columns:
            for _ in segment.postings(column):
                pass


BITMAP_INDEX = BitmapIndexKind()
