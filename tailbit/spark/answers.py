"""Answers to the requests of Spark's driver: known columns, files, counts, groups and rows.

An answer is of the requested version, and only of a table whose id the index and the log of that version
have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tailbit.api import IndexedTable
from tailbit.base.errors import PredicateError, SchemaError
from tailbit.index.grouping.dictionary import python_values
from tailbit.index.model import Definition, Standing
from tailbit.index.predicate.computed import Computed
from tailbit.index.predicate.tree import columns_of, nodes_of
from tailbit.index.query.selection import candidate_numbers
from tailbit.index.sql.bind import bind
from tailbit.index.sql.terms import every_column
from tailbit.spark.request import (
    OF_CONDITIONS,
    UNPACKED,
    Declined,
    Request,
    Scan,
    check_files,
    check_gain,
    pages_of,
)
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, no_rows
from tailbit.tables.model import Column
from tailbit.tables.schema import Schema
from tailbit.tables.storage import decoded

if TYPE_CHECKING:
    from tailbit.answer import Answer

MOST_ROW_BYTES = 16 << 20
"""Most bytes of the rows of an answer: the driver holds them in the plan."""

_NO_INDEX = {
    Standing.ABSENT: "no-index",
    Standing.EMPTY: "no-index",
    Standing.DAMAGED: "damaged-index",
    Standing.OLDER_FORMAT: "older-format",
    Standing.OTHER_HISTORY: "other-history",
}
"""Reasons by the states in which an index serves nothing."""


def known_columns(handle: IndexedTable, request: Request) -> tuple[dict[str, Any], bytes]:
    """Return the columns and expressions of the definitions, and the covered version; or why there are none.

    The columns that an expression reads are listed too: a condition on them may imply one on the expression.
    """
    answer = _bound(handle, request, None, may_lack_index=True)
    if reason := _NO_INDEX.get(handle._standing()):
        return {"columns": [], "expressions": [], "covered": None, "reason": reason}, b""
    schema = answer._selection.schema
    names = {column.id: ".".join(column.name) for column in every_column(schema)}
    ids, expressions = dict[str, None](), dict[str, None]()
    for definition in answer._selection.coverage.definitions:
        ids |= dict.fromkeys(_column_ids(definition, names))
        expressions |= dict.fromkeys(term.text for term in definition.terms if not term.is_column)
    columns = [names[id_] for id_ in ids if id_ in names]
    return {
        "columns": columns,
        "expressions": [*expressions],
        "covered": answer.covered_version,
    }, b""


def _column_ids(definition: Definition, names: Mapping[str, str]) -> Iterator[str]:
    """Yield the ids of the columns that a definition reads; one without terms reads every column."""
    if not definition.terms:
        yield from names
    for term in definition.terms:
        yield from (column.id for column in term.columns)


def files(handle: IndexedTable, request: Request) -> tuple[dict[str, Any], bytes]:
    """Return the files that may hold a row where the conjuncts that are understood are all TRUE.

    Files that the index does not cover are always among them.
    """
    used = _understood(handle, request)
    answer, is_first = _first_rows(handle, request, used)
    selection = answer._selection
    files = selection.snapshot.files
    # Files that are not covered are read whole.
    numbers = sorted({*candidate_numbers(selection), *selection.to_scan})
    candidates = files.core.select(["path", "size"]).take(arrow_array(numbers, pa.int64()))
    check_files(_of_files(candidates), _of_files(files.core), request)
    return {
        "keep": [decoded(path) for path in candidates["path"].to_pylist()],
        "used": used,
        "total": len(files),
        "first": is_first,
    }, b""


def _of_files(table: pa.Table) -> Scan:
    """Return the scan of some files, by their sizes."""
    return Scan(len(table), 0, UNPACKED * (pc.sum(table["size"]).as_py() or 0))


def count(handle: IndexedTable, request: Request) -> tuple[dict[str, Any], bytes]:
    """Return the number of rows where all conjuncts are TRUE."""
    return {"count": _exact(handle, request).count()}, b""


def groups(handle: IndexedTable, request: Request) -> tuple[dict[str, Any], bytes]:
    """Return the number of rows where all conjuncts are TRUE, by the values of some columns or of all rows.

    After the number of rows come the measures.
    """
    if not request.by and not request.measures:
        raise Declined("malformed", "by: no column is named")
    answer = _exact(handle, request)
    for name in dict.fromkeys([*request.by, *(column for _, column in request.measures)]):
        column = answer._key(name)
        _decline_column(column)
        if not column.partition and not answer._selection.coverage.posts_everywhere(column.id):
            raise Declined("not-exact", f"{name} is not indexed in every file")
    table = _grouped(answer, request) if request.by else _of_all_rows(answer, request)
    if table.num_rows > request.most:
        raise Declined("many-groups", f"{table.num_rows}, more than {request.most}")
    return _sent(table)


def _grouped(answer: Answer, request: Request) -> pa.Table:
    """Return groups, their numbers of rows, and their least and greatest values."""
    columns_by_function: dict[str, list[str]] = {"min": [], "max": []}
    for function, column in request.measures:
        if function not in columns_by_function:
            raise Declined("not-exact", f"{function} of each group")
        if column not in columns_by_function[function]:
            columns_by_function[function].append(column)
    table = answer.facet_table(*request.by, min=columns_by_function["min"], max=columns_by_function["max"])
    order = [
        (function, column) for function in columns_by_function for column in columns_by_function[function]
    ]
    first = len(request.by) + 1
    measured = [table.column(first + order.index(pair)) for pair in request.measures]
    return _named([*table.columns[:first], *measured], request)


def _of_all_rows(answer: Answer, request: Request) -> pa.Table:
    """Return one row: the number of rows, and the measures over all of them."""
    arrays = [arrow_array([answer.count()], pa.int64())]
    for function, name in request.measures:
        if function == "count":
            nulls = answer._groups(name, ordered=False).nulls
            arrays.append(arrow_array([answer.count() - nulls], pa.int64()))
        elif function == "distinct":
            arrays.append(arrow_array([answer.count_distinct(name)], pa.int64()))
        else:
            (field_,) = answer._selection.schema.arrow([answer._key(name)])
            extreme = answer.min(name) if function == "min" else answer.max(name)
            arrays.append(arrow_array([extreme], field_.type))
    return _named(arrays, request)


def _named(columns: Sequence[pa.Array | pa.ChunkedArray], request: Request) -> pa.Table:
    names = [*request.by, "count", *(f"{function}({column})" for function, column in request.measures)]
    return pa.Table.from_arrays([*columns], names=names)


def rows(handle: IndexedTable, request: Request) -> tuple[dict[str, Any], bytes]:
    """Return the columns of the rows where the conjuncts that are understood are all TRUE.

    Bitmaps alone must find the rows, which must be few and take less time than Spark's scan; the driver
    applies its filters to the rows again. A reply that comes too late is kept there for the next query.
    """
    try:
        return _rows(handle, request)
    except Declined as declined:
        if not request.or_files or declined.reason not in OF_CONDITIONS:
            raise
        declined.instead = _instead(handle, request)
        raise


def _instead(handle: IndexedTable, request: Request) -> dict[str, Any]:
    try:
        reply = files(handle, request)[0]
    except Declined as declined:
        reply = declined.fields()
    check_table(handle, request)
    return {**reply, "table": request.table, "version": request.version}


def _rows(handle: IndexedTable, request: Request) -> tuple[dict[str, Any], bytes]:
    if not request.columns:
        raise Declined("malformed", "columns: none is named")
    used = _of_bitmaps(handle, request)
    answer, is_first = _first_rows(handle, request, used)
    selection = _bitmaps_alone(answer)._selection
    try:
        if answer.count() > request.most:
            raise Declined("many-rows", f"{answer.count()}, more than {request.most}")
        columns = selection.schema.resolve_all(request.columns)
        for column in columns:
            if zoned := _zoned(column):
                raise Declined("time-zone", zoned)
        hits = [(hit.slice_, hit.positions) for hit in selection.hits()]
        pages = pages_of(selection.storage, hits, columns)
        estimates = check_gain(pages, request)
        if pages.whole.bytes * pages.rows > MOST_ROW_BYTES * pages.whole.rows:
            raise Declined("many-bytes", f"{pages.rows} rows of more than {MOST_ROW_BYTES} bytes")
    except Declined as declined:
        declined.rows = None if is_first else (answer.count(), _share(handle, request, answer.count()))
        raise
    schema, batches = answer.stream(request.columns)
    tables = [no_rows(schema)]
    for batch in batches:
        tables.append(batch)
        if sum(table.nbytes for table in tables) > MOST_ROW_BYTES:
            raise Declined("many-bytes", f"rows of more than {MOST_ROW_BYTES} bytes")
    head, data = _sent(pa.concat_tables(tables))
    read = {"files": len(hits), "of": len(selection.snapshot.files)}
    return {**head, **estimates, **read, "used": used, "first": is_first}, data


def _share(handle: IndexedTable, request: Request, count: int) -> int:
    """Return the bytes of the table's files that `count` of its rows take, all rows being of one length."""
    every = _bound(handle, request, None)
    size: int = pc.sum(every._selection.snapshot.files.core["size"]).as_py() or 0
    return size * count // max(1, every.count())


