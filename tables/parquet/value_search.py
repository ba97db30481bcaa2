"""Positions of the rows of data files that pass conditions.

Translation of a condition into a Polars expression over columns in their forms. NULL in Polars counts as
FALSE here: only the rows that pass are needed, and no NOT is applied to other parts. NaN is tested
explicitly, so that nothing depends on how Polars orders it.

Test of stored values with pyarrow and numpy, for processes that have not loaded Polars. Importing Polars
takes longer than it takes pyarrow to decode some ten million numbers.

The chunks that the tests need are assembled in memory as one Parquet file, and Polars filters its rows, or
pyarrow decodes them: for a test on stored values, these are never converted to the table's
types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
from tailbit.tables.arrow import arrow_array, arrow_scalar, numpy_of
from tailbit.tables.model import FileSlice
from tailbit.tables.parquet.assembly import MASK_LEAF, Assembly, failures, passing_count, passing_rows, polars
from tailbit.tables.parquet.column_codes import Used, in_batches, values_of
from tailbit.tables.parquet.condition import (
    AllOf,
    Condition,
    Floats,
    Form,
    Numbers,
    Test,
    Texts,
    TextSearch,
    each_test,
    form_of,
)
from tailbit.tables.parquet.data_file import named_file, open_layout
from tailbit.tables.parquet.layout import DictionaryPage, Layout, Pages
from tailbit.tables.parquet.rows import Positions
from tailbit.tables.storage import Storage

if TYPE_CHECKING:
    from types import ModuleType

    from polars import Expr


PASSES, FAILS = 1, 0
"""The values of a replaced dictionary."""
_BITS = {"INT32": 31, "INT64": 63}


Names = Mapping[int, tuple[str, str, Form]]
"""The name in the file, physical type and form of each tested column, by the identity of its test."""


def expression(library: ModuleType, condition: Condition, names: Names) -> Expr:
    """Translate a condition into an expression that is true for the rows that pass."""
    if not isinstance(condition, Test):
        operands = [expression(library, operand, names) for operand in condition.children]
        return reduce(and_ if isinstance(condition, AllOf) else or_, operands)
    name, physical, form = names[id(condition)]
    column: Expr = library.col(name)
    test = column == PASSES if form.coded else _stored(library, column, physical, condition)
    if condition.complement and not form.coded:
        test = column.is_not_null() if test is None else ~test
    null = column.is_null()
    if test is None:
        return null if condition.nulls else null & ~null
    return test | null if condition.nulls else test


def _stored(library: ModuleType, column: Expr, physical: str, test: Test) -> Expr | None:
    """Return the expression that a stored value is among the test's, NULL for NULL; None if none can be."""
    stored = test.stored
    if isinstance(stored, TextSearch):
        return _text_search(column, stored)
    if isinstance(stored, Floats):
        return _floats(library, column.cast(library.Float64), stored)
    if isinstance(stored, Texts):
        return _texts(library, column, stored)
    assert isinstance(stored, Numbers)
    if physical == "BOOLEAN":
        truths = [value for value in (False, True) if any(lo <= value <= hi for lo, hi in stored.ranges)]
        return _any([column if value else ~column for value in truths])
    bits, dtype = _BITS[physical], library.Int32 if physical == "INT32" else library.Int64
    least, most = -(1 << bits), (1 << bits) - 1
    points, wider = stored.within(least, most)
    found_in = [_between(library, column, dtype, lo, hi, least, most) for lo, hi in wider]
    return _any([*found_in, *_points(library, column, points, dtype)])


def _between(library: ModuleType, column: Expr, dtype: type, lo: int, hi: int, least: int, most: int) -> Expr:
    above: Expr = column >= library.lit(lo, dtype=dtype)
    below: Expr = column <= library.lit(hi, dtype=dtype)
    return below if lo == least else above if hi == most else above & below


def _points(library: ModuleType, column: Expr, points: Sequence[object] | Longs, dtype: type) -> list[Expr]:
    if len(points) == 1:
        return [column == library.lit(points[0], dtype=dtype)]
    return [column.is_in(library.Series(points, dtype=dtype).implode())] if len(points) else []


def _floats(library: ModuleType, column: Expr, floats: Floats) -> Expr | None:
    inside = _any([(column >= library.lit(lo)) & (column <= library.lit(hi)) for lo, hi in floats.ranges])
    numbers = None if inside is None else inside & column.is_not_nan()
    if not floats.nan:
        return numbers
    return column.is_nan() if numbers is None else numbers | column.is_nan()


