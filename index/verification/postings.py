"""Check of the postings of a column in a row space: disjoint, and with NULL all rows of each file.

Postings of the elements of arrays may share rows; those of NULL and of empty arrays share none with others.

Their visible rows are summed per key (`Expected`) and compared with the recorded value counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import field

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import ColumnTypeError, CorruptIndexError
from tailbit.index.evaluation.row_space import claims
from tailbit.index.keys import NO_ELEMENT, element_type, widen_keys
from tailbit.index.kinds.kind import Blame, Problem
from tailbit.index.model import FileRecord
from tailbit.index.postings.segment import Segment
from tailbit.index.store.state import IndexState
from tailbit.index.verification.claims import SHOWN
from tailbit.index.verification.report import Report
from tailbit.tables import compute as pc


@dataclass
class Expected:
    """Visible rows per key of a column, by its postings, in one key type.

    `known` is False if damage, or keys of types that cannot be compared, make the rows unknown; or if the
    index does not count the column.
    """

    key_type: str
    rows: Counter[bytes | None] = field(default_factory=Counter)
    known: bool = True

    def add(self, segment: Segment, column: str, keys: pa.BinaryArray, visible: Sequence[int]) -> None:
        """Add visible rows, one number per key of a segment."""
        if not self.known or not any(visible):
            return
        try:
            widened = widen_keys(keys, segment.columns[column], self.key_type)
        except ColumnTypeError:
            self.known = False
            return
        for key, rows in zip(widened.to_pylist(), visible, strict=True):
            if rows:
                self.rows[key] += rows


@dataclass
class _PostedRows:
    """The rows that occur in the postings of a column.

    `lone`: rows of keys that exclude other keys in a row; `shared`: rows of keys that allow others.
    """

    positions: int = 0
    lone: int = 0
    shared: BitMap = field(default_factory=BitMap)
    union: BitMap = field(default_factory=BitMap)

    @property
    def apart(self) -> int:
        """Return the number of distinct rows if no exclusive posting shares a row; else a larger number."""
        return self.lone + len(self.shared)

    def add(self, bitmaps: Sequence[BitMap], lone: int) -> None:
        """Add postings; a row of one of the first `lone` postings must not be in any other posting."""
        sizes = list(map(len, bitmaps))
        self.positions += sum(sizes)
        self.lone += sum(sizes[:lone])
        self.shared |= BitMap.union(BitMap(), *bitmaps[lone:])
        self.union |= BitMap.union(*bitmaps)


def check_postings(
    index: IndexState,
    space: str,
    column: str,
    records: Sequence[FileRecord],
    expected: Expected,
    report: Report,
) -> Iterator[Problem]:
    """Check the postings of a column in a row space, and add its visible rows to `expected`.

    `records`: the records that claim a range of the row space. `report` counts what is read. Cost: reads
    every posting of the column there.
    """
    where = f"row space {space}, column {column}"
    posted = [record for record in records if column in record.built]
    claimed = _claimed(posted)
    rows = _PostedRows()
    try:
        visible = _claimed([r for r in posted if r.counted]) - _hidden(index, posted)
        for segment in index.segments_of(space):
            rising = True
            for keys, bitmaps, rises in _groups(segment, column):
                report.postings += len(bitmaps)
                rising = rising and rises
                inside = [bits & claimed for bits in bitmaps]
                rows.add(inside, _lone_keys(keys, segment.columns[column]))
                expected.add(segment, column, keys, [b.intersection_cardinality(visible) for b in inside])
            if not rising:
                yield Problem(where, f"keys do not rise in {segment.path}", Blame.SPACE, space)
    except CorruptIndexError as damage:
        expected.known = False
        yield Problem.of(damage)
        return
    report.positions += rows.positions
    if rows.apart != len(rows.union):
        overlap = f"postings overlap: {rows.apart} positions, {len(rows.union)} distinct"
        yield Problem(where, overlap, Blame.SPACE, space)
    yield from _unposted(where, space, posted, rows.union)


def check_counts(index: IndexState, column: str, expected: Expected, report: Report) -> Iterator[Problem]:
    """Yield the recorded counts of a column that differ from those `expected` by its postings."""
    where = f"value counts of {column}"
    if not expected.known:
        return
    try:
        keys, counts = index.value_counts(column, expected.key_type)
    except CorruptIndexError as damage:
        yield Problem.of(damage)
        return
    except ColumnTypeError:
        return
    recorded = {k: n for k, n in zip(keys.to_pylist(), counts.tolist(), strict=True) if n}
    report.counts += len(recorded)
    by_bits = expected.rows
    bad = [k for k in recorded.keys() | by_bits.keys() if recorded.get(k, 0) != by_bits.get(k, 0)]
    for key in sorted(bad, key=lambda k: k or b"")[:SHOWN]:
        shown = "NULL" if key is None else key.hex()
        difference = f"{recorded.get(key, 0)} recorded, {by_bits.get(key, 0)} by bits"
        yield Problem(f"{where}, key {shown}", difference, Blame.COUNTS)


def _lone_keys(keys: pa.BinaryArray, key_type: str) -> int:
    """Return the number of leading keys that exclude other keys in a row.

    Keys of plain values all do; of array keys, only those of NULL and of empty arrays.
    """
    if element_type(key_type) is None:
        return len(keys)
    return sum(key is None or key == NO_ELEMENT for key in keys[:2].to_pylist())


def _groups(segment: Segment, column: str) -> Iterator[tuple[pa.BinaryArray, list[BitMap], bool]]:
    """Yield the postings of a segment by row group, and whether their keys ascend, as lookups require.

    Raises:
        CorruptIndexError: a bitmap fails the checks.
    """
    last: bytes | None = None
    for keys, bitmaps in segment.postings(column) if column in segment.columns else ():
        yield keys, bitmaps, _rising(keys if last is None else _behind(last, keys))
        last = keys[-1].as_py() if len(keys) else last


def _behind(last: bytes, keys: pa.BinaryArray) -> pa.BinaryArray:
    return pa.concat_arrays([pa.array([last], keys.type), keys])


def _unposted(where: str, space: str, posted: Sequence[FileRecord], union: BitMap) -> Iterator[Problem]:
    """Yield the files with a row that occurs in no posting."""
    for record in posted:
        base = record.base or 0
        posted_rows = union.range_cardinality(base, base + record.rows)
        if posted_rows != record.rows:
            short = f"{posted_rows} of {record.rows} rows are posted"
            yield Problem(f"{where}, file {record.path}", short, Blame.SPACE, space)


def _hidden(index: IndexState, records: Sequence[FileRecord]) -> BitMap:
    """Return the hidden rows with which counted records are counted, in row space positions.

    Raises:
        CorruptIndexError: the index has lost the hidden rows.
    """
    out = BitMap()
    for record in records:
        if record.counted and record.hidden:
            hidden = index.hidden_rows(record.hidden)
            if hidden is None:
                raise CorruptIndexError(file=record.path, reason=f"hidden rows {record.hidden} are lost")
            out |= hidden.shift(record.base or 0)
    return out


def _claimed(records: Sequence[FileRecord]) -> BitMap:
    return claims(
        np.array([r.base for r in records], dtype=np.int64),
        np.array([r.rows for r in records], dtype=np.int64),
    )


def _rising(keys: pa.BinaryArray) -> bool:
    """Return whether keys strictly ascend, null first."""
    plain = keys.drop_null()
    ordered = pc.all(pc.less(plain[:-1], plain[1:])).as_py() if len(plain) > 1 else True
    return bool(ordered) and keys.null_count <= 1 and (not keys.null_count or not keys[0].is_valid)