def _first_rows(handle: IndexedTable, request: Request, used: Sequence[int]) -> tuple[Answer, bool]:
    """Return the answer of some conjuncts, and whether it is only of the first rows or values by a column.

    That needs all conjuncts, and bitmaps that tell each row and its value: then the counts of the values tell
    the last one that is wanted.
    """
    text = _conjunction([request.where[n] for n in used])
    answer, first = _bound(handle, request, text), request.first
    if first is None or len(used) < len(request.where):
        return answer, False
    column = answer._key(first.by)
    try:
        _decline_column(column)
        _bitmaps_alone(answer)
    except Declined:
        return answer, False
    posted = column.partition or answer._selection.coverage.posts_everywhere(column.id)
    if not posted or answer.count() <= first.most:
        return answer, False
    groups = answer._groups(first.by)
    keys, counts, nulls = groups.keys_of(), groups.counts, groups.nulls
    if nulls:
        keys, counts = keys[1:], counts[1:]
    if first.distinct:
        counts, nulls = np.ones_like(counts), min(nulls, 1)
    missing = first.most - (nulls if first.nulls_first else 0)
    if missing > counts.sum():
        return answer, False
    among, values = [f"{first.by} IS NULL"] if first.nulls_first and nulls else [], []
    if missing > 0:
        place = int(np.searchsorted(np.cumsum(counts[:: -1 if first.descending else 1]), missing))
        key = keys[len(keys) - 1 - place : len(keys) - place] if first.descending else keys[place : place + 1]
        values = python_values(key, groups.key_type(), column)
        if isinstance(values[0], str) and values[0].encode() != key[0].as_py():
            return answer, False
        among.append(f"{first.by} {'>=' if first.descending else '<='} ?")
    restricted = _conjunction([*filter(None, [text]), " OR ".join(among)])
    return _bound(handle, request, restricted, values), True


