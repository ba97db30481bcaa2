"""What keeps an indexer from its work: Spark, a table, or the place of the index.

Nothing is changed. In an object store one small object is written beside the index and deleted again, which
is the only way to learn whether the store tells which of two writers was first.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tailbit.base.errors import NoIndexError, StorageError, TailbitError
from tailbit.base.wording import counted
from tailbit.index.store.place import index_path
from tailbit.streaming.java.session import build_session
from tailbit.tables import open_table
from tailbit.tables.parquet.data_file import footer_hash
from tailbit.tables.storage import StorageOptions, open_storage
from tailbit.tables.table import Table
from tailbit.upkeep.finding import Finding, State, judged
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
    """Read the footer of a data file."""
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
    free = os.statvfs(nearest).f_bavail * os.statvfs(nearest).f_frsize
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
