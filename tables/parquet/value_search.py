"""Positions of the rows of data files that pass conditions.

The chunks that the tests of a condition need are assembled in memory as one Parquet file. Its columns are
decoded as they are stored, or as the results of tested dictionaries, and never become values of the table's
types: pyarrow decodes and numpy compares them or, where that is worth a question, Polars does both. NULL
counts as FALSE: only the rows that pass are needed, and no NOT is applied to other parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow._parquet import ParquetReader

from tailbit.base.arrays import Ints, Longs, Mask
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import DataFileError, LegacyCalendarError, StorageError
from tailbit.tables import compute as pc
from tailbit.tables.ahead import in_order
from tailbit.tables.arrow import numpy_of
from tailbit.tables.model import FileSlice
from tailbit.tables.parquet.assembly import CHECKED, MASK, MASK_LEAF, Assembly, failures, polars
from tailbit.tables.parquet.column_codes import Used, in_batches, values_of
from tailbit.tables.parquet.condition import (
    AllOf,
    Condition,
    Floats,
    Form,
    Numbers,
    Stored,
    Test,
    each_test,
    form_of,
)
from tailbit.tables.parquet.data_file import named_file, open_layout
from tailbit.tables.parquet.layout import DictionaryPage, Layout, Pages
from tailbit.tables.parquet.row_selection import quicker_tested
from tailbit.tables.parquet.rows import Positions
from tailbit.tables.storage import Storage

if TYPE_CHECKING:
    from types import ModuleType

    from polars import Expr

T = TypeVar("T")
V = TypeVar("V", Mask, "Expr")

PASSES, FAILS = 1, 0
"""The values of a replaced dictionary."""


def passing_rows(
    data: bytes, condition: Condition, forms: Sequence[Form], masked: bool, library: ModuleType | None
) -> npt.NDArray[np.integer]:
    """Return the numbers of the rows of a file that pass a condition, ascending.

    `forms`: of the tested columns, which are the first columns of the file, in the order of `each_test`.
    `masked`: only rows that the last column marks count. `library`: Polars, if it is to read the file.

    Raises:
        pyarrow.ArrowException, OSError, ValueError, or `failures` of Polars: the file cannot be read.
    """
    if library is None:
        masks = list(_passing_masks(data, condition, forms, masked))
        return np.flatnonzero(np.concatenate([np.zeros(0, np.bool_), *masks]))
    passes = expression(library, condition, forms)
    scan = library.scan_parquet(data, **_PLAINLY, row_index_name=_ROW)
    if masked:
        rows = scan.filter(library.col(MASK) & passes).select(_ROW)
    else:
        rows = scan.select(passes.arg_true())
    return np.asarray(rows.collect().to_series(0).to_numpy())


def passing_count(
    data: bytes, condition: Condition, forms: Sequence[Form], masked: bool, library: ModuleType | None
) -> int:
    """Count the rows that `passing_rows` returns, in less time."""
    if library is None:
        masks = _passing_masks(data, condition, forms, masked)
        return sum(int(np.count_nonzero(passes)) for passes in masks)
    scan = library.scan_parquet(data, **_PLAINLY)
    scan = scan.filter(library.col(MASK)) if masked else scan
    return int(scan.select(expression(library, condition, forms).sum()).collect().item())


_ROW = "row"
_PLAINLY = {"use_statistics": False, "glob": False, "hive_partitioning": False}
"""Options for Polars: an assembled file has no statistics, and its bytes are no path."""


def _passing_masks(data: bytes, condition: Condition, forms: Sequence[Form], masked: bool) -> Iterator[Mask]:
    """Yield per row group of a file which rows pass a condition."""
    tests = each_test(condition)
    reader = ParquetReader()
    # No thread of Arrow reads these bytes: see `ParquetFile`.
    reader.open(pa.BufferReader(data), pre_buffer=False)
    for group in range(reader.metadata.num_row_groups):
        table = reader.read_row_groups([group], use_threads=False)
        if table.num_rows != reader.metadata.row_group(group).num_rows:
            raise ValueError(f"{table.num_rows} rows can be read of row group {group}")
        if table.num_rows:
            columns = [pa.concat_arrays(values.chunks) for values in table.columns]
            tested = zip(tests, columns, forms, strict=False)
            passes = _joined(condition, {id(t): _passing_mask(t, v, f.coded) for t, v, f in tested})
            yield passes & numpy_of(columns[-1]) if masked else passes


def expression(library: ModuleType, condition: Condition, forms: Sequence[Form]) -> Expr:
    """Translate a condition into an expression of Polars that is true or false for each row."""
    tests = zip(each_test(condition), forms, strict=True)
    passes: Mapping[int, Expr] = {
        id(test): _tested_by_polars(library, number, test, form) for number, (test, form) in enumerate(tests)
    }
    return _joined(condition, passes)


def _tested_by_polars(library: ModuleType, number: int, test: Test, form: Form) -> Expr:
    column: Expr = library.col(str(number))
    passes: Expr = column == PASSES if form.coded else _in_ranges(library, column, form, test.stored)
    passes = ~passes if test.complement and not form.coded else passes
    if form.nullable:
        passes = passes | column.is_null() if test.nulls else passes & column.is_not_null()
    return passes


def _in_ranges(library: ModuleType, column: Expr, form: Form, stored: Stored | None) -> Expr:
    if isinstance(stored, Floats):
        column, dtype, least, most = column.cast(library.Float64), library.Float64, -math.inf, math.inf
        ranges: Sequence[tuple[float, float]] = stored.ranges
        # NaN is tested explicitly, so that nothing depends on how Polars orders it.
        tests = [column.is_nan()] if stored.nan else []
        and_number: Expr | bool = column.is_not_nan()
    else:
        assert isinstance(stored, Numbers)
        name = {"BOOLEAN": "Int8", "INT32": "Int32"}.get(form.type, "Int64")
        dtype, span, and_number = getattr(library, name), np.iinfo(name.lower()), True
        least, most, column = span.min, span.max, column.cast(dtype)
        points, ranges = stored.within(least, most)
        tests = [column.is_in(library.Series(points, dtype=dtype).implode())] if len(points) else []
    for low, high in ranges:
        above, below = (column >= library.lit(low, dtype)), (column <= library.lit(high, dtype))
        inside = below if low == least else above if high == most else above & below
        tests.append(inside & and_number)
    if not tests:  # Polars makes one value of an expression without a column
        return column.is_null() & column.is_not_null()
    inside_any: Expr = reduce(or_, tests)
    return inside_any


def _joined(condition: Condition, tested: Mapping[int, V]) -> V:
    """Join what tests say of rows; `tested`: by the identity of the test."""
    if isinstance(condition, Test):
        return tested[id(condition)]
    operands = [_joined(operand, tested) for operand in condition.children]
    return reduce(and_ if isinstance(condition, AllOf) else or_, operands)


def _passing_mask(test: Test, values: pa.Array, coded: bool) -> Mask:
    if coded:
        passes: Mask = _plain(values) == PASSES
    else:
        passes = _stored_mask(values, test)
        passes = ~passes if test.complement else passes
    if values.null_count:
        valid = numpy_of(pc.is_valid(values))
        passes = passes | ~valid if test.nulls else passes & valid
    return passes


def _plain(values: pa.Array) -> npt.NDArray[Any]:
    """Return numbers or booleans as a numpy array, with any value in the place of NULL."""
    if not values.null_count:
        return numpy_of(values)
    _, data = values.buffers()
    return numpy_of(pa.Array.from_buffers(values.type, len(values), [None, data], offset=values.offset))


def _stored_mask(values: pa.Array, test: Test) -> Mask:
    """Return whether each value is among the test's stored values; the result for NULL is arbitrary."""
    stored = test.stored
    numbers = _plain(values)
    if isinstance(stored, Floats):
        return _floats_mask(numbers.astype(np.float64, copy=False), stored)
    assert isinstance(stored, Numbers)
    return _numbers_mask(numbers.view(np.int8) if numbers.dtype == bool else numbers, stored)


