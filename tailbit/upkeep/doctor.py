"""What keeps an indexer from its work: Spark, a table, the place of the index, a configuration.

Nothing is changed. In an object store one small object is written beside the index and deleted again, which
is the only way to learn whether the store tells which of two writers was first.
"""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any

import orjson

from tailbit.base.errors import ConfigError, NoIndexError, StorageError, TailbitError
from tailbit.base.wording import counted
from tailbit.index.store.place import index_path
from tailbit.streaming.config.check import TOGETHER, check_jars, look_at
from tailbit.streaming.config.model import TableEntry
from tailbit.streaming.config.read import ReadConfig, read_config
from tailbit.streaming.java.session import build_session
from tailbit.streaming.many.states import checkpoint_of, lease_place, located, states_of
from tailbit.streaming.watch.page import POLICY
from tailbit.streaming.watch.server import OFF, direct
from tailbit.streaming.watch.thread_pool import run_each
from tailbit.tables import open_table
from tailbit.tables.parquet.data_file import footer_hash
from tailbit.tables.storage import StorageOptions, open_storage
from tailbit.tables.table import Table
from tailbit.upkeep.machine import Finding, State, judged
from tailbit.upkeep.status import is_within, status_of

_AHEAD_S = 60
"""Seconds that a commit may lie in the future before a clock is doubted."""
_LATE_S = 300
"""Seconds that a commit may wait to be indexed."""
_FREE = 100 << 20
"""Bytes that must be free at the place of an index."""


def started() -> Finding:
    """Start Spark as an indexer does, and let a worker of it answer: some ten seconds."""
    begun = time.perf_counter()
    try:
        with build_session("tailbit doctor", "local[1]", ui=False, short=True) as spark:
            answer = spark.sparkContext.parallelize([1], 1).map(lambda number: number + 1).collect()
    except TailbitError as failed:
        return Finding.of("spark starts", failed)
    except Exception as failed:  # Any error of Java is a finding.
        lines = str(failed).strip().splitlines() or [type(failed).__name__]
        remedy = "Read what Java wrote above; `tailbit run` ends with the same."
        return Finding("spark starts", State.PROBLEM, lines[0], "a worker that answers", remedy)
    took = f"a worker answered after {time.perf_counter() - begun:.0f} s"
    return judged("spark starts", took, answer == [2], "a worker that answers", "See `tailbit run`.")


def of_table(
    path: str,
    index: str | None = None,
    options: Mapping[str, str] | None = None,
    max_lag: float = _LATE_S,
    command: str = "",
) -> Iterator[Finding]:
    """Yield the findings about a table; only the first if it cannot be read.

    `max_lag`: seconds that a commit may wait. `command`: starts its indexer; `tailbit run TABLE` by default.
    """
    try:
        table = open_table(path, StorageOptions.of(options or {}))
        snapshot = table.snapshot()
    except TailbitError as unreadable:
        yield Finding.of("table", unreadable)
        return
    text = f"{table.root}: version {table.name_of(snapshot.version)}, {counted(len(snapshot.files), 'file')}"
    yield Finding("table", State.OK, text)
    yield _data(table, snapshot.files)
    place = index_path(table.root, index)
    yield _clock(snapshot.timestamp_ms, _clock_ms(place, table.storage.options))
    yield of_place("place of the index", place, table.storage.options)
    command = command or _pasted("run", path, index)
    yield from _index(path, index, options, max_lag, command)


def _pasted(verb: str, path: str, index: str | None) -> str:
    """Return a command about a table, to be pasted into a shell."""
    return shlex.join(["tailbit", verb, path, *([] if index is None else ["--index", index])])


def _data(table: Table, files: Any) -> Finding:
    if not len(files):
        return Finding("data", State.OK, "the table has no files")
    name = files[0].path
    try:
        footer_hash(table.storage, name)
    except TailbitError as unreadable:
        return Finding.of("data", unreadable, "the right to read the files of the table")
    return Finding("data", State.OK, f"{name} can be read")


def _clock_ms(place: str, options: StorageOptions) -> int:
    """Return the time in ms since 1970 by the clock of a store, or by that of this machine.

    It is this machine's if nothing can be written at `place`; nothing is written elsewhere.
    """
    try:
        return open_storage(place, options).clock_ms()
    except StorageError:
        return time.time_ns() // 1_000_000