def _sent(table: pa.Table) -> tuple[dict[str, Any], bytes]:
    """Return the reply that announces a table, and the table as Arrow bytes, which follow the reply."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data = sink.getvalue().to_pybytes()
    return {"arrow": len(data)}, data


def _of_bitmaps(handle: IndexedTable, request: Request) -> list[int]:
    """Return the numbers of the conjuncts that bitmaps may tell.

    They are over columns of partitions or indexed in every file, and compare no columns with one another,
    save where an index has the comparison.
    """
    selection = _bound(handle, request, None)._selection
    if len(selection.coverage.uncovered):
        raise Declined("not-covered", f"{len(selection.coverage.uncovered)} files")
    posted = selection.coverage.posts_everywhere
    used = list[int]()
    for number in _understood(handle, request):
        node = bind(request.where[number], selection.schema)
        if not all(column.partition or posted(column.id) for column in columns_of(node)):
            continue
        compares = any(isinstance(term, Computed) and term.column is None for term in nodes_of(node))
        if not compares or not _bound(handle, request, request.where[number]).files_scanned:
            used.append(number)
    if not used and (request.where or not request.first):
        raise Declined("not-exact", "no condition is told by bitmaps alone")
    return used


def _understood(handle: IndexedTable, request: Request) -> list[int]:
    """Return the numbers of the conjuncts that are understood."""
    schema = _bound(handle, request, None)._selection.schema
    used = [number for number, text in enumerate(request.where) if _refusal(schema, text) is None]
    if not used and (request.where or not request.first):
        raise Declined("nothing-understood")
    return used


def _exact(handle: IndexedTable, request: Request) -> Answer:
    """Return the answer of all conjuncts, for which no data is read."""
    schema = _bound(handle, request, None)._selection.schema
    for text in request.where:
        if refusal := _refusal(schema, text):
            raise Declined("not-understood", f"{text}: {refusal}")
    return _bitmaps_alone(_bound(handle, request, _conjunction(request.where)))


def _bitmaps_alone(answer: Answer) -> Answer:
    """Return the answer, after checking that bitmaps tell each of its rows."""
    for column in columns_of(answer._selection.node):
        _decline_column(column)
    if len(answer._selection.coverage.uncovered):
        raise Declined("not-covered", f"{len(answer._selection.coverage.uncovered)} files")
    scanned = answer.files_scanned
    if answer._selection.damaged:
        raise Declined("damaged-index", str(answer._selection.damaged[0]))
    if scanned:
        raise Declined("not-exact", f"data of {scanned} files")
    return answer


def _decline_column(column: Column) -> None:
    """Decline exact answers over columns for which Spark's own answer depends on more than the rows.

    Spark's pushdown of floats loses NaN and -0.0; for partition values without an offset see `_zoned`.
    """
    if column.type.name in ("float", "double"):
        raise Declined("floating-point", column.label)
    if zoned := _zoned(column):
        raise Declined("time-zone", zoned)


def check_table(handle: IndexedTable, request: Request) -> None:
    """Check, once an answer is computed, that the log it was computed by is that of the requested table.

    Cost: the commit of the requested version is read.
    """
    fingerprint = handle._table.fingerprint(request.version)
    if fingerprint is None:
        raise Declined("no-version", f"the commit of version {request.version} is gone")
    if fingerprint.table_id != request.table:
        raise Declined("another-table", f"the table at this path is {fingerprint.table_id}")


def _conjunction(texts: Sequence[str]) -> str | None:
    return "\nAND ".join(f"({text}\n)" for text in texts) or None


def _refusal(schema: Schema, text: str) -> str | None:
    """Return why a conjunct is not understood; None if it is."""
    try:
        node = bind(text, schema)
    except (PredicateError, SchemaError) as refused:
        return str(refused)
    return next(filter(None, map(_zoned, columns_of(node))), None)


def _zoned(column: Column) -> str | None:
    """Return the reason if a column depends on the time zone of Spark's session, unknown here; else None.

    Spark reads partition values without an offset in that zone.
    """
    is_zoned = column.partition and column.type.name == "timestamp"
    return f"{column.label} depends on the time zone of the session" if is_zoned else None


def _bound(
    handle: IndexedTable,
    request: Request,
    text: str | None,
    values: Sequence[Any] = (),
    may_lack_index: bool = False,
) -> Answer:
    """Return the answer to a condition, with values for its `?`, of the requested version and table."""
    answer = handle.where(text, values or None, version=request.version)
    if reason := _NO_INDEX.get(handle._standing()):
        if not may_lack_index:
            raise Declined(reason)
    elif (ledger := handle._trusted_ledger()) is None or ledger.fingerprint is None:
        raise Declined("other-history")
    elif ledger.fingerprint.table_id != request.table:
        raise Declined("another-table", f"the index is of table {ledger.fingerprint.table_id}")
    return answer