def _floats_mask(numbers: npt.NDArray[np.float64], floats: Floats) -> Mask:
    passes: Mask = np.isnan(numbers) if floats.nan else np.zeros(len(numbers), bool)
    for low, high in floats.ranges:
        passes |= (numbers >= low) & (numbers <= high)
    return passes


def _numbers_mask(numbers: npt.NDArray[Any], stored: Numbers) -> Mask:
    passes: Mask = np.zeros(len(numbers), bool)
    span = np.iinfo(numbers.dtype)
    points, wider = stored.within(span.min, span.max)
    for low, high in wider:
        passes |= _between_mask(numbers, low, high, span)
    if len(points) > _FEW_POINTS:
        passes |= np.isin(numbers, points.astype(numbers.dtype))
    else:
        for point in points.astype(numbers.dtype):
            passes |= numbers == point
    return passes


_FEW_POINTS = 8
"""Up to this many numbers are compared one by one, in less time than they are looked up."""


def _between_mask(numbers: npt.NDArray[Any], low: int, high: int, span: np.iinfo[Any]) -> Mask:
    of = numbers.dtype.type
    if low == span.min:
        below: Mask = numbers <= of(high)
        return below
    above: Mask = numbers >= of(low)
    return above if high == span.max else above & (numbers <= of(high))


