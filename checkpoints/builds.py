"""The builds at work in one process: what each has to do, how much is done, its rate and the time left.

Builders add what they finish; every place that shows progress reads the same record: the bar and the lines of
the command line, the heartbeat and with it `status` in other processes, the pages and metrics. Cost: a few
additions per task of a build.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tailbit.base.dataclass import dataclass
from tailbit.base.wording import counted
from tailbit.checkpoints.lag import Lag
from tailbit.checkpoints.signs import MOST_BUILDS, length
from tailbit.index.maintenance.rebuild import BuildExtent, Extent

SHOWN_S = 1.0
"""A build is shown once it has been at work for as many seconds: a usual batch never is."""

_WINDOW_S = 120.0
"""The rate is that of the last seconds, so that it follows a disk or a cluster that becomes slower."""


@dataclass(frozen=True, slots=True)
class BuildProgress:
    """How far a build is at one moment.

    `table`: its name, for people. `extent`: all that is to be built, and what is built, with what is not
    committed yet. `bytes_per_second`, `rows_per_second`: None until something was finished in this process.
    """

    table: str
    extent: BuildExtent
    seconds: float = 0.0
    bytes_per_second: float | None = None
    rows_per_second: float | None = None

    @property
    def part(self) -> float:
        """Return the part that is built, from 0 to 1, by bytes."""
        whole, built = self.extent.whole, self.extent.built
        if whole.bytes:
            return built.bytes / whole.bytes
        return built.files / whole.files if whole.files else 1.0

    @property
    def seconds_left(self) -> float | None:
        """Return the time that is left at the present rate; None as long as no rate is known."""
        return self.extent.unbuilt.bytes / self.bytes_per_second if self.bytes_per_second else None

    def account(self) -> dict[str, Any]:
        """Return the progress, JSON-able."""
        whole, built = self.extent.whole, self.extent.built
        rate, seconds_left = self.rows_per_second, self.seconds_left
        return {
            "definitions": list(self.extent.definitions),
            "files": whole.files,
            "files_done": built.files,
            "rows": whole.rows,
            "rows_done": built.rows,
            "rows_exact": self.extent.rows_exact,
            "bytes": whole.bytes,
            "bytes_done": built.bytes,
            "part": round(self.part, 4),
            "rows_per_second": None if rate is None else round(rate, 1),
            "seconds_left": None if seconds_left is None else round(seconds_left, 1),
        }


def build_text(account: Mapping[str, Any]) -> str:
    """Return the account of a build in words.

    >>> extent = BuildExtent(Extent(20, 4000, 800), Extent(5, 1000, 200), definitions=("by_day",))
    >>> build_text(BuildProgress("t", extent).account())
    'by_day 25 %: 5 of 20 files, 1,000 of 4,000 rows'
    >>> build_text(BuildProgress("t", extent, 2.0, 100.0, 500.0).account())
    'by_day 25 %, some 6 s left: 5 of 20 files, 1,000 of 4,000 rows, 500 rows/s'
    """
    # Rounded down, so that 100 % is said of what is built as a whole.
    head = f"{int(100 * account['part'])} %"
    if account["definitions"]:
        head = f"{', '.join(account['definitions'])} {head}"
    if account["seconds_left"]:
        head += f", some {length(account['seconds_left'])} left"
    words = [f"{account['files_done']:,} of {counted(account['files'], 'file')}"]
    if account["rows"]:
        about = "" if account["rows_exact"] else "about "
        words.append(f"{account['rows_done']:,} of {about}{counted(account['rows'], 'row')}")
    if account["rows_per_second"]:
        words.append(f"{account['rows_per_second']:,.0f} rows/s")
    return f"{head}: {', '.join(words)}"


def lag_of_build(lag: Lag, progress: BuildProgress | None) -> Lag:
    """Return the lag while a snapshot is built: its files and bytes are those that are still to be built."""
    if progress is None:
        return lag
    return replace(lag, files=progress.extent.unbuilt.files, bytes=progress.extent.unbuilt.bytes)


class Build:
    """The record of what one builder does for a table: filled by its thread, read by any other."""

    def __init__(
        self,
        table: str,
        on_change: Callable[[Build], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._table, self._on_change, self._clock = table, on_change, clock
        self._lock = threading.Lock()
        self._key: Hashable = None
        self._extent: BuildExtent | None = None
        self._running: Callable[[], Extent] | None = None
        self._began = 0.0
        self._marks: deque[tuple[float, Extent]] = deque()

    def begin(self, key: Hashable, extent: Callable[[], BuildExtent]) -> None:
        """Begin a build, or go on with the one of this `key`, for which `extent` is not called.

        A build with other files or definitions that follows at once goes on at its rate.
        """
        if self._extent is not None and key == self._key:
            return
        begun, now = extent(), self._clock()
        with self._lock:
            goes_on = self._extent is not None and self._extent.definitions == begun.definitions
            self._key, self._extent = key, begun
            if not goes_on:
                self._began = now
            self._marks = deque([(now, begun.built)])
        self._changed()

    def add(self, finished: Extent) -> None:
        """Note that files were built."""
        now = self._clock()
        with self._lock:
            if self._extent is None:
                return
            built = (self._extent.built + finished).within(self._extent.whole)
            self._extent = _with(self._extent, built)
            self._marks.append((now, built))
            while len(self._marks) > 2 and now - self._marks[1][0] > _WINDOW_S:
                self._marks.popleft()
        self._changed()

    @contextmanager
    def step(self) -> Iterator[None]:
        """Take back what the block added if it fails, since it is done again."""
        before = self.mark()
        try:
            yield
        except BaseException:
            self.back_to(before)
            raise

    def mark(self) -> BuildExtent | None:
        """Return a mark of what is built, for `back_to`."""
        return self._extent

    def back_to(self, mark: BuildExtent | None) -> None:
        """Forget what was added since a mark."""
        with self._lock:
            if mark is not None and self._extent is not None:
                self._extent = _with(self._extent, mark.built)

    @contextmanager
    def watching(self, running: Callable[[], Extent]) -> Iterator[None]:
        """Let the progress show what tasks elsewhere have finished, until the block ends and it is added."""
        self._running = running
        try:
            yield
        finally:
            self._running = None

    def end(self) -> None:
        """End the build."""
        with self._lock:
            self._extent = self._key = None

    def progress(self) -> BuildProgress | None:
        """Return how far the build is; None if none is at work."""
        now = self._clock()
        with self._lock:
            extent, running = self._extent, self._running
            if extent is None:
                return None
            if running is not None:
                extent = _with(extent, (extent.built + running()).within(extent.whole))
            since, before = self._marks[0]
            seconds, done = max(now - since, 1e-3), extent.built - before
            began = self._began
        if done.bytes <= 0:
            return BuildProgress(self._table, extent, now - began)
        rates = done.bytes / seconds, done.rows / seconds if done.rows > 0 else None
        return BuildProgress(self._table, extent, now - began, *rates)

    def _changed(self) -> None:
        if self._on_change is not None:
            self._on_change(self)


def _with(extent: BuildExtent, built: Extent) -> BuildExtent:
    return BuildExtent(extent.whole, built, extent.rows_exact, extent.definitions)


class Builds:
    """The builds of one process, by the id of their index.

    `on_change`: called in the thread of a builder after each task.
    """

    def __init__(self, on_change: Callable[[Build], None] | None = None) -> None:
        self._on_change = on_change
        self._builds: dict[str, dict[str, Build]] = {}

    def build(self, index_id: str, builder: str, table: str) -> Build:
        """Return the record of one builder of the index; a builder that starts again goes on.

        `table`: its name, for people.
        """
        of_index = self._builds.get(index_id, {})
        if builder not in of_index:
            # Replaced as a whole, since others read it meanwhile.
            of_index = {**of_index, builder: Build(table, self._on_change)}
            self._builds[index_id] = of_index
        return of_index[builder]

    def forget(self, index_id: str) -> None:
        """Forget the builds of an index, whose builders have ended."""
        self._builds.pop(index_id, None)

    def of(self, index_id: str, shown_s: float = SHOWN_S) -> BuildProgress | None:
        """Return the build of an index; the larger of two at work at once, None if there is none to show.

        `shown_s`: seconds for which a build to show has been at work.
        """
        builds = self._builds.get(index_id, {}).values()
        in_progress = [progress for build in builds if (progress := build.progress())]
        shown = [progress for progress in in_progress if progress.seconds >= shown_s]
        return max(shown, key=lambda progress: progress.extent.unbuilt.bytes, default=None)

    def at_work(self, shown_s: float = SHOWN_S) -> Sequence[BuildProgress]:
        """Return the builds to show, one of each index."""
        return [progress for id_ in list(self._builds) if (progress := self.of(id_, shown_s))]

    def accounts(self) -> dict[str, dict[str, Any]]:
        """Return the accounts of the builds to show, by the id of the index."""
        shown = [(id_, progress) for id_ in list(self._builds) if (progress := self.of(id_))]
        return {id_: progress.account() for id_, progress in shown[:MOST_BUILDS]}
