"""A table whose questions Spark's executors answer, in the words of `tailbit.open` and with its answers.

A question that touches few bytes is answered by the driver, as `tailbit.open` does it. Any other is divided
into portions, and a job evaluates each where it is read: tasks send counts, groups and aggregates, never rows
or positions. Rows are read by the data source, whose tasks evaluate and read portions too.
"""

from __future__ import annotations

import datetime
import re
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from pyspark.errors import PySparkException

from tailbit import __version__
from tailbit.analysis import Analysis
from tailbit.answer import Answer, explained
from tailbit.api import IndexedTable
from tailbit.arguments.conditions import Condition, expression_texts
from tailbit.arguments.values import names
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import ClusterError, CorruptIndexError, RequirementError, UsageError
from tailbit.index.grouping.dictionary import Combinations
from tailbit.index.grouping.facets import count_groups
from tailbit.index.grouping.grouping import Groups, recorded_groups, sum_of_groups
from tailbit.index.grouping.measures import Aggregates, Measure, aggregated
from tailbit.index.query.recorded_counts import RecordedCounts
from tailbit.index.query.selection import Selection
from tailbit.spark.locating import located
from tailbit.spark.portions import Division, Portion, packed, unpacked
from tailbit.spark.session import cores_of
from tailbit.streaming.executors import end_jobs, on_workers
from tailbit.streaming.java.session import on_one_machine
from tailbit.streaming.query.failures import in_short
from tailbit.streaming.watch.cluster import executors
from tailbit.tables.model import Column
from tailbit.tables.storage import StorageOptions
from tailbit.vacuumed import tells_vacuumed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

R = TypeVar("R")

_PATIENCE_S = 120.0
"""How long a question waits while no executor is registered."""

_PAUSE_S = 1.0

_MISSING = re.compile(r"No module named '(\w+)")
"""What a Python worker says that lacks tailbit, or what tailbit needs."""


@dataclass(frozen=True, eq=False)
class SparkTable:
    """A table and its index, asked in a Spark session; `tailbit.spark.open` returns one.

    Each `where` looks for new commits and binds an answer to one version, as that of `tailbit.open` does.
    """

    _spark: SparkSession
    _table: IndexedTable
    _index: str | None
    _options: Mapping[str, str] | None
    _task_bytes: int

    @property
    def path(self) -> str:
        """Return the absolute local path of the table, or its URL."""
        return self._table.path

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the table at its head and their types, as pyarrow has them."""
        return self._table.schema

    def where(
        self,
        where: str | Condition | None = None,
        params: Sequence[Any] | Mapping[str, Any] | None = None,
        version: int | str | None = None,
        as_of: datetime.date | str | None = None,
        zone: str = "UTC",
        partition_zone: str | None = None,
    ) -> SparkAnswer:
        """Return the rows where `where` is TRUE; arguments and errors are those of `IndexedTable.where`."""
        answer = self._table.where(where, params, version, as_of, zone, partition_zone)
        return SparkAnswer(self._spark, self._table, answer, self._task_bytes)

    def count(
        self,
        where: str | Condition | None = None,
        params: Sequence[Any] | Mapping[str, Any] | None = None,
    ) -> int:
        """Count the rows of the table's newest version: all rows, or those for which `where` is TRUE."""
        return self.where(where, params).count()

    def locate(
        self,
        keys: DataFrame,
        on: str | Iterable[str] | None = None,
        version: int | str | None = None,
        as_of: datetime.date | str | None = None,
        since: int | str | None = None,
    ) -> DataFrame:
        """Return where the rows with the keys of a DataFrame lie, as `tailbit.spark.locate` does."""
        return located(self.path, keys, on, version, as_of, self._index, self._options, since)