@dataclass(frozen=True, eq=False)
class Search:
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
    search: Search
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
        forms = tuple(form[1:] for form in self.forms)
        return id(search.condition), search.among is None, forms, self.layout.form


_ROWS_BY_ARROW, _ROWS_BY_POLARS = 1 << 20, 8 << 20
"""Most rows that are decoded at once, by one core or by Polars, which divides its work among the cores."""


class Passing(NamedTuple):
    """Ascending positions of rows that pass; `all_tested`: whether the whole condition was tested."""

    positions: Positions
    all_tested: bool


def find(storage: Storage, files: Sequence[Search]) -> list[Passing | None]:
    """Return the physical positions of the rows that pass per file, hidden rows included.

    Parts of an AND that a file does not let be tested are left out. None where nothing can be tested, or the
    tests would have to raise an error that the data causes: then the caller must decode values. Cost: the
    compressed chunks of the tests are copied, and decoded on all cores. Memory: some 28 MB, or a row group,
    for each core and three more; 8 bytes per row that passes.
    """
    parts_of_files: list[list[Positions]] = [[] for _ in files]
    unable, partly = set[int](), set[int]()
    groups = list(_groups(storage, files, unable, partly))
    for batch, rows in _tested_batches(storage, groups, passing_rows):
        if rows is None:
            unable.update(group.file for group in batch)
        for file, positions in () if rows is None else _by_file(batch, rows):
            parts_of_files[file].append(positions)
    return [
        None if file in unable else Passing(_in_one(positions), file not in partly)
        for file, positions in enumerate(parts_of_files)
    ]


def _in_one(arrays: Sequence[Positions]) -> Positions:
    return arrays[0] if len(arrays) == 1 else np.concatenate([np.zeros(0, np.uint64), *arrays])


def _groups(
    storage: Storage, files: Sequence[Search], unable: set[int], partly: set[int]
) -> Iterator[_Group]:
    """Yield the row groups of files whose columns can be tested; add the numbers of others to `unable`.

    `partly`: gets the numbers of the files that let only some parts of an AND be tested.
    """
    conditions: dict[tuple[int, ...], Condition] = {}
    for number, search in enumerate(files):
        layout, whole = open_layout(storage, search.slice_.path, search.slice_.size), search.condition
        with named_file(storage, search.slice_.path):
            forms = {
                id(test): form_of(storage, layout, search.slice_.path, test, search.groups)
                for test in each_test(whole)
            }
        conjuncts = whole.children if isinstance(whole, AllOf) else (whole,)
        testable = [c for c in conjuncts if all(forms[id(test)] is not None for test in each_test(c))]
        if not testable:
            unable.add(number)
            continue
        if len(testable) < len(conjuncts):
            partly.add(number)
            reduced = testable[0] if len(testable) == 1 else AllOf(testable)
            # Files with the same tests are searched together.
            whole = conditions.setdefault(tuple(map(id, testable)), reduced)
        tested = tuple(form for test in each_test(whole) if (form := forms[id(test)]) is not None)
        for group in search.groups:
            yield _Group(number, replace(search, condition=whole), layout, tested, group)


def count_passing(storage: Storage, files: Sequence[Search]) -> int | None:
    """Count the rows that pass in all files, hidden rows included; None if a file lets not all be tested.

    Arguments, cost, memory and errors: as `find`, without the positions.
    """
    unable = set[int]()
    groups, total = list(_groups(storage, files, unable, unable)), 0
    for _, count in _tested_batches(storage, [] if unable else groups, passing_count):
        if count is None:
            return None
        total += count
    return None if unable else total


