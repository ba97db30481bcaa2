"""Comparison of an index with the data: records, postings, value counts, a sample of values.

Traces of a commit to the index that its log no longer has, such as a newest commit that was deleted. What is
left of the index is whole, and of an earlier version of its table: no answer is wrong, and the indexer does
the work again. Only the files that the lost commit wrote tell of it, until they are swept.

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
from tailbit.index.index_files import open_index_file
from tailbit.index.keys import posting_type_of, widens
from tailbit.index.kinds.kind import CheckedSource, Problem, reading
from tailbit.index.kinds.ledger import LEDGER, ledger_from_arrow
from tailbit.index.maintenance.checks import (
    Expected,
    Report,
    check_claims,
    check_counts,
    check_derived,
    check_postings,
    check_recorded,
    check_sample,
    claims_of,
)
from tailbit.index.model import Standing
from tailbit.index.query.coverage import Coverage, HiddenRowsOf
from tailbit.index.query.damages import Damages
from tailbit.index.sql.terms import indexed_columns_of, kept_expressions
from tailbit.index.store.state import IndexState
from tailbit.tables.model import Column
from tailbit.tables.storage import Storage


def ledgers_without_a_commit(index: IndexState) -> set[str]:
    """Return the ledger files on disk that are later than the index's own, and that no commit names.

    A writer in the middle of a commit has one for a moment; one that was interrupted leaves it behind. Cost:
    one listing, and a read of each unnamed file that is not older than the ledger.
    """
    folder = f"kind={LEDGER.name}"
    entries = {f"{folder}/{entry.name}": entry.mtime_ms for entry in index.storage.list(folder)}
    newest = 0 if index.ledger is None else index.ledger.seq
    since = max((entries[path] for path in entries.keys() & index.files.keys()), default=0)
    later = (path for path, mtime in entries.items() if mtime >= since and path not in index.files)
    return {path for path in later if _seq(index, path) > newest}


def _seq(index: IndexState, path: str) -> int:
    """Return the number of the commit that a ledger file was written for; -1 if it cannot be read."""
    try:
        ledger = ledger_from_arrow(LEDGER.read(index.storage, path))
    except CorruptIndexError:
        return -1
    return -1 if ledger is None else ledger.seq


def lost_commits(index: IndexState, before: set[str]) -> Iterator[str]:
    """Yield a note if some ledger files of `ledgers_without_a_commit` still have no commit.

    `index`: as its log says now.
    """
    if before & ledgers_without_a_commit(index):
        yield (
            "the files of a later commit are there, and the log of the index has no such commit: it was "
            "deleted, or its writer was interrupted. What is left is of an earlier version, and the indexer "
            "does the rest again; changes of columns and of indexes by name since then are lost"
        )


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
    chosen_by: Callable[[str, str], bool] | None = None,
    progress: Progress | None = None,
) -> Report:
    """Check the index against itself and against the snapshot in `coverage`.

    `standing`: of the index; recorded files are compared with the snapshot if it is `COMPLETE` and the
    snapshot is of the covered version. `at_head`: the snapshot is the newest, so its files must exist.
    `samples`: number of (file, column, row) values read again; `derive`: number of (file, column) pairs whose
    postings are derived again as a whole; with `chosen_by`, all whose path and column id satisfy it. `seed`
    makes both choices repeatable. Cost: reads every index file twice, once for its checksums
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
        for problem in check_derived(coverage.spaces, columns, source, chosen_by, derive, rng, report):
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
        expected = Expected(_key_type(index, column, columns.get(column)), complete=counted)
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
