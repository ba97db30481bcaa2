"""Checks that the recorded files are those of the covered version, and that claims do not overlap.

The claim of a data file is its range of positions in a row space.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from tailbit.index.kinds.kind import Blame, Problem
from tailbit.index.model import FileRecord, Standing
from tailbit.index.query.coverage import Coverage
from tailbit.index.store.state import IndexState

SHOWN = 20
"""Problems reported per list of keys or files."""

Claims = Mapping[str, Sequence[FileRecord]]
"""Row space to the records that claim a range of it, by base."""


def check_recorded(index: IndexState, coverage: Coverage, standing: Standing) -> Iterator[Problem]:
    """Check that at the covered version, the files recorded as live are the files of the snapshot.

    Nothing is checked if the index is not `COMPLETE` or the snapshot is of another version.
    """
    ledger, files = index.ledger, coverage.snapshot.files
    if ledger is None or standing is not Standing.COMPLETE or ledger.covered != coverage.snapshot.version:
        return
    for number in coverage.uncovered.tolist():
        record = index.recorded.get(files[number].path)
        if record is None or record.left is not None or (record.counted and record.error is None):
            yield Problem(f"file {files[number].path}", "it is live and not recorded as it is", Blame.RECORDS)
    live = files.paths.to_pylist()
    gone = {r.path for r in index.recorded.live()}.difference(live)
    for path in sorted(gone)[:SHOWN]:
        yield Problem(f"file {path}", "it is recorded as live and is not in the table", Blame.RECORDS)


def claims_of(index: IndexState) -> Claims:
    """Return, per row space, the records of the files with a claim there, by start of the claim.

    Cost: one Python object per recorded data file.
    """
    out: dict[str, list[FileRecord]] = {}
    for record in index.recorded.records():
        if record.space is not None:
            out.setdefault(record.space, []).append(record)
    for records in out.values():
        records.sort(key=lambda r: (r.base or 0, r.rows))
    return out


def check_claims(claims: Claims) -> Iterator[Problem]:
    """Check that the claims of one row space do not overlap."""
    for space, records in claims.items():
        for first, other in pairwise(records):
            if (first.base or 0) + first.rows > (other.base or 0):
                overlap = f"claims of {first.path} and {other.path} overlap"
                yield Problem(f"row space {space}", overlap, Blame.SPACE, space)
