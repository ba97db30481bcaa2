"""The process beside Spark's driver that answers from the index: `python -m tailbit.spark.helper`.

A request is a line of JSON on standard input: `id`, `want` (ready, known, files, count, groups), `root`,
`table` (the table's id), `version`, `where` (texts of conjuncts), `by` (names of columns), `most` (groups),
`options` (of the stores), `budget_ms` (how long the driver waits). The reply is a line of JSON with that `id`
on standard output, as soon as there is one: replies need not come in the order of requests. Where it has
`arrow`, that number of bytes of an Arrow IPC stream follow. An answer is of the requested version, which it
names, and only of a table whose id the index and the log of that version have.

A request that cannot be answered from the index alone is declined with a reason, and never ends the process:
Spark then runs the query as it would without tailbit.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa

from tailbit.api import IndexedTable, open_indexed
from tailbit.errors import (
    CommitGapError,
    CorruptIndexError,
    EvaluationError,
    NotATableError,
    PredicateError,
    SchemaError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tailbit.index.model import Definition, Standing
from tailbit.index.predicate.walks import columns_of
from tailbit.index.query.candidates import candidates
from tailbit.index.sql.bind import bind
from tailbit.index.sql.terms import every_column
from tailbit.tables import compute as pc
from tailbit.tables.model import Column
from tailbit.tables.schema import Schema

if TYPE_CHECKING:
    from tailbit.answer import Answer

MOST_BYTES = 0.5
"""Largest share of the table's bytes for which files are named: more are read as quickly without a list."""

MOST_TABLES = 64
"""Most tables kept open; the one asked longest ago is closed first."""

MOST_GROUPS = 10_000
"""Most groups of an answer, unless the request says otherwise: the driver holds them in the plan."""

THREADS = 4
"""Requests that are answered at the same time."""

_NO_INDEX = {
    Standing.ABSENT: "no-index",
    Standing.EMPTY: "no-index",
    Standing.DAMAGED: "damaged-index",
    Standing.OLDER_FORMAT: "older-format",
    Standing.OTHER_HISTORY: "other-history",
}
"""Reasons by the states in which an index serves nothing."""

_ERRORS: Mapping[type[Exception], str] = {
    CommitGapError: "no-version",
    VersionNotFoundError: "no-version",
    NotATableError: "no-table",
    UnsupportedFeatureError: "unsupported-table",
    CorruptIndexError: "damaged-index",
    EvaluationError: "raises",
}