def _tested_batches(
    storage: Storage,
    groups: Sequence[_Group],
    answer: Callable[[bytes, Condition, Sequence[Form], bool, ModuleType | None], T],
) -> Iterator[tuple[Sequence[_Group], T | None]]:
    """Yield the row groups in batches, with what `answer` says of each; None if anything fails."""
    chunks = [group.layout.chunk(group.number, form.leaf) for group in groups for form in group.forms]
    size, values = sum(chunk.unpacked for chunk in chunks), sum(chunk.values for chunk in chunks)
    checked = all(chunk.codec in CHECKED for chunk in chunks)
    library = polars() if checked and quicker_tested(size, values) else None
    failed_in_polars = () if library is None else failures(library)
    failed = (pa.ArrowException, OSError, ValueError, KeyError, StorageError, DataFileError)

    def tested(batch: Sequence[_Group], _: bool) -> tuple[Sequence[_Group], T | None]:
        search, forms = batch[0].search, batch[0].forms
        try:
            data = _assembled(storage, batch)
            if data is None:
                return batch, None
            return batch, answer(data, search.condition, forms, search.among is not None, library)
        except (*failed, LegacyCalendarError, *failed_in_polars):
            return batch, None

    batches = in_batches(groups, _ROWS_BY_ARROW if library is None else _ROWS_BY_POLARS)
    return in_order(partial(tested, batch) for batch in batches)


def _by_file(batch: Sequence[_Group], rows: npt.NDArray[np.integer]) -> Iterator[tuple[int, Positions]]:
    """Yield rows of the file in memory as positions in files."""
    begins = np.concatenate([[0], np.cumsum([group.rows for group in batch])])
    cuts = np.searchsorted(rows, begins).tolist()
    for group, begin, low, high in zip(batch, begins.tolist(), cuts[:-1], cuts[1:], strict=False):
        positions = rows[low:high].astype(np.int64)
        positions += group.start - begin
        yield group.file, positions.view(np.uint64)


def _assembled(storage: Storage, batch: Sequence[_Group]) -> bytes | None:
    """Assemble the chunks of the tests as one Parquet file; None if the test of a dictionary value raises."""
    out, tests = Assembly(), each_test(batch[0].search.condition)
    replaced: dict[int, list[tuple[Pages, Ints]]] = {}
    for n, (test, form) in enumerate(zip(tests, batch[0].forms, strict=True)):
        if form.coded:
            tested = _tested_dictionaries(storage, batch, n, test)
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
    leaves = [form.written(str(n)) for n, form in enumerate(batch[0].forms)]
    return out.done(storage, leaves if batch[0].search.among is None else [*leaves, MASK_LEAF])


def _rows_in(group: _Group) -> Longs:
    among = group.search.among
    assert among is not None
    low, high = np.searchsorted(among, np.array([group.start, group.start + group.rows], np.uint64))
    return among[low:high].astype(np.int64) - group.start


def _tested_dictionaries(
    storage: Storage, batch: Sequence[_Group], place: int, test: Test
) -> list[tuple[Pages, Ints]] | None:
    """Return per row group a column's pages and the test result of each value of its dictionary.

    None if the pages or dictionary of a chunk are not known, or if the test of a value raises.
    """
    chunks: list[tuple[Pages, DictionaryPage, Used]] = []
    for group in batch:
        leaf, path = group.forms[place].leaf, group.search.slice_.path
        with storage.open(storage.resolve(path)) as source:
            pages = group.layout.pages(source, group.number, leaf)
        if pages is None or pages.dictionary is None:
            return None
        codec, codes = group.layout.chunk(group.number, leaf).codec, np.arange(pages.dictionary.values)
        chunks.append((pages, pages.dictionary, Used(path, pages.dictionary, codec, codes)))
    used = [column for _, _, column in chunks if len(column.codes)]
    values = values_of(storage, batch[0].layout, batch[0].forms[place].leaf, test.column, used)
    sizes = [page.values for _, page, _ in chunks]
    passes = test.passes(values) if len(values) == sum(sizes) else None
    if passes is None:
        return None
    results = np.split(np.where(passes, PASSES, FAILS).astype(np.int32), np.cumsum(sizes)[:-1])
    return [(pages, result) for (pages, _, _), result in zip(chunks, results, strict=True)]
