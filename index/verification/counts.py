"""Check that recorded value counts are the visible rows of the postings of counted files."""

from __future__ import annotations

from collections.abc import Iterator

from tailbit.errors import ColumnTypeError, CorruptIndexError
from tailbit.index.kinds.kind import Blame, Problem
from tailbit.index.store.state import IndexState
from tailbit.index.verification.claims import SHOWN
from tailbit.index.verification.postings import Expected
from tailbit.index.verification.report import Report


def check_counts(index: IndexState, column: str, expected: Expected, report: Report) -> Iterator[Problem]:
    """Yield the recorded counts of a column that differ from those `expected` by its postings."""
    where = f"value counts of {column}"
    if not expected.known:
        return
    try:
        keys, counts = index.value_counts(column, expected.key_type)
    except CorruptIndexError as damage:
        yield Problem(where, str(damage), Blame.FILE, str(damage.fields.get("file")))
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
