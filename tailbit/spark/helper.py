"""The process beside Spark's driver that answers from the index: `python -m tailbit.spark.helper`.

A request is a line of JSON on standard input: `id`, `want` (ready, letters, known, files, count, groups,
rows), `root`, `table` (the table's id), `version`, `where` (texts of conjuncts), `by` (names of columns),
`measures` (pairs of a function and a name), `columns` (names of columns to read), `most` (groups or
rows), `options` (of the stores), `budget_ms` (how long the driver waits), `cores`, `files`, `share` and
`or_files` (see `Request`). The reply is a line of JSON with
that `id` on standard output, as soon as there is one: replies need not come in the order of requests. That to
`ready` comes at once, whatever else is being answered: so the driver knows that the process lives. Where it
has `arrow`, that number of bytes of an Arrow IPC stream follow. An answer is of the requested version, which
it names, and only of a table whose id the index and the log of that version have.

A request of `letters` is of no table: it has a `function` (lower or upper) and, in `letters`, every character
below `most` that the session gives another case, with that; the reply's `differs` is empty where tailbit has
the same. Which letter is another one's upper or lower case depends on the session's locale, on its setting of
ICU and on the Unicode of its release. Characters of which tailbit does not know it are read by no index
either, and count as equal.

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
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from typing import Any, BinaryIO, TypeAlias

import pyarrow as pa

from tailbit.api import IndexedTable, open_indexed
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import (
    CommitGapError,
    CorruptIndexError,
    EvaluationError,
    NotATableError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tailbit.index.functions.table import kernel
from tailbit.index.functions.tree import Call, Ref
from tailbit.index.functions.vectors import canonical
from tailbit.index.values.literals import STRING
from tailbit.spark.answers import check_table, count, files, groups, known_columns, rows
from tailbit.spark.jar import digest
from tailbit.spark.request import OF_CONDITIONS, Declined, Request, told_costs
from tailbit.tables.model import Column

MOST_TABLES = 64
"""Most tables kept open; the one asked longest ago is closed first."""

THREADS = 4
"""Requests that are answered at the same time."""

_ERRORS: Mapping[type[Exception], str] = {
    CommitGapError: "no-version",
    VersionNotFoundError: "no-version",
    NotATableError: "no-table",
    UnsupportedFeatureError: "unsupported-table",
    CorruptIndexError: "damaged-index",
    EvaluationError: "raises",
}


_TEXT = Ref(Column(("text",), ("text",), STRING))
_SURROGATES = range(0xD800, 0xE000)

_Key: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]
"""A root, and the options of its store."""


@dataclass
class Helper:
    """The answerer of requests, which keeps the tables open that it was asked about."""

    _tables: dict[_Key, IndexedTable] = field(default_factory=dict)
    _opening: dict[_Key, threading.Event] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def reply(self, line: bytes, arrived: float) -> tuple[dict[str, Any], bytes]:
        """Return the reply to a line, and the bytes of an Arrow stream that follow; raises nothing.

        `arrived`: when the line arrived, by the monotonic clock. If the driver has stopped waiting, nothing
        is computed.
        """
        head: dict[str, Any] = {"id": None}
        try:
            given = json.loads(line)
            if not isinstance(given, dict):
                raise Declined("malformed", "the line is no JSON object")
            head["id"] = given.get("id")
            if given.get("want") == "ready":
                return {**head, **_first_reply(given)}, b""
            if given.get("want") == "letters":
                return {**head, **compared(given)}, b""
            budget = given.get("budget_ms")
            if isinstance(budget, int) and time.monotonic() - arrived > budget / 1000:
                raise Declined("late")
            answer, data = self._answered(Request.of(given), arrived)
            return {**head, **answer}, data
        except Declined as declined:
            return {**head, **declined.fields()}, b""
        except ValueError as wrong:
            return {**head, "declined": "malformed", "detail": str(wrong)}, b""
        # The boundary of the process: a request must not end it, since others wait for their replies.
        except Exception as error:
            reason = next((why for kind, why in _ERRORS.items() if isinstance(error, kind)), "error")
            return {**head, "declined": reason, "detail": f"{type(error).__name__}: {error}"}, b""

    def _answered(self, request: Request, arrived: float) -> tuple[dict[str, Any], bytes]:
        answerers = {"known": known_columns, "files": files, "count": count, "groups": groups, "rows": rows}
        if request.want not in answerers:
            raise Declined("malformed", f"want is {request.want!r}")
        key = (request.root, tuple(sorted(request.options.items())))
        handle = self._opened(key, request, arrived)
        try:
            answer, data = answerers[request.want](handle, request)
            check_table(handle, request)
        except BaseException as wrong:
            # After other reasons the path may hold another table: the next request opens it anew.
            stays = isinstance(wrong, Declined) and wrong.reason in OF_CONDITIONS
            self._keep(key, handle if stays else None)
            raise
        self._keep(key, handle)
        return {**answer, "table": request.table, "version": request.version}, data

    def _opened(self, key: _Key, request: Request, arrived: float) -> IndexedTable:
        """Return a table that is open; one request opens it, up to its version, and others wait for that."""
        end = arrived + request.budget_ms / 1000
        while True:
            with self._lock:
                if key in self._tables:
                    return self._tables[key]
                opening = self._opening.get(key)
                own = self._opening.setdefault(key, threading.Event())
            if opening is None:
                break
            if not opening.wait(max(0.0, end - time.monotonic())):
                raise Declined("helper-late", "another request is still opening the table")
        try:
            handle = open_indexed(request.root, storage_options=dict(request.options))
            handle.where(version=request.version)
            self._keep(key, handle)
        finally:
            with self._lock:
                del self._opening[key]
            own.set()
        return handle

    def _keep(self, key: _Key, handle: IndexedTable | None) -> None:
        """Keep a table open, as the one asked last; with `handle` None, keep it no longer."""
        with self._lock:
            self._tables.pop(key, None)
            if handle is not None:
                self._tables[key] = handle
            while len(self._tables) > MOST_TABLES:
                del self._tables[next(iter(self._tables))]


def _first_reply(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return that the process is ready; a jar that names its sources is told what Spark's scans cost here."""
    if "sources" not in given:
        return {"ready": True}
    if given["sources"] != digest():
        raise Declined("other-release", f"the jar is of another release of tailbit than {sys.executable}")
    return {"ready": True, "costs": told_costs()}