class SparkAnswer(Analysis):
    """The rows of one version of a table where a predicate is TRUE, evaluated by executors.

    Methods and results are those of `tailbit.answer.Answer`. Rows are given as a DataFrame alone.
    """

    def __init__(self, spark: SparkSession, table: IndexedTable, answer: Answer, task_bytes: int) -> None:
        self._spark, self._indexed, self._answer, self._task_bytes = spark, table, answer, task_bytes
        self._path, self._zone, self._table = answer._path, answer._zone, answer._table
        self._selection: Selection = answer._selection
        self._recorded: RecordedCounts | None = answer._recorded

    def __repr__(self) -> str:
        """Return table, version and predicate in one line."""
        return f"Spark{self._answer!r}"

    @property
    def predicate(self) -> str | None:
        """Return the condition as it was given; None if every row was requested."""
        return self._answer.predicate

    @property
    def damaged(self) -> list[CorruptIndexError]:
        """Return damaged index files met so far; the data was read instead, so the answer is right."""
        return self._selection.damaged

    @tells_vacuumed
    def count(self) -> int:
        """Count the rows where the predicate is TRUE."""
        return sum(self._evaluated(Selection.count, "count the rows"))

    def dataframe(self, columns: Iterable[str] | None = None) -> DataFrame:
        """Return the rows as a DataFrame, whose tasks find and read them; `columns` as in `Answer.read`."""
        return self._answer.dataframe(self._spark, columns)

    @tells_vacuumed
    def explain(
        self, facets: Iterable[str | Condition] = (), columns: Iterable[str] = ()
    ) -> Mapping[str, Any]:
        """Explain as `Answer.explain` does; `evaluated`: where a count is, in how many tasks, and why.

        The explanation is made where the count is.
        """
        counted = self._keys(*expression_texts("facets", facets))
        read_columns = [self._selection.schema.resolve(name) for name in names("columns", columns)]
        portions, touched = self._divided(())
        place, tasks = ("driver", 0) if portions is None else ("executors", len(portions))
        evaluated = {"by": place, "tasks": tasks, "bytes": touched, "task_bytes": self._task_bytes}
        if portions is None:
            return {**self._answer.explain(facets, columns), "evaluated": evaluated}
        question = partial(explained, counted=counted, columns=read_columns)
        explanations = self._evaluated(question, "explain the answer", every=True)
        account = self._answer._explanation(explanations, bool(counted), bool(read_columns))
        return {**account, "evaluated": evaluated}

    @tells_vacuumed
    def _groups(self, *columns: str | Condition, ordered: bool = True) -> Groups:
        keys = self._keys(*columns)
        if self._recorded is not None:
            groups = recorded_groups(self._selection, keys, self._recorded)
            if groups is not None:
                return groups
        combinations = self._evaluated(partial(_combinations, keys), "count the rows by group", keys)
        return sum_of_groups(keys, combinations)

    @tells_vacuumed
    def _aggregated(self, by: Sequence[Column], measures: Sequence[Measure]) -> Aggregates:
        columns = [*by, *(measure.column for measure in measures)]
        question = partial(aggregated, by=by, measures=measures)
        total = Aggregates.none(by, measures)
        for of_portion in self._evaluated(question, "aggregate columns", columns):
            total.add(of_portion)
        return total

    def _divided(self, columns: Sequence[Column], every: bool = False) -> tuple[list[Portion] | None, int]:
        """Return the portions for a job, None if the driver answers by itself; and the bytes to be read.

        They are at least these bytes where it is a job. `every`: the portions of all files.
        """
        with self._indexed._lock:
            division = Division.of(self._indexed, self._selection, self._task_bytes)
            touched = division.postings + division.bytes_of_data(columns)
            if touched < self._task_bytes:
                return None, touched
            return list(division.portions(cores_of(self._spark), whole=True, every=every)), touched

    def _evaluated(
        self,
        question: Callable[[Selection], R],
        purpose: str,
        columns: Sequence[Column] = (),
        every: bool = False,
    ) -> list[R]:
        """Return the answers to a question about the selection as a whole, or about each of its portions."""
        portions, _ = self._divided(columns, every)
        if not portions:
            return [question(self._selection)]
        options = self._selection.storage.options
        run = partial(_answer_to, question, options, __version__)
        text = f"tailbit: {purpose} of {self._path}"
        text += "" if self.predicate is None else f" where {self.predicate}"
        with _described(self._spark, text):
            answers = _by_executors(self._spark, run, list(map(packed, portions)))
        for _, damages in answers:
            for damage in damages:
                self._selection.damages.note(damage)
        return [answer for answer, _ in answers]


def _combinations(columns: Sequence[Column], selection: Selection) -> Combinations:
    return count_groups(selection, columns).combinations()


def _answer_to(
    question: Callable[[Selection], R], options: StorageOptions, release: str, portion: bytes
) -> tuple[R, list[CorruptIndexError]]:
    """Answer a question about a portion on an executor; return also the damaged index files met there."""
    selection = unpacked(portion, options, release).division().selection
    return question(selection), selection.damaged


@contextmanager
def _described(spark: SparkSession, text: str) -> Iterator[None]:
    """Show in Spark's UI what the jobs of this thread in the block are for."""
    context = spark.sparkContext
    before = context.getLocalProperty("spark.job.description")
    context.setJobDescription(text)
    try:
        yield
    finally:
        context.setLocalProperty("spark.job.description", before)


def _by_executors(spark: SparkSession, run: Callable[[bytes], R], portions: Sequence[bytes]) -> list[R]:
    """Return what tasks return for portions.

    Raises:
        ClusterError: no executor has registered for `_PATIENCE_S`, or the job failed.
        RequirementError: executors have no tailbit, or another release.
        TailbitError: as a task raised it.
    """
    master, job, done = str(spark.sparkContext.master), f"question-{uuid.uuid4().hex}", threading.Event()
    lonely = threading.Event()

    def watch() -> None:
        waited = 0.0
        while waited < _PATIENCE_S:
            if done.wait(_PAUSE_S):
                return
            waited = 0.0 if executors(spark) else waited + _PAUSE_S
        lonely.set()
        end_jobs(spark, job)

    watcher = threading.Thread(target=watch, name="tailbit-patience", daemon=True)
    if not on_one_machine(master):
        watcher.start()
    try:
        return on_workers(spark, run, portions, job)
    except ClusterError:
        if lonely.is_set():
            reason = f"no executor has registered for {_PATIENCE_S:.0f} s"
            raise ClusterError(master=master, reason=reason) from None
        raise
    except PySparkException as failed:
        missing = _MISSING.search(str(failed))
        if missing is not None:
            remedy = f"Install tailbit {__version__} for the Python of all executors (spark.pyspark.python)."
            raise RequirementError(reason=f"executors have no {missing[1]}", remedy=remedy) from None
        raise ClusterError(master=master, reason=in_short(str(failed))) from failed
    finally:
        done.set()


def spark_table(
    spark: SparkSession,
    table: IndexedTable,
    index: str | None,
    options: Mapping[str, str] | None,
    task_bytes: int,
) -> SparkTable:
    """Return a table asked in a session.

    Raises:
        UsageError: the session is one of Spark Connect, which starts no jobs of Python functions here.
    """
    if not hasattr(spark, "_jsparkSession"):
        hint = "Open the table in an application with a driver of its own, or ask tailbit.open(path)."
        raise UsageError(reason="the session has no Java process beside it (Spark Connect)", hint=hint)
    return SparkTable(spark, table, index, options, task_bytes)