def _text_search(column: Expr, search: TextSearch) -> Expr:
    conditions = [column.bin.size() >= len(search.begin) + len(search.end)]
    if search.begin:
        conditions.append(column.bin.starts_with(search.begin))
    if search.end:
        conditions.append(column.bin.ends_with(search.end))
    if search.middle:
        conditions.append(column.bin.contains(search.middle))
    return reduce(and_, conditions if search.begin and search.end else conditions[1:] or conditions)


def _texts(library: ModuleType, column: Expr, texts: Texts) -> Expr | None:
    points, wider = [], []
    for lo, lo_closed, hi, hi_closed in texts.ranges:
        if lo is not None and lo == hi:
            points.append(lo)
            continue
        ends = []
        if lo is not None:
            ends.append(column >= library.lit(lo) if lo_closed else column > library.lit(lo))
        if hi is not None:
            ends.append(column <= library.lit(hi) if hi_closed else column < library.lit(hi))
        wider.append(reduce(and_, ends) if ends else column >= library.lit(b""))
    return _any([*wider, *_points(library, column, points, library.Binary)])


def _any(operands: Sequence[Expr]) -> Expr | None:
    return reduce(or_, operands) if operands else None


def rows_by_arrow(data: bytes, condition: Condition, names: Names, masked: bool) -> npt.NDArray[np.uint32]:
    """Return the row numbers of a file for which a condition is true, ascending.

    `masked`: only rows that the last column marks count.

    Raises:
        pyarrow.ArrowException, OSError, ValueError: the file cannot be read.
    """
    before, rows = 0, [np.zeros(0, np.uint32)]
    for passes in _passing_masks(data, condition, names, masked):
        rows.append((np.flatnonzero(passes) + before).astype(np.uint32))
        before += len(passes)
    return np.concatenate(rows)


def count_by_arrow(data: bytes, condition: Condition, names: Names, masked: bool) -> int:
    """Count the rows of a file for which a condition is true; arguments and errors as in `passing_rows`."""
    return sum(int(np.count_nonzero(passes)) for passes in _passing_masks(data, condition, names, masked))


def _passing_masks(data: bytes, condition: Condition, names: Names, masked: bool) -> Iterator[Mask]:
    """Yield per row group which rows pass."""
    reader = ParquetReader()
    # No thread of Arrow reads these bytes: see `ParquetFile`.
    reader.open(pa.BufferReader(data), pre_buffer=False)
    for group in range(reader.metadata.num_row_groups):
        table = reader.read_row_groups([group], use_threads=False)
        if table.num_rows != reader.metadata.row_group(group).num_rows:
            raise ValueError(f"{table.num_rows} rows can be read of row group {group}")
        if table.num_rows:
            columns = [pa.concat_arrays(values.chunks) for values in table.columns]
            places_of_columns = {key: int(name) for key, (name, _, _) in names.items()}
            passes = _passing_mask(
                condition, {key: columns[place] for key, place in places_of_columns.items()}, names
            )
            yield passes & numpy_of(columns[-1]) if masked else passes


def _passing_mask(condition: Condition, columns: Mapping[int, pa.Array], names: Names) -> Mask:
    if not isinstance(condition, Test):
        masks = [_passing_mask(operand, columns, names) for operand in condition.children]
        joined: Mask = reduce(and_ if isinstance(condition, AllOf) else or_, masks)
        return joined
    values, form = columns[id(condition)], names[id(condition)][2]
    if form.coded:
        passes: Mask = _plain(values) == PASSES
    else:
        passes = _stored_mask(values, condition)
        passes = ~passes if condition.complement else passes
    if values.null_count:
        valid = numpy_of(pc.is_valid(values))
        passes = passes | ~valid if condition.nulls else passes & valid
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
    if isinstance(stored, Texts):
        return _texts_mask(values, stored)
    if isinstance(stored, TextSearch):
        return _part_mask(values, stored)
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
    if len(points) == 1:
        passes |= numbers == numbers.dtype.type(points[0])
    elif len(points):
        passes |= np.isin(numbers, points.astype(numbers.dtype))
    return passes


def _between_mask(numbers: npt.NDArray[Any], low: int, high: int, span: np.iinfo[Any]) -> Mask:
    of = numbers.dtype.type
    if low == span.min:
        below: Mask = numbers <= of(high)
        return below
    above: Mask = numbers >= of(low)
    return above if high == span.max else above & (numbers <= of(high))


def _texts_mask(values: pa.Array, texts: Texts) -> Mask:
    masks, points = [], list[bytes]()
    for low, low_closed, high, high_closed in texts.ranges:
        if low is not None and low == high:
            points.append(low)
            continue
        ends = []
        if low is not None:
            ends.append((pc.greater_equal if low_closed else pc.greater)(values, _text_scalar(low)))
        if high is not None:
            ends.append((pc.less_equal if high_closed else pc.less)(values, _text_scalar(high)))
        masks.append(_all_of(ends, len(values)))
    if len(points) == 1:
        masks.append(_bits(pc.equal(values, _text_scalar(points[0]))))
    elif points:
        masks.append(_bits(pc.is_in(values, value_set=arrow_array(points, pa.binary()))))
    return reduce(or_, masks, np.zeros(len(values), bool))