def _asks_readiness(line: bytes) -> bool:
    """Tell whether a line asks only whether the process is ready; other lines are not parsed, save a few."""
    if b'"ready"' not in line:
        return False
    try:
        given = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(given, dict) and given.get("want") == "ready"


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
            if _asks_readiness(line):
                answer(line, time.monotonic())
            else:
                threads.submit(answer, line, time.monotonic())


def compared(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reply to a request that has the letters of a session."""
    function, letters, most = given.get("function"), given.get("letters"), given.get("most")
    if function not in ("lower", "upper") or not isinstance(letters, dict) or not isinstance(most, int):
        raise Declined("malformed", "letters: a function, its letters and their number")
    reply = {"table": given.get("table"), "version": given.get("version")}
    return reply | {"differs": difference(function, letters, most)}


def difference(function: str, letters: Mapping[str, str], most: int) -> str:
    """Return a text whose case is another one here than in `letters`, as an example; empty if there is none.

    `letters`: the other case of each character below `most` that has one, and of some texts.
    """
    turned = str.lower if function == "lower" else str.upper
    own = (chr(code) for code in range(most) if code not in _SURROGATES)
    texts = list(dict.fromkeys([*letters, *(letter for letter in own if turned(letter) != letter)]))
    call = Call(function, (_TEXT,), STRING)
    vector = kernel(function)(call, [pa.array(texts, pa.string())])
    results = canonical(vector.values, STRING)
    for text, result, unread in zip(texts, results, vector.failed.tolist(), strict=True):
        there = letters.get(text, text)
        if not unread and result.decode() != there:
            return f"{text!a} is {there!a}, not {result.decode()!a}"
    return ""


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
