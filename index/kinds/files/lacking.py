"""Live files that lack definitions that they want, found from the file records alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs
from tailbit.base.dataclass import dataclass
from tailbit.index.kinds.files.rows import column_sets
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, arrow_scalar, filled, numpy_of

WantedBy = Callable[[Mapping[str, str | None]], Collection[str]]
"""A function that returns the ids of the definitions that a file with some partition values wants."""


@dataclass(frozen=True)
class Lacking:
    """The live files that lack a definition. `rows`: of kind `files`; `missing`: the ids that each lacks."""

    rows: pa.Table
    missing: list[tuple[str, ...]]

    @classmethod
    def among(cls, records: pa.Table, wanted_by: WantedBy, *, by_partition: bool) -> Lacking:
        """Return the files that lack a definition; `by_partition`: what a file wants depends on its values.

        A file without postings has none of the definitions. Cost: vectorised over all files; with
        `by_partition` a step of Python per file.
        """
        live = pc.filter(records, pc.is_null(records["left"]))
        codes, built = column_sets(live["columns"])
        sets = [frozenset(ids) for ids in built]
        bare = ~numpy_of(filled(pc.is_valid(live["space"]), False), dtype=bool)
        if not by_partition:
            ids = tuple(wanted_by({}))
            kinds = [tuple(id_ for id_ in ids if id_ not in held) for held in [*sets, frozenset[str]()]]
            which = np.where(bare, len(sets), numpy_of(codes, dtype=np.int64))
        else:
            which, kinds = _by_partition(live, wanted_by, codes, sets, bare)
        short = np.array([bool(missing) for missing in kinds], dtype=bool)[which]
        return cls(pc.filter(live, arrow_array(short)), [kinds[n] for n in which[short].tolist()])

    def left(self) -> dict[str, tuple[int, int]]:
        """Map the id of each definition that files lack to the number of these files, and of their rows."""
        totals: dict[str, tuple[int, int]] = {}
        for missing, rows in zip(self.missing, self.rows["rows"].to_pylist(), strict=True):
            for id_ in missing:
                files, so_far = totals.get(id_, (0, 0))
                totals[id_] = files + 1, so_far + rows
        return totals

    def fillable(self, lineage: int) -> pa.Table:
        """Return path and size of the files that have postings and counts, ordered by row space.

        Other files wait for a round, or cannot be read yet. Files of one row space that are filled together
        add one segment to the row space.
        """
        rows = self.rows
        sound = pc.and_(pc.is_valid(rows["space"]), pc.equal(rows["lineage"], arrow_scalar(lineage)))
        fillable = pc.filter(rows, pc.and_(sound, rows["counted"]))
        return fillable.sort_by([("space", "ascending"), ("base", "ascending")]).select(["path", "size"])


def _by_partition(
    live: pa.Table, wanted_by: WantedBy, codes: pa.Array, sets: list[frozenset[str]], bare: np.ndarray
) -> tuple[Longs, list[tuple[str, ...]]]:
    """Return, per file, the number of the set of definitions that the file lacks; and the sets by number."""
    numbers: dict[tuple[str, ...], int] = {}
    which = np.zeros(len(live), dtype=np.int64)
    partitions = live["partition"].to_pylist()
    for row, (code, partition) in enumerate(zip(codes.to_pylist(), partitions, strict=True)):
        held = frozenset[str]() if bare[row] else sets[code]
        missing = tuple(id_ for id_ in wanted_by(dict(partition or ())) if id_ not in held)
        which[row] = numbers.setdefault(missing, len(numbers))
    return which, list(numbers)