def _clock(newest_ms: int, now_ms: int) -> Finding:
    """Compare the time of the newest commit with the clock of the store."""
    ahead = (newest_ms - now_ms) / 1000
    text = "no commit is of the future" if ahead <= 0 else f"the newest commit is {ahead:.0f} s in the future"
    remedy = "Set the clocks of this machine and of the writer, as by chrony: lag in seconds is wrong."
    return judged("clock", text, ahead <= _AHEAD_S, "clocks that agree", remedy, State.WARNING)


def of_place(check: str, place: str, options: StorageOptions, named_by: str = "--index") -> Finding:
    """Check that an index or a lease can be written at its place. `named_by`: the option that changes it."""
    needed = "the right to write there, and a store that tells which of two writers was first"
    try:
        storage = open_storage(place, options)
        if storage.remote:
            storage.check_commits()
            return Finding(check, State.OK, f"{place} takes commits")
    except TailbitError as refused:
        return Finding.of(check, refused, needed)
    folder = Path(storage.root)
    nearest = next(parent for parent in (folder, *folder.parents) if os.path.exists(parent))
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        remedy = f"Give this user the right to write there, or name another place: {named_by}."
        return Finding(check, State.PROBLEM, f"{nearest} cannot be written to", needed, remedy)
    free = shutil.disk_usage(nearest).free
    return judged(
        check,
        f"{place}, {free / (1 << 30):.1f} GiB free",
        free >= _FREE,
        f"{_FREE >> 20} MiB free",
        f"Make space there, or name another place: {named_by}.",
    )


def _index(
    path: str, index: str | None, options: Mapping[str, str] | None, max_lag: float, command: str
) -> Iterator[Finding]:
    """Yield the findings about an index: that it can be read, and is not late."""
    try:
        account = status_of(path, index, options)
    except NoIndexError:
        columns = "" if "--config" in command else " --columns ..."
        yield Finding("index", State.OK, f"none yet: {command}{columns} makes one")
        return
    except TailbitError as unreadable:
        yield Finding.of("index", unreadable)
        return
    if "damage" in account:
        yield Finding(
            "index", State.PROBLEM, account["damage"], "an index that can be read", account["remedy"]
        )
        return
    indexer = account["indexer"]
    covered = account["covered_version"]
    of_head = "nothing covered yet" if covered is None else f"version {covered}"
    text = f"{account['state']}, {of_head} of {account['head']}"
    yield Finding("index", State.OK, f"{text}, {'kept by ' + indexer if indexer else 'no indexer runs'}")
    lag = account["lag"]
    late = f"{counted(lag['versions'], 'version')} behind, the oldest for {lag['seconds']:.0f} s"
    late = late if lag["versions"] else "nothing waits"
    remedy = "Read what the indexer prints." if indexer else f"Start an indexer: {command}"
    needed = f"commits that wait {max_lag:.0f} s at most"
    yield judged("lag", late, is_within(account, max_lag), needed, remedy, State.WARNING)
    errors = account.get("not_covered") or {}
    if errors:
        reason = next(iter(errors))
        text = f"{counted(sum(errors.values()), 'file')} cannot be indexed: {reason}"
        remedy = f"{_pasted('status', path, index)} names the reasons; questions read such files."
        yield Finding("files", State.WARNING, text, "files that can be read", remedy)


_NEEDED = "a configuration that can be run"

_PAGE_S = 2.0

LOOK_S = 60.0
"""Most seconds that the checks of one table may take."""


def of_config(file: str) -> Iterator[Finding]:
    """Yield the findings about a configuration; only those of the file itself if it is wrong."""
    try:
        read = read_config(file)
    except ConfigError as wrong:
        for line in str(wrong).splitlines():
            yield Finding("configuration", State.PROBLEM, line, _NEEDED, "Correct this line.")
        return
    for warning in read.problems.warnings:
        remedy = "Write ${NAME} there, and set that variable of the environment."
        yield Finding("configuration", State.WARNING, str(warning), "no secrets in files", remedy)
    yield Finding("configuration", State.OK, f"{file}: {counted(len(read.config.table), 'table')}")
    states: Mapping[str, Mapping[str, Any]] = {}
    lease = read.config.application.lease or checkpoint_of(read.config, file)
    with suppress(TailbitError):
        place = lease_place(read.config, file)
        lease, states = place.root, states_of(place)
    yield from _of_application(read, file, lease)
    of_table = partial(_findings, read, shlex.join(["tailbit", "run", "--config", file]))
    tables = [located(table, states) for table in read.config.table]
    for findings in run_each(of_table, tables, _late, TOGETHER, LOOK_S):
        yield from findings


