"""Reading of every file of an index from end to end, so that each page is checked against its checksum."""

from __future__ import annotations

from collections.abc import Iterator

from tailbit.errors import CorruptIndexError
from tailbit.index.kinds.kind import Blame, Problem
from tailbit.index.kinds.rows import reading
from tailbit.index.parquet.index_file import open_index_file
from tailbit.index.store.state import IndexState
from tailbit.index.verification.report import Report


def check_checksums(index: IndexState, report: Report) -> Iterator[Problem]:
    """Read every live file of the index, whatever its kind. Memory: one row group."""
    for path in sorted(index.files):
        try:
            with reading(path), open_index_file(index.storage, path) as file:
                for group in range(file.metadata.num_row_groups):
                    file.read_row_group(group)
        except CorruptIndexError as damage:
            yield Problem(path, str(damage), Blame.FILE, path)
        report.files_read += 1
