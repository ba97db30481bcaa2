"""Comparison of an index with the data: records, postings, value counts, a sample of values.

Input: an index and a snapshot with its coverage. Output: a `Report` with every problem by name. First
every file of the index is read. Each kind checks its own rows against the source. Then follow
the checks that compare kinds with each other: `check_claims`, `check_postings`, `check_counts`, and
`check_sample` and `check_derived`, which read data files again. Memory: the records, the distinct keys of one
column, and a row group of postings.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial

from tailbit.base.errors import CorruptIndexError
from tailbit.index.keys import posting_type_of, widens
from tailbit.index.kinds.kind import CheckedSource, Problem
from tailbit.index.kinds.rows import reading
from tailbit.index.model import Standing
from tailbit.index.parquet.index_file import open_index_file
from tailbit.index.query.coverage import Coverage, HiddenRowsOf
from tailbit.index.query.damages import Damages
from tailbit.index.sql.terms import indexed_columns_of, kept_expressions
from tailbit.index.store.state import IndexState
from tailbit.index.verification.claims import check_claims, check_recorded, claims_of
from tailbit.index.verification.derived import check_derived
from tailbit.index.verification.postings import Expected, check_counts, check_postings
from tailbit.index.verification.report import Report
from tailbit.index.verification.sample import check_sample
from tailbit.tables.model import Column
from tailbit.tables.storage import Storage

__all__ = ["Problem", "Progress", "Report", "verify"]

Progress = Callable[[int, int], None]


def verify(
    index: IndexState,
    coverage: Coverage,
    storage: Storage,
    *,
    standing: Standing = Standing.COMPLETE,
    at_head: bool = True,
    samples: int = 200,
    seed: int = 0,
    derive: int = 0,
    wanted: Callable[[str, str], bool] | None = None,
    progress: Progress | None = None,
) -> Report:
    """Check the index against itself and against the snapshot in `coverage`.

    `standing`: of the index; recorded files are compared with the snapshot if it is `COMPLETE` and the
    snapshot is of the covered version. `at_head`: the snapshot is the newest, so its files must exist.
    `samples`: number of (file, column, row) values read again; `derive`: number of (file, column) pairs whose
    postings are derived again as a whole; if `wanted` is given, all pairs of path and column id for which it
    is True. `seed` makes both choices repeatable. Cost: reads every index file twice, once for its checksums
    and once for its postings, and at most `samples` row groups and `derive` columns of data.
    """
    report = Report(version=coverage.snapshot.version, state=standing.value)
    for damage in coverage.damages:
        report.note(Problem.of(damage))
    source = _source(coverage, storage, at_head)
    try:
        for problem in _check_checksums(index, report):
            report.note(problem)
        rng = random.Random(seed)
        for problem in _check(index, coverage, source, standing, report, samples, rng, progress):
            report.note(problem)
        columns = indexed_columns_of(index.settings.definitions, coverage.snapshot.schema)
        for problem in check_derived(coverage.spaces, columns, source, wanted, derive, rng, report):
            report.note(problem)
    except CorruptIndexError as damage:
        report.note(Problem.of(damage))
    return report


def _check_checksums(index: IndexState, report: Report) -> Iterator[Problem]:
    """Read every live file of the index, and yield the damaged ones. Memory: one row group."""
    for path in sorted(index.files):
        try:
            with reading(path), open_index_file(index.storage, path) as file:
                for group in range(file.metadata.num_row_groups):
                    file.read_row_group(group)
        except CorruptIndexError as damage:
            yield Problem.of(damage)
        report.files_read += 1


def _ids(index: IndexState) -> list[str]:
    return [definition.id for definition in index.settings.definitions if definition.has_postings]


def _source(coverage: Coverage, storage: Storage, at_head: bool) -> CheckedSource:
    """Return the source for the checks of the kinds: its files, and readers of their hidden rows.

    Hidden rows are read from the source, not the index.
    """
    snapshot = coverage.snapshot
    hidden_of = HiddenRowsOf(snapshot, storage, None, Damages())
    hidden = {}
    for number in snapshot.files.with_hidden.tolist():
        vector = snapshot.files.hidden(number)
        assert vector is not None
        hidden[vector.id] = partial(hidden_of, number)
    schema = snapshot.schema
    expressions = [
        term for definition in coverage.definitions for term in kept_expressions(definition, schema)
    ]
    return CheckedSource(storage, snapshot.files, hidden, at_head, schema.leaves(), expressions)


def _check(
    index: IndexState,
    coverage: Coverage,
    source: CheckedSource,
    standing: Standing,
    report: Report,
    samples: int,
    rng: random.Random,
    progress: Progress | None,
) -> Iterator[Problem]:
    """Run every check; the records come first, because the other checks rest on them."""
    definitions = index.settings.definitions
    columns = {c.id: c for c in indexed_columns_of(definitions, coverage.snapshot.schema)}
    ids = _ids(index)
    for kind in index.kinds:
        yield from kind.check(index, source)
    yield from check_recorded(index, coverage, standing)
    claims = claims_of(index)
    report.files, report.spaces = len(index.recorded), len(claims)
    yield from check_claims(claims)
    waiting = any(record.counted and record.space is None for record in index.recorded.live())
    steps = len(claims) * len(ids)
    for number, column in enumerate(ids):
        counted = index.settings.definition(column).has_counts
        expected = Expected(_key_type(index, column, columns.get(column)), known=counted)
        for step, space in enumerate(sorted(claims)):
            if progress is not None:
                progress(number * len(claims) + step, steps)
            yield from check_postings(index, space, column, claims[space], expected, report)
        # Files that wait to be posted again are still counted, but in no posting.
        if not waiting:
            yield from check_counts(index, column, expected, report)
    yield from check_sample(coverage.spaces, ids, columns, source, samples, rng, report)
    if progress is not None:
        progress(steps, steps)


def _key_type(index: IndexState, column: str, now: Column | None) -> str:
    """Return the key type in which counts are compared: that of the present column, else of the settings."""
    stored = index.settings.definition(column).key_type
    return posting_type_of(now.type) if now is not None and widens(stored, now.type) else stored