class Declined(Exception):
    """A request that is not answered: a reason that does not change between releases, and a detail."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail


@dataclass(frozen=True)
class Request:
    """A request whose fields have their types."""

    want: str
    root: str
    table: str
    version: int
    where: tuple[str, ...]
    by: tuple[str, ...]
    options: Mapping[str, str]
    most: int = MOST_GROUPS

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Request:
        """Return the request of the fields of a line.

        Raises:
            Declined: a field is missing or is not of its type.
        """
        texts: dict[str, Any] = {name: given.get(name) for name in ("want", "root", "table")}
        wrong = [name for name, value in texts.items() if not isinstance(value, str) or not value]
        numbers: dict[str, Any] = {"version": given.get("version"), "most": given.get("most", MOST_GROUPS)}
        wrong += [name for name, value in numbers.items() if type(value) is not int or value < 0]
        lists = {name: given.get(name) or [] for name in ("where", "by")}
        wrong += [name for name, value in lists.items() if not _is_of_texts(value, list)]
        options = given.get("options") or {}
        if not isinstance(options, dict) or not _is_of_texts([*options.values()], list):
            wrong.append("options")
        if wrong:
            raise Declined("malformed", f"{', '.join(wrong)}: missing, or not of its type")
        return cls(**texts, **numbers, where=(*lists["where"],), by=(*lists["by"],), options=options)


def _is_of_texts(value: object, type_: type[list[Any]]) -> bool:
    return isinstance(value, type_) and all(isinstance(item, str) for item in value)


@dataclass
class Helper:
    """The tables that have been asked, kept open, and what answers requests for them."""

    _tables: dict[tuple[str, tuple[tuple[str, str], ...]], IndexedTable] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def reply(self, line: bytes, arrived: float) -> tuple[dict[str, Any], bytes]:
        """Return the reply to a line, and the bytes of an Arrow stream that follow; raises nothing.

        `arrived`: when, by the monotonic clock. Nothing is computed for a driver that waits no longer.
        """
        head: dict[str, Any] = {"id": None}
        try:
            given = json.loads(line)
            if not isinstance(given, dict):
                raise Declined("malformed", "the line is no JSON object")
            head["id"] = given.get("id")
            if given.get("want") == "ready":
                return {**head, "ready": True}, b""
            budget = given.get("budget_ms")
            if isinstance(budget, int) and time.monotonic() - arrived > budget / 1000:
                raise Declined("late")
            answer, data = self._answered(Request.of(given))
            return {**head, **answer}, data
        except Declined as declined:
            return {**head, "declined": declined.reason, "detail": declined.detail}, b""
        except ValueError as wrong:
            return {**head, "declined": "malformed", "detail": str(wrong)}, b""
        # The boundary of the process: a request must not end it, since others wait for their replies.
        except Exception as error:
            reason = next((why for kind, why in _ERRORS.items() if isinstance(error, kind)), "error")
            return {**head, "declined": reason, "detail": f"{type(error).__name__}: {error}"}, b""

    def _answered(self, request: Request) -> tuple[dict[str, Any], bytes]:
        answerers = {"known": _known, "files": _files, "count": _count, "groups": _groups}
        if request.want not in answerers:
            raise Declined("malformed", f"want is {request.want!r}")
        key = (request.root, tuple(sorted(request.options.items())))
        with self._lock:
            handle = self._tables.get(key)
        handle = handle or open_indexed(request.root, storage_options=dict(request.options))
        try:
            answer, data = answerers[request.want](handle, request)
            _check_table(handle, request)
        except BaseException:
            # The next request opens what is there then.
            with self._lock:
                self._tables.pop(key, None)
            raise
        with self._lock:
            self._tables.pop(key, None)
            self._tables[key] = handle
            while len(self._tables) > MOST_TABLES:
                del self._tables[next(iter(self._tables))]
        return {**answer, "table": request.table, "version": request.version}, data


def _known(handle: IndexedTable, request: Request) -> tuple[dict[str, Any], bytes]:
    """Return the columns and expressions of the definitions, and the covered version.

    Columns that an expression reads are among the columns, since a condition on them may imply one of it.
    """
    answer = _bound(handle, request, None, may_lack_index=True)
    if _NO_INDEX.get(handle._standing()):
        return {"columns": [], "expressions": [], "covered": None}, b""
    schema = answer._selection.schema
    names = {column.id: ".".join(column.name) for column in every_column(schema)}
    wanted, expressions = dict[str, None](), dict[str, None]()
    for definition in answer._selection.coverage.definitions:
        wanted |= dict.fromkeys(_column_ids(definition, names))
        expressions |= dict.fromkeys(term.text for term in definition.terms if not term.is_column)
    columns = [names[id_] for id_ in wanted if id_ in names]
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


def _files(handle: IndexedTable, request: Request) -> tuple[dict[str, Any], bytes]:
    """Return the files that may hold a row where the conjuncts that are understood are all TRUE.

    Files that the index does not cover are always among them.
    """
    schema = _bound(handle, request, None)._selection.schema
    used = [number for number, text in enumerate(request.where) if _refusal(schema, text) is None]
    if not used:
        raise Declined("nothing-understood")
    selection = _bound(handle, request, _together([request.where[n] for n in used]))._selection
    files = selection.snapshot.files
    kept = {file.path: file.size for file in [*candidates(selection), *files.at(selection.to_scan)]}
    size = pc.sum(files.core["size"]).as_py() or 0
    if sum(kept.values()) > MOST_BYTES * size:
        raise Declined("keeps-all", f"{len(kept)} of {len(files)} files")
    return {"keep": [*kept], "used": used, "total": len(files)}, b""


def _count(handle: IndexedTable, request: Request) -> tuple[dict[str, Any], bytes]:
    """Return the number of rows where all conjuncts are TRUE."""
    return {"count": _exact(handle, request).count()}, b""


def _groups(handle: IndexedTable, request: Request) -> tuple[dict[str, Any], bytes]:
    """Return the number of rows by the values of some columns, where all conjuncts are TRUE."""
    if not request.by:
        raise Declined("malformed", "by: no column is named")
    answer = _exact(handle, request)
    selection, columns = answer._selection, [answer._key(name) for name in request.by]
    for name, column in zip(request.by, columns, strict=True):
        _decline_column(column)
        if not column.partition and not selection.coverage.posts_everywhere(column.id):
            raise Declined("not-exact", f"{name} is not indexed in every file")
    table = answer.facet_table(*request.by).rename_columns([*request.by, "count"])
    if table.num_rows > request.most:
        raise Declined("many-groups", f"{table.num_rows}, more than {request.most}")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data = sink.getvalue().to_pybytes()
    return {"arrow": len(data)}, data


def _exact(handle: IndexedTable, request: Request) -> Answer:
    """Return the answer of all conjuncts, for which no data is read.

    Raises:
        Declined: a conjunct is not understood, or data would be read.
    """
    schema = _bound(handle, request, None)._selection.schema
    for text in request.where:
        if refusal := _refusal(schema, text):
            raise Declined("not-understood", f"{text}: {refusal}")
    answer = _bound(handle, request, _together(request.where))
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
    """Decline exact answers over columns of which Spark's own answer depends on more than the rows.

    Spark's pushdown of floats loses NaN and -0.0; for partition values without an offset see `_zoned`.
    """
    if column.type.name in ("float", "double"):
        raise Declined("floating-point", column.label)
    if zoned := _zoned(column):
        raise Declined("time-zone", zoned)


def _check_table(handle: IndexedTable, request: Request) -> None:
    """Check, once an answer is computed, that the log it was computed by is that of the requested table.

    Cost: the commit of the requested version is read.

    Raises:
        Declined: the path holds another table, or the commit is gone, so that nothing tells.
    """
    fingerprint = handle._table.fingerprint(request.version)
    if fingerprint is None:
        raise Declined("no-version", f"the commit of version {request.version} is gone")
    if fingerprint.table_id != request.table:
        raise Declined("another-table", f"the table at this path is {fingerprint.table_id}")


def _together(texts: Sequence[str]) -> str | None:
    return "\nAND ".join(f"({text}\n)" for text in texts) or None


def _refusal(schema: Schema, text: str) -> str | None:
    """Return why a conjunct is not understood; None if it is."""
    try:
        node = bind(text, schema)
    except (PredicateError, SchemaError) as refused:
        return str(refused)
    return next(filter(None, map(_zoned, columns_of(node))), None)


def _zoned(column: Column) -> str | None:
    """Return that a column depends on the time zone of Spark's session, which no request tells, or None.

    Spark reads partition values without an offset in that zone.
    """
    is_zoned = column.partition and column.type.name == "timestamp"
    return f"{column.label} depends on the time zone of the session" if is_zoned else None


def _bound(handle: IndexedTable, request: Request, text: str | None, may_lack_index: bool = False) -> Answer:
    """Return the answer to a condition at the requested version, of the requested table.

    Raises:
        Declined: the table at the path is another one, or no index serves it.
    """
    answer = handle.where(text, version=request.version)
    if reason := _NO_INDEX.get(handle._standing()):
        if not may_lack_index:
            raise Declined(reason)
    elif (ledger := handle._trusted_ledger()) is None or ledger.fingerprint is None:
        raise Declined("other-history")
    elif ledger.fingerprint.table_id != request.table:
        raise Declined("another-table", f"the index is of table {ledger.fingerprint.table_id}")
    return answer


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer requests, some at the same time, until there are no more or nobody reads the replies."""
    helper, writing = Helper(), threading.Lock()

    def answer(line: bytes, arrived: float) -> None:
        head, data = helper.reply(line, arrived)
        try:
            with writing:
                replies.write(json.dumps(head).encode() + b"\n" + data)
                replies.flush()
        except BrokenPipeError:
            os._exit(0)

    with ThreadPoolExecutor(THREADS) as threads:
        for line in requests:
            threads.submit(answer, line, time.monotonic())


def main() -> None:
    """Serve standard input and output; whatever else is written to standard output goes to standard error.

    An interrupt is for the query beside the process, not for the process: it ends with its input.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as replies:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        serve(sys.stdin.buffer, replies)


if __name__ == "__main__":
    main()
