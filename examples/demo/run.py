"""The demo: the flights that left New York in 2013 are written by one process and indexed by another.

The writer appends month by month, deletes, updates, merges, compacts and restores with real delta-spark;
`tailbit run` tails the table, is killed with SIGKILL right after a commit, and started again. At the end the
index and a Spark scan answer the same questions, side by side; every answer must be equal.
"""

from __future__ import annotations

import contextlib
import queue
import signal
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

import tailbit
from demo.processes import Child, DemoError, Writer, signals_wait
from demo.screen import Screen, comparison
from demo.writer import STEPS, check_spark, load_flights
from tailbit.api import IndexedTable
from tailbit.checkpoints.lag import Backlog, Lag
from tailbit.errors import UsageError
from tailbit.streaming.java.session import check_java
from tailbit.tables import open_table

COLUMNS = ("carrier", "origin", "dest", "month", "dep_delay")

BEFORE_UPDATE = STEPS.index("update carrier") - 1

QUESTIONS: tuple[tuple[str, int | None], ...] = (
    ("carrier = 'UA' AND dest IN ('SFO', 'LAX')", None),
    ("origin <> 'JFK' AND month = 7 AND dep_delay >= 120", None),
    ("NOT (carrier IN ('UA', 'DL', 'AA')) AND dep_delay IS NULL", None),
    ("dest = 'MIA' AND month = 12 AND air_time > 180", None),
    ("carrier = 'FL'", BEFORE_UPDATE),
)
"""Conditions, each with the version to query (None: the last).

`air_time` is not indexed, so its condition stays as a residual filter.
"""

KILLED_BY = STEPS.index("merge")
"""The step after whose commit the indexer is killed."""

PATIENCE_S = 150.0
"""Most seconds that the demo waits for one event."""


def run_demo(folder: str | None) -> int:
    """Run the demo; 0 if every answer is equal and the index is sound, 1 if not.

    `folder`: where table, index and logs are kept; if None, they are deleted when the demo ends. Ctrl-C or
    SIGTERM ends all processes.

    Raises:
        RequirementError: Java, pyspark or the flights are missing.
        UsageError: the folder has a table already.
        DemoError: the writer or the indexer ended by itself.
    """
    check_java()
    check_spark()
    load_flights()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupted)
    is_kept = folder is not None
    with contextlib.ExitStack() as stack:
        if folder is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tailbit-demo-"))
        place = Path(folder).resolve()
        if (place / "flights").exists():
            raise UsageError(reason=f"{place / 'flights'} exists", hint="Give an empty --folder.")
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as refused:
            hint = "Give a --folder that can be written."
            raise UsageError(reason=f"{place} cannot be made: {refused.strerror}", hint=hint) from refused
        demo = Demo(console(), place, stack)
        status = demo.run()
        if is_kept:
            demo.console.print(f"Ask it yourself: tailbit count {demo.path} \"dest = 'SFO'\"", soft_wrap=True)
        return status


def console() -> Console:
    """Return the terminal; without one, a console wide enough for the results."""
    screen = Console()
    return screen if screen.is_terminal else Console(width=120)


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