def _of_application(read: ReadConfig, file: str, lease: str) -> Iterator[Finding]:
    """Yield the findings about jars, folders and port of the application. `lease`: place of its lease."""
    check_jars(read)
    for problem in read.problems.errors:
        yield Finding(
            "jars", State.PROBLEM, str(problem), "jars of the Spark that runs", "Correct this line."
        )
    given, options = read.config.application, StorageOptions.of(read.config.defaults.storage_options)
    checkpoint = checkpoint_of(read.config, file)
    if "://" not in checkpoint:
        yield of_place("checkpoint", checkpoint, options, "`checkpoint` of [application]")
    if given.lease is not None:
        yield of_place("lease", given.lease, options, "`lease` of [application]")
    if given.metrics != OFF:
        yield _of_port(given.metrics, lease, file)


def _of_port(address: str, lease: str, file: str) -> Finding:
    """Check that the pages can be served, unless the application with this lease serves them already."""
    host, _, port = address.rpartition(":")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.create_server((host.strip("[]"), int(port)), family=family):
            return Finding("port of the pages", State.OK, f"{address} is free")
    except OSError as refused:
        # A host that is not known has a negative number, which is none of the operating system's.
        number = refused.errno or 0
        text = f"{address}: {os.strerror(number) if number > 0 else refused.strerror or refused}"
    with (
        suppress(OSError, ValueError, HTTPException),
        direct().open(f"http://{address}/status.json", timeout=_PAGE_S) as page,
    ):
        if page.headers["Content-Security-Policy"] == POLICY:
            seen = orjson.loads(page.read())
            if seen.get("lease") == lease or seen.get("config") == os.path.abspath(file):
                return Finding("port of the pages", State.OK, f"{address}: this application serves there")
            text = f"{address}: the application with the lease {seen.get('lease')} serves there"
    remedy = "Name another address by `metrics` of [application]; without the pages, indexing goes on."
    return Finding("port of the pages", State.WARNING, text, "a port that is free", remedy)


def _findings(read: ReadConfig, command: str, table: TableEntry) -> list[Finding]:
    return list(_of_entry(read, table, command))


def _late(table: TableEntry) -> list[Finding]:
    """Return the finding about a table whose store does not answer in time."""
    text = f"{table.place}: no answer within {LOOK_S:.0f} s"
    remedy = "See whether the store can be reached from this machine. An application goes on with the others."
    return [Finding(f"{table.id}: table", State.PROBLEM, text, "a store that answers", remedy)]


def _of_entry(read: ReadConfig, table: TableEntry, command: str) -> Iterator[Finding]:
    """Yield the findings about one table of a configuration; the name of each check begins with its id."""
    if table.path is None:
        remark = f"{table.place} is of Spark's catalog, and looked at once an application has found it there"
        yield Finding(f"{table.id}: table", State.OK, remark)
        return
    look = look_at(table)
    for keys, problem in look.problems:
        where = f"{read.line_of(table, *keys)}: {problem}"
        if keys == ("path",):
            remedy = "Mend the table, or take it out." if look.is_of_table else "Correct this line."
            yield Finding(f"{table.id}: table", State.PROBLEM, where, "a table that can be read", remedy)
            return
        yield Finding(f"{table.id}: configuration", State.PROBLEM, where, _NEEDED, "Correct this line.")
    for keys, difference in look.differs:
        remedy = "Make file and index agree: until then the index keeps its own, and SIGHUP refuses the file."
        where = f"{read.line_of(table, *keys)}: {difference}"
        yield Finding(f"{table.id}: configuration", State.WARNING, where, _NEEDED, remedy)
    for keys, gone in look.dropped:
        remedy = "Take it out of the file, and of the index by `tailbit alter`: the index goes on without it."
        where = f"{read.line_of(table, *keys)}: {gone}"
        yield Finding(f"{table.id}: configuration", State.WARNING, where, _NEEDED, remedy)
    for finding in of_table(table.path, table.index, table.storage_options, table.max_lag, command):
        yield replace(finding, check=f"{table.id}: {finding.check}")
