"""Kind `files`: the record of one data file of the source; per path the row of highest `seq` counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from tailbit.base.lazy import lazy
from tailbit.index.kinds.files.recorded import RecordedFiles
from tailbit.index.kinds.files.rows import SCHEMA, newest_per_path
from tailbit.index.kinds.kind import Kind, View
from tailbit.index.model import IndexFile
from tailbit.tables import compute as pc
from tailbit.tables.arrow import no_rows

if TYPE_CHECKING:
    from tailbit.index.kinds import merging
else:
    merging = lazy("tailbit.index.kinds.merging")


class FilesKind(Kind[RecordedFiles]):
    """Kind whose rows are each the state of one data file after one change."""

    name: ClassVar[str] = "files"
    schema: ClassVar[pa.Schema] = SCHEMA

    def reader(self, view: View) -> RecordedFiles:
        """Return the newest record of every file. Cost: reads all live files of this kind."""
        parts = self.read_all(view)
        return RecordedFiles(pa.concat_tables([no_rows(SCHEMA), *parts]))

    def renewed(
        self, reader: RecordedFiles, view: View, added: Sequence[IndexFile], removed: Sequence[str]
    ) -> RecordedFiles:
        """Return the same reader, extended by the added rows."""
        for rows in self.read_all(
            view, [file for file in added if file.path.startswith(f"kind={self.name}/")]
        ):
            reader.extend_rows(rows)
        return reader

    def merge(self, view: View, group: merging.MergeGroup, earliest: int | None) -> merging.Merged:
        """Keep the newest record per path.

        A record of a file that left the table and has no postings is dropped, unless an index file outside
        this merge may still hold an older record of the path.
        """
        inputs = [self.read(view.storage, path) for path in group.inputs]
        rows = newest_per_path(pa.concat_tables(inputs))
        others = [path for path in view.paths_of(self) if path not in group.inputs]
        oldest_outside = min((self._lowest_seq(view, path) for path in others), default=1 << 62)
        blank = pc.and_(pc.is_null(rows["space"]), pc.is_valid(rows["left"]))
        blank = pc.and_(blank, pc.and_(pc.invert(rows["counted"]), pc.is_null(rows["error"])))
        rows = rows.filter(pc.invert(pc.and_(blank, pc.less(rows["seq"], oldest_outside))))
        return merging.Merged((self.write(view.storage, rows),) if len(rows) else ())

    def _lowest_seq(self, view: View, path: str) -> int:
        seqs = self.read(view.storage, path)["seq"]
        return int(pc.min(seqs).as_py() or 0)


FILES = FilesKind()