class Demo:
    """One run of the demo: two processes, the screen, and the progress."""

    def __init__(self, console: Console, place: Path, stack: contextlib.ExitStack) -> None:
        self.console, self.place, self.stack = console, place, stack
        self.path = str(place / "flights")
        self.screen = Screen(console, len(STEPS))
        with signals_wait():
            self.writer = Writer(self.path, place / "writer.log")
            stack.enter_context(self.writer)
        self.indexer: Child | None = None
        self.state = "not started"
        self.table: IndexedTable | None = None
        self.backlog: Backlog | None = None

    def run(self) -> int:
        """Write and index the table, then compare the answers."""
        started = time.monotonic()
        with self.screen:
            self._say("starting", "two processes: the writer (delta-spark) and the indexer (tailbit run)")
            self._answer()
            for number in range(len(STEPS)):
                self._step(number)
            self._wait("the index to catch up", lambda lag: lag is not None and not lag.versions)
            self._stop_indexer()
        sound = all([self._questions(), self._facets(), self._plain_sql(), self._verify()])
        verdict = "every answer equal" if sound else "NOT EQUAL: see above"
        self.console.print(f"\n{verdict}, {time.monotonic() - started:.0f} s in all", style="bold")
        return 0 if sound else 1

    def _step(self, number: int) -> None:
        """Run one commit of the writer; start the indexer after the first and kill it at `KILLED_BY`."""
        if number == KILLED_BY:
            self._wait("the indexer to be at work", lambda lag: lag is not None and lag.covered > 2)
        self.writer.ask("step", number=number)
        if number == KILLED_BY:
            self._wait("the commit", lambda lag: lag is not None and lag.head >= number, pause=0.01)
            self._kill_indexer()
        done = self._answer()
        self._say("writer", f"version {done['version']:>2}  {done['what']}  ({done['seconds']:.1f} s)")
        if number == 0:
            self._start_indexer()

    def _start_indexer(self) -> None:
        arguments = ["tailbit.cli", "run", self.path, "--columns", ",".join(COLUMNS)]
        with signals_wait():
            self.indexer = Child("indexer", self.place / "indexer.log", arguments)
            self.stack.enter_context(self.indexer)
        self.state = "running"
        self._say("indexer", f"started (process {self.indexer.process.pid})")

    def _kill_indexer(self) -> None:
        assert self.indexer is not None
        lag = self._lag()
        self.indexer.kill()
        self._say("indexer", f"killed with SIGKILL, {lag.text if lag else 'before its first commit'}")
        self._start_indexer()

    def _stop_indexer(self) -> None:
        assert self.indexer is not None
        lag, status = self._lag(), self.indexer.stop(30)
        self._say("indexer", f"covered version {lag.covered if lag else None}; stopped with status {status}")
        if status != 0:
            raise DemoError(name="indexer", status=status, tail="", log=str(self.indexer.log))

    def _say(self, who: str, event: str) -> None:
        self.screen.event(who, event)

    def _answer(self) -> dict[str, Any]:
        """Return the writer's next answer; refresh the screen while waiting."""
        answers: list[dict[str, Any]] = []

        def arrived(_: Lag | None) -> bool:
            with contextlib.suppress(queue.Empty):
                answers.append(self.writer.answers.get_nowait())
            return bool(answers)

        self._wait("the writer", arrived)
        return answers[0]

    def _wait(self, condition: str, done: Callable[[Lag | None], bool], pause: float = 0.1) -> None:
        """Refresh the screen until `done`.

        Raises:
            DemoError: a process ended, or the wait took too long.
        """
        until = time.monotonic() + PATIENCE_S
        while True:
            lag = self._lag()
            self.screen.show(lag, self.state)
            if done(lag):
                return
            for child in (self.writer, self.indexer):
                if child is not None:
                    child.check()
            if time.monotonic() > until:
                raise DemoError(name=f"wait for {condition}", status="none", tail="", log=str(self.place))
            time.sleep(pause)

    def _lag(self) -> Lag | None:
        """Return how far the index is behind; None while there is no table."""
        if self.table is None:
            if not Path(self.path, "_delta_log", f"{0:020}.json").exists():
                return None
            self.table = tailbit.open(self.path)
            self.backlog = Backlog(open_table(self.path))
        assert self.backlog is not None
        answer = self.table.where()
        covered = answer.covered_version
        return self.backlog.lag(-1 if covered is None else covered, answer.version)

    def _questions(self) -> bool:
        assert self.table is not None
        head = self.table.where().version
        rows, equal = [], []
        for sql, version in QUESTIONS:
            asked_version = head if version is None else version
            count, mine_s = _best(partial(self._count, sql, asked_version))
            theirs, theirs_s = _best(partial(self._spark_count, sql, asked_version))
            equal.append(count == theirs)
            rows.append(
                [
                    sql,
                    str(asked_version),
                    f"{count:,}",
                    _ms(mine_s),
                    f"{theirs:,}",
                    _ms(theirs_s),
                    _mark(count == theirs),
                ]
            )
        header = ("question", "version", "index", "ms", "Spark scan", "ms", "equal")
        self.console.print("\nFive questions, better of two runs each (ms):")
        self.console.print(comparison(header, rows))
        return all(equal)

    def _count(self, sql: str, version: int) -> int:
        assert self.table is not None
        return self.table.where(sql, version=version).count()

    def _spark_count(self, sql: str, version: int) -> int:
        return int(self._ask("count", where=sql, version=version)["count"])

    def _ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        self.writer.ask(do, **arguments)
        try:
            return self.writer.answers.get(timeout=PATIENCE_S)
        except queue.Empty:
            self.writer.check()
            raise

    def _facets(self) -> bool:
        assert self.table is not None
        answer = self.table.where()
        equal = []
        for column in ("carrier", "origin"):
            started = time.perf_counter()
            counts = answer.facets(column)
            mine_s = time.perf_counter() - started
            theirs = self._ask("facets", column=column, version=answer.version)
            equal.append(counts == dict(theirs["facets"]))
            top = [[str(value), f"{rows:,}"] for value, rows in list(counts.items())[:5]]
            note = f"index {_ms(mine_s)} ms, Spark {_ms(theirs['seconds'])} ms {_mark(equal[-1])}"
            self.console.print(f"\nFlights by {column}: {note}", highlight=False)
            self.console.print(comparison((column, "flights"), top))
        return all(equal)

    def _plain_sql(self) -> bool:
        """Let Spark use the index, and ask it the questions in plain SQL."""
        assert self.table is not None
        if refused := self._ask("accelerate")["refused"]:
            self.console.print(f"\nSpark's own SQL is not accelerated: {refused}", markup=False)
            return True
        head = self.table.where().version
        rows, equal = [], []
        for sql, version in QUESTIONS:
            asked_version = head if version is None else version
            answers = [self._ask("plain_sql", where=sql, version=asked_version) for _ in range(2)]
            equal.append({answer["count"] for answer in answers} == {self._count(sql, asked_version)})
            took = _ms(min(answer["seconds"] for answer in answers))
            rows.append(
                [
                    sql,
                    str(asked_version),
                    f"{answers[-1]['count']:,}",
                    took,
                    answers[-1]["served"],
                    _mark(equal[-1]),
                ]
            )
        header = ("SELECT count(*) FROM … WHERE", "version", "Spark", "ms", "served by", "equal")
        self.console.print("\nThe same in Spark's own SQL, after one line: tailbit.spark.accelerate(spark)")
        self.console.print(comparison(header, rows))
        return all(equal)

    def _verify(self) -> bool:
        assert self.table is not None
        report = self.table.verify()
        for problem in report.problems:
            self.console.print(f"{problem.where}: {problem.found}", markup=False)
        self.console.print(
            f"\nverify: {report.postings:,} postings, {report.positions:,} positions, "
            f"{report.counts:,} value counts, {report.sampled} values read again {_mark(report.sound)}",
            highlight=False,
        )
        return report.sound


def _best(measure: Callable[[], int]) -> tuple[int, float]:
    """Return the result, and the shorter time, of two runs."""
    times = []
    for _ in range(2):
        started = time.perf_counter()
        result = measure()
        times.append(time.perf_counter() - started)
    return result, min(times)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f}"


def _mark(equal: bool) -> str:
    return "[green]✓[/]" if equal else "[red]✗[/]"