def _part_mask(values: pa.Array, search: TextSearch) -> Mask:
    tests = []
    if search.begin and search.end:
        length = arrow_scalar(len(search.begin) + len(search.end), pa.int32())
        tests.append(pc.greater_equal(pc.binary_length(values), length))
    if search.begin:
        tests.append(pc.starts_with(values, search.begin))
    if search.end:
        tests.append(pc.ends_with(values, search.end))
    if search.middle:
        tests.append(pc.match_substring(values, search.middle))
    return _all_of(tests, len(values))


def _all_of(tests: Sequence[pa.Array], rows: int) -> Mask:
    return reduce(and_, map(_bits, tests), np.ones(rows, bool))


def _bits(test: pa.Array) -> Mask:
    """Return booleans as a numpy array, with either value in the place of NULL."""
    return _plain(test)


def _text_scalar(value: bytes) -> pa.Scalar:
    return arrow_scalar(value, pa.binary())


T = TypeVar("T")


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
        written = tuple((form.written, form.coded) for form in self.forms)
        return id(search.condition), search.among is None, written, self.layout.form


_ROWS_BY_ARROW = 1 << 20
"""Most rows that one core decodes at once with pyarrow; Polars divides its work among the cores itself."""


def find(storage: Storage, files: Sequence[Search], by_polars: bool = True) -> list[Positions | None]:
    """Return the ascending physical positions of the rows that pass per file, hidden rows included.

    The positions are None if the reader cannot tell, or would have to raise an error that the data causes:
    then the caller must decode values. `by_polars`: whether Polars is the reader, or pyarrow. Cost: the
    compressed chunks of the tests are copied, and decoded on all cores. Memory: some 28 MB, or a row group,
    for each core and three more; 8 bytes per row that passes.
    """
    parts_of_files: list[list[Positions]] = [[] for _ in files]
    unable: set[int] = set()
    if not files or (by_polars and polars() is None):
        return [None for _ in files]

    def look(batch: Sequence[_Group], _: bool) -> tuple[Sequence[_Group], list[tuple[int, Positions]] | None]:
        return batch, _batch_hits(storage, batch, by_polars)

    for batch, hits in in_order(
        partial(look, batch) for batch in _batches(_groups(storage, files, unable), by_polars)
    ):
        if hits is None:
            unable.update(group.file for group in batch)
        for file, positions in hits or ():
            parts_of_files[file].append(positions)
    return [None if file in unable else _joined(positions) for file, positions in enumerate(parts_of_files)]


def _batches(groups: Iterator[_Group], by_polars: bool) -> Iterator[list[_Group]]:
    return in_batches(groups) if by_polars else in_batches(groups, _ROWS_BY_ARROW)


def _joined(arrays: Sequence[Positions]) -> Positions:
    return arrays[0] if len(arrays) == 1 else np.concatenate([np.zeros(0, np.uint64), *arrays])


def _groups(storage: Storage, files: Sequence[Search], unable: set[int]) -> Iterator[_Group]:
    """Yield the row groups of files whose columns can be tested; add the numbers of others to `unable`."""
    for number, search in enumerate(files):
        layout = open_layout(storage, search.slice_.path, search.slice_.size)
        with named_file(storage, search.slice_.path):
            forms = [
                form_of(storage, layout, search.slice_.path, test, search.groups, str(n))
                for n, test in enumerate(each_test(search.condition))
            ]
        readable = tuple(form for form in forms if form is not None)
        if len(readable) < len(forms):
            unable.add(number)
            continue
        yield from (_Group(number, search, layout, readable, group) for group in search.groups)


def count_passing(storage: Storage, files: Sequence[Search], by_polars: bool) -> int | None:
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
            return count_by_arrow(data, condition, names, masked)
        return passing_count(library, data, expression(library, condition, names), masked)

    return _queried(storage, batch, by_polars, ask)


def _batch_hits(
    storage: Storage, batch: Sequence[_Group], by_polars: bool
) -> list[tuple[int, Positions]] | None:
    """Return the passing positions per file number; None if anything fails."""
    masked = batch[0].search.among is not None

    def ask(
        library: ModuleType | None, data: bytes, condition: Condition, names: Names
    ) -> npt.NDArray[np.uint32]:
        if library is None:
            return rows_by_arrow(data, condition, names, masked)
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
