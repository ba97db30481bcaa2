"""Positions of the rows of data files that pass conditions.

The chunks that the tests need are assembled in memory as one Parquet file, and Polars filters its rows, or
pyarrow decodes them (see `by_arrow`): for a test on stored values, these are never converted to the table's
types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.arrays import Ints, Longs
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import DataFileError, LegacyCalendarError, StorageError
from tailbit.base.lazy import lazy
from tailbit.tables.ahead import in_order
from tailbit.tables.model import FileSlice
from tailbit.tables.parquet.column_codes.row_groups import in_batches
from tailbit.tables.parquet.data_file import named_file, open_layout
from tailbit.tables.parquet.layout import DictionaryPage, Layout, Pages
from tailbit.tables.parquet.row_assembly.assembly import Assembly
from tailbit.tables.parquet.row_assembly.by_polars import (
    MASK_LEAF,
    failures,
    passing_count,
    passing_rows,
    polars,
)
from tailbit.tables.parquet.rows import Positions
from tailbit.tables.parquet.value_search import by_arrow
from tailbit.tables.parquet.value_search.condition import Condition, Numbers, Test, each_test
from tailbit.tables.parquet.value_search.expressions import FAILS, PASSES, Names, expression
from tailbit.tables.parquet.value_search.forms import Form, form_of
from tailbit.tables.storage import Storage

if TYPE_CHECKING:
    from types import ModuleType

    from tailbit.tables.parquet.column_codes import dictionaries
else:
    dictionaries = lazy("tailbit.tables.parquet.column_codes.dictionaries")

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Sought:
    """A search for the rows of a file that pass a condition, in some row groups and at some positions.

    Files with the same condition object may be searched together.
    """

    slice_: FileSlice
    condition: Condition
    groups: Sequence[int]
    among: Positions | None = None


class _Group(NamedTuple):
    """A row group to be searched: the number of its file, the search, and the forms of the tested columns."""

    file: int
    search: Sought
    layout: Layout
    forms: tuple[Form, ...]
    number: int

    @property
    def start(self) -> int:
        return int(self.layout.starts[self.number])

    @property
    def rows(self) -> int:
        return int(self.layout.starts[self.number + 1]) - self.start

    @property
    def packed(self) -> int:
        return sum(self.layout.chunk(self.number, form.leaf).packed for form in self.forms)

    @property
    def form(self) -> tuple[object, ...]:
        """A key that is equal for row groups that one file can hold."""
        search = self.search
        written = tuple((form.written, form.coded) for form in self.forms)
        return id(search.condition), search.among is None, written, self.layout.form


_ROWS_BY_ARROW = 1 << 20
"""Most rows that one core decodes at once with pyarrow; Polars divides its work among the cores itself."""


def find(storage: Storage, files: Sequence[Sought], by_polars: bool = True) -> list[Positions | None]:
    """Return the ascending physical positions of the rows that pass per file, hidden rows included.

    The positions are None if the reader cannot tell, or would have to raise an error that the data causes:
    then the caller must decode values. `by_polars`: whether Polars is the reader, or pyarrow. Cost: the
    compressed chunks of the tests are copied, and decoded on all cores. Memory: some 28 MB, or a row group,
    for each core and three more; 8 bytes per row that passes.

    Raises:
        DataFileError: a file is missing, not of the size in the log, or not Parquet.
    """
    parts_of_files: list[list[Positions]] = [[] for _ in files]
    unable: set[int] = set()
    if not files or (by_polars and polars() is None):
        return [None for _ in files]

    def look(batch: Sequence[_Group], _: bool) -> tuple[Sequence[_Group], list[tuple[int, Positions]] | None]:
        return batch, _found(storage, batch, by_polars)

    for batch, parts in in_order(
        partial(look, batch) for batch in _batches(_groups(storage, files, unable), by_polars)
    ):
        if parts is None:
            unable.update(group.file for group in batch)
        for file, part in parts or ():
            parts_of_files[file].append(part)
    return [None if file in unable else _joined(parts) for file, parts in enumerate(parts_of_files)]


def _batches(groups: Iterator[_Group], by_polars: bool) -> Iterator[list[_Group]]:
    return in_batches(groups) if by_polars else in_batches(groups, _ROWS_BY_ARROW)


def _joined(parts: Sequence[Positions]) -> Positions:
    return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, np.uint64), *parts])


def _groups(storage: Storage, files: Sequence[Sought], unable: set[int]) -> Iterator[_Group]:
    """Yield the row groups of files whose columns can be tested; add the numbers of others to `unable`."""
    for number, search in enumerate(files):
        layout = open_layout(storage, search.slice_.path, search.slice_.size)
        with named_file(storage, search.slice_.path):
            forms = [
                form_of(storage, layout, search.slice_.path, test, search.groups, str(n))
                for n, test in enumerate(each_test(search.condition))
            ]
        known = tuple(form for form in forms if form is not None)
        if len(known) < len(forms):
            unable.add(number)
            continue
        yield from (_Group(number, search, layout, known, group) for group in search.groups)


def count_passing(storage: Storage, files: Sequence[Sought], by_polars: bool) -> int | None:
    """Count the rows that pass in all files, hidden rows included; None if the reader cannot tell.

    Arguments, cost, memory and errors: as `find`, without the positions.
    """
    unable: set[int] = set()
    if by_polars and polars() is None:
        return None
    total, batches = 0, _batches(_groups(storage, files, unable), by_polars)
    for counted in in_order(partial(_count, storage, batch, by_polars) for batch in batches):
        if counted is None:
            return None
        total += counted
    return None if unable else total


def _count(storage: Storage, batch: Sequence[_Group], by_polars: bool, _: bool) -> int | None:
    masked = batch[0].search.among is not None

    def ask(library: ModuleType | None, data: bytes, condition: Condition, names: Names) -> int:
        if library is None:
            return by_arrow.passing_count(data, condition, names, masked)
        return passing_count(library, data, expression(library, condition, names), masked)

    return _queried(storage, batch, by_polars, ask)


def _found(storage: Storage, batch: Sequence[_Group], by_polars: bool) -> list[tuple[int, Positions]] | None:
    """Return the passing positions per file number; None if anything fails."""
    masked = batch[0].search.among is not None

    def ask(
        library: ModuleType | None, data: bytes, condition: Condition, names: Names
    ) -> npt.NDArray[np.uint32]:
        if library is None:
            return by_arrow.passing_rows(data, condition, names, masked)
        passes = expression(library, condition, names)
        return passing_rows(library, data, passes, masked, few=_is_point(condition))

    rows = _queried(storage, batch, by_polars, ask)
    return None if rows is None else list(_by_file(batch, rows))


def _is_point(condition: Condition) -> bool:
    """Return whether the condition selects a single stored number."""
    if not isinstance(condition, Test) or not isinstance(condition.stored, Numbers) or condition.nulls:
        return False
    ranges = condition.stored.ranges
    return not condition.complement and len(ranges) == 1 and ranges[0][0] == ranges[0][1]


def _queried(
    storage: Storage,
    batch: Sequence[_Group],
    by_polars: bool,
    ask: Callable[[ModuleType | None, bytes, Condition, Names], T],
) -> T | None:
    """Assemble the row groups as a file in memory, and query it with `ask`; None if anything fails."""
    library = polars() if by_polars else None
    if by_polars and library is None:
        return None
    failed = (pa.ArrowException, OSError, ValueError, KeyError, StorageError, DataFileError)
    failed_in_polars = failures(library) if library else ()
    try:
        condition, first = batch[0].search.condition, batch[0]
        schema = first.layout.metadata.schema
        names = {
            id(test): (str(n), str(schema.column(form.leaf).physical_type), form)
            for n, (test, form) in enumerate(zip(each_test(condition), first.forms, strict=True))
        }
        data = _assembled(storage, batch)
        return None if data is None else ask(library, data, condition, names)
    except (*failed, LegacyCalendarError, *failed_in_polars):
        return None


def _by_file(batch: Sequence[_Group], rows: npt.NDArray[np.uint32]) -> Iterator[tuple[int, Positions]]:
    """Yield rows of the file in memory as positions in files; adjacent row groups are one piece.

    For example, row groups of 3 and 4 rows that begin at rows 10 and 13 of one file are a single piece,
    shifted by 10: rows 1 and 5 in memory are positions 11 and 15.
    """
    begins = np.concatenate([[0], np.cumsum([group.rows for group in batch])])
    shifts = [(group.file, group.start - begin) for group, begin in zip(batch, begins.tolist(), strict=False)]
    firsts = [n for n, shift in enumerate(shifts) if not n or shift != shifts[n - 1]]
    cuts = np.searchsorted(rows, begins[[*firsts, -1]]).tolist()
    for first, low, high in zip(firsts, cuts[:-1], cuts[1:], strict=True):
        file, shift = shifts[first]
        positions = rows[low:high].astype(np.int64)
        positions += shift
        yield file, positions.view(np.uint64)


def _assembled(storage: Storage, batch: Sequence[_Group]) -> bytes | None:
    """Assemble the chunks of the tests as one Parquet file; None if the test of a dictionary value raises."""
    out, tests = Assembly(), each_test(batch[0].search.condition)
    replaced: dict[int, list[tuple[Pages, Ints]]] = {}
    for n, (test, form) in enumerate(zip(tests, batch[0].forms, strict=True)):
        if form.coded:
            tested = _tested(storage, batch, n, test)
            if tested is None:
                return None
            replaced[n] = tested
    for order, group in enumerate(batch):
        path = group.search.slice_.path
        for n, form in enumerate(group.forms):
            chunk = group.layout.chunk(group.number, form.leaf)
            if chunk.values != group.rows:
                raise ValueError(f"a chunk has {chunk.values} values in {group.rows} rows")
            if form.coded:
                pages, passes = replaced[n][order]
                out.add_numbers(passes, pages, chunk.codec, path)
            else:
                out.add_chunk(chunk, path)
        if group.search.among is not None:
            out.add_mask(_rows_in(group), group.rows)
        out.end_row_group(group.rows)
    leaves = [form.written for form in batch[0].forms]
    return out.done(storage, leaves if batch[0].search.among is None else [*leaves, MASK_LEAF])


def _rows_in(group: _Group) -> Longs:
    among = group.search.among
    assert among is not None
    low, high = np.searchsorted(among, np.array([group.start, group.start + group.rows], np.uint64))
    return among[low:high].astype(np.int64) - group.start


def _tested(
    storage: Storage, batch: Sequence[_Group], place: int, test: Test
) -> list[tuple[Pages, Ints]] | None:
    """Return per row group a column's pages and the test result of each value of its dictionary.

    None if the pages or dictionary of a chunk are not known, or if the test of a value raises.
    """
    known: list[tuple[Pages, DictionaryPage, dictionaries.Used]] = []
    for group in batch:
        leaf, path = group.forms[place].leaf, group.search.slice_.path
        with storage.open(storage.resolve(path)) as source:
            pages = group.layout.pages(source, group.number, leaf)
        if pages is None or pages.dictionary is None:
            return None
        codec, codes = group.layout.chunk(group.number, leaf).codec, np.arange(pages.dictionary.values)
        known.append((pages, pages.dictionary, dictionaries.Used(path, pages.dictionary, codec, codes)))
    used = [column for _, _, column in known if len(column.codes)]
    values = dictionaries.values_of(storage, batch[0].layout, batch[0].forms[place].leaf, test.column, used)
    sizes = [page.values for _, page, _ in known]
    passes = test.passes(values) if len(values) == sum(sizes) else None
    if passes is None:
        return None
    parts = np.split(np.where(passes, PASSES, FAILS).astype(np.int32), np.cumsum(sizes)[:-1])
    return [(pages, part) for (pages, _, _), part in zip(known, parts, strict=True)]
