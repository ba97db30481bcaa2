"""A Delta table that delta-spark writes, and Spark as the judge of what tailbit answers at every version.

An index follows the table statement by statement; at the end the same questions are put to that index, to no
index, and to one that is built only then. Spark judges all versions of one schema in one job.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow.compute as pc

import tailbit
from support.acceleration import patiently_accelerated
from support.drive import Drive
from support.oracle import Positions, as_lists
from support.profiles import PROOF, chosen
from support.replay import answer, forget_logs, run, write
from support.rows import as_python, canonical
from tailbit.api import IndexedTable
from tailbit.errors import TailbitError
from tailbit.tables import Table, open_table
from tailbit.tables.delta.deletion_vectors import DeletionVector, vector_path

REFUSED = "refused"
"""Spark's answer, or ours, to a question that names a column that the version has not got."""

_COUNTED = "monotonically_increasing_id() & ((1L << 33) - 1)"
"""The row's number in its Spark partition. Delta shows `_metadata.row_index` only where deletion vectors or
row tracking may occur; in other tables no row is hidden, and with a file a partition both are the same."""

MODES = ("files,counts,groups,rows", "files", "rows")
"""What is served of plain SQL, version by version."""

ENOUGH = 500
"""Scans of plain SQL that have been served, after which each mode must be among them."""

SERVED: Counter[str] = Counter()
"""How many scans of plain SQL each mode has served in this process."""

Answers = dict[tuple[int, str], Positions | str]
"""By version and predicate; files by absolute path, since a clone's log names them so."""

Rows = dict[int, list[str]]
"""By version, each row in one spelling."""


class JudgedTable:
    """A table under test: `sql` changes it, `judge` compares every version that can be read.

    `{t}` in a statement is the table. Columns in `indexed` are indexed from the first statement after which
    all of them exist; the index then takes in each statement by itself, as a running indexer would. `index`
    is where it lies, else below the table.
    """

    def __init__(self, spark: Any, path: str, indexed: Sequence[str], index: str | None = None) -> None:
        self.spark, self.path, self.indexed = spark, path, list(indexed)
        self.index = index or f"{path}/_tailbit"
        self._followed: Drive | None = None
        self._opened: tailbit.IndexedTable | None = None

    @property
    def name(self) -> str:
        """The table in SQL."""
        return f"delta.`{self.path}`"

    def sql(self, *statements: str, follow: bool = True, **settings: str) -> None:
        """Run statements under Spark settings (`__` for `.` in their names); the index follows each.

        With `follow` false the index stays behind until the next statement that it may follow.
        """
        named = {key.replace("__", "."): value for key, value in settings.items()}
        for statement in statements:
            run(self.spark, statement.replace("{t}", self.name), settings=named)
            if follow:
                self.follow()

    def write(self, what: object, act: Callable[[], object]) -> None:
        """Have Spark write by `act` what a JSON value names."""
        write(self.spark, what, act)

    def follow(self) -> None:
        """Let the index take in what is new."""
        if self._followed is None and os.path.isdir(f"{self.path}/_delta_log"):
            self._followed = Drive(self.path, self.index, self.indexed)
            self._opened = tailbit.open(self.path, index=self.index)
        if self._followed is not None:
            self._followed.drain()

    def restart(self) -> None:
        """The indexer ends, and begins anew at the next statement; its Spark checkpoint is lost."""
        self._followed = None

    def forget(self) -> None:
        """Spark forgets what it knows of logs: its files were changed, in the same way in every run."""
        forget_logs(self.spark)

    def judge(
        self, *predicates: str, versions: Sequence[int] | None = None, zone: str = "UTC", rows: bool = True
    ) -> None:
        """Compare counts, positions and rows at the chosen versions, or those given, by states of the index:

        as it is (behind, after statements it did not follow), caught up (opened now, and open since it was
        made), built at the end, absent.
        A predicate that Spark cannot resolve at a version must be refused there by name, and no other.
        Versions of which VACUUM has taken files are left out. `zone`: the session's time zone. `rows`:
        compare whole rows as well; dates beyond Python's calendar have none.
        """
        versions = chosen(self.readable()) if versions is None else versions
        expected, whole = self._judgement(versions, ["TRUE", *predicates], zone, rows)
        followed, built = self.index, f"{self.path}-built"
        if os.path.exists(followed):
            self._compare("as it is", tailbit.open(self.path, index=followed), expected, zone)
        self.follow()
        assert tailbit.open(self.path, index=followed).verify().problems == []
        shutil.rmtree(built, ignore_errors=True)
        self._compare("followed", tailbit.open(self.path, index=followed), expected, zone)
        if PROOF and self.index == f"{self.path}/_tailbit":
            with self._in_zone(zone):
                self._compare_plain_sql(expected)
        if self._opened is not None:
            self._compare("followed, and open from the first", self._opened, expected, zone)
        there = answer(
            self.spark,
            ["at head", self.indexed],
            lambda: [name for name in self.indexed if self._at_head(name)],
        )
        if there:
            Drive(self.path, built, there).drain()
            assert tailbit.open(self.path, index=built).verify().problems == []
            self._compare("built at the end", tailbit.open(self.path, index=built), expected, zone)
        shutil.move(followed, f"{self.path}-kept")
        try:
            self._compare("absent", tailbit.open(self.path), expected, zone)
            self._compare_rows(whole)
        finally:
            shutil.move(f"{self.path}-kept", followed)

    def _judgement(
        self, versions: Sequence[int], predicates: Sequence[str], zone: str, whole: bool
    ) -> tuple[Answers, Rows]:
        """Return what `spark_answers` returns in a time zone, or has returned when it was recorded."""

        def ask() -> list[Any]:
            with self._in_zone(zone):
                answers, rows = self.spark_answers(versions, predicates, whole)
            return [[[*at, found] for at, found in answers.items()], [*map(list, rows.items())]]

        question = ["judge", self.path, list(versions), list(predicates), zone, whole]
        answers, rows = answer(self.spark, question, ask)
        return {(version, text): found for version, text, found in answers}, dict(rows)

    def judge_facets(self, *columns: str, version: int | None = None) -> None:
        """Compare the values of columns and how often they occur, at one version, with Spark's GROUP BY.

        The index answers as it is, and once more there is none. Spark groups by each column in one job.
        """
        at = open_table(self.path).head() if version is None else version
        question = ["facets", self.path, at, list(columns)]
        for column, expected in answer(self.spark, question, lambda: self._grouped(at, columns)).items():
            for opened in (
                tailbit.open(self.path, index=self.index),
                IndexedTable(open_table(self.path), f"{self.path}-none"),
            ):
                facets = opened.where(version=at).facets(column)
                found = {repr(canonical(value)): count for value, count in facets.items()}
                assert found == expected, (column, at, found.items() ^ expected.items())

    def _grouped(self, version: int, columns: Sequence[str]) -> dict[str, dict[str, int]]:
        """By column, how often each of its values occurs."""
        names = [f"g{n}" for n in range(len(columns))]
        self._at(version).selectExpr(
            *(f"{column} AS {name}" for column, name in zip(columns, names, strict=True))
        ).createOrReplaceTempView("judged_facets")
        rows = self.spark.sql(
            f"SELECT grouping_id({', '.join(names)}) AS missing, {', '.join(names)}, count(*) AS rows"
            f" FROM judged_facets GROUP BY GROUPING SETS ({', '.join(f'({name})' for name in names)})"
        ).toArrow()
        found: dict[str, dict[str, int]] = {}
        every = (1 << len(names)) - 1
        for n, (column, name) in enumerate(zip(columns, names, strict=True)):
            of_column = rows.filter(pc.equal(rows["missing"], every ^ (1 << (len(names) - 1 - n))))
            values = [repr(canonical(value)) for value in as_python(of_column[name])]
            found[column] = dict(zip(values, of_column["rows"].to_pylist(), strict=True))
        return found

    def readable(self) -> list[int]:
        """The versions that can be rebuilt and all of whose files are there."""
        table = open_table(self.path)
        versions = range(table.earliest(), table.head() + 1)
        return [version for version in versions if all(map(os.path.exists, _files(table, version)))]

    def _compare(
        self, state: str, opened: tailbit.IndexedTable, expected: Answers, zone: str = "UTC"
    ) -> None:
        for (version, predicate), positions in expected.items():
            found = self._ask(opened, predicate, version, zone)
            assert found == positions, f"{predicate}\n at version {version}, index {state}"

    def _compare_plain_sql(self, expected: Answers) -> None:
        """Count what each predicate selects by Spark's own SQL, which uses the index, in all modes in turn.

        Where Spark counts otherwise without the index too, as of NaN that its own pushdown loses, that holds.
        """
        with patiently_accelerated(self.spark) as acceleration:
            for version in {version for version, _ in expected}:
                texts = [text for (at, text), found in expected.items() if at == version and found != REFUSED]
                mode = MODES[version % len(MODES)]
                self.spark.conf.set("spark.tailbit.serve", mode)
                counts = self._counted(version, texts)
                SERVED.update(scan.served for scan in acceleration.last() if scan.served)
                others = [text for text in texts if counts[text] != _number(expected[version, text])]
                self.spark.conf.set("spark.tailbit.enabled", "false")
                plain = self._counted(version, others)
                self.spark.conf.set("spark.tailbit.enabled", "true")
                assert plain == {text: counts[text] for text in others}, f"version {version}, {mode}"

    def _counted(self, version: int, texts: Sequence[str]) -> dict[str, int]:
        """The number of rows of a version where each text is TRUE, in one statement of plain SQL."""
        counts = (
            f"SELECT {number}, count(*) FROM {self.name} VERSION AS OF {version} WHERE {text}"
            for number, text in enumerate(texts)
        )
        rows = self.spark.sql("\nUNION ALL ".join(counts)).collect() if texts else []
        return {texts[number]: count for number, count in rows}

    def _compare_rows(self, expected: Rows) -> None:
        for version, rows in expected.items():
            found = tailbit.open(self.path).where(version=version).read().to_pylist()
            assert sorted(repr(canonical(list(r.values()))) for r in found) == rows, f"version {version}"

    def spark_answers(
        self, versions: Sequence[int], predicates: Sequence[str], whole: bool = True
    ) -> tuple[Answers, Rows]:
        """Per version and predicate the positions where it is TRUE, and all rows; one Spark job a schema."""
        answers: Answers = {}
        rows: Rows = {version: [] for version in versions} if whole else {}
        frames: dict[str, Any] = {}
        counted = False
        for version in versions:
            source = self._at(version)
            judged = self._judged(source, predicates)
            for predicate, found in zip(predicates, judged, strict=True):
                answers[version, predicate] = REFUSED if found is None else {}
            position = _resolved(source, "_metadata.row_index") or _COUNTED
            counted |= position == _COUNTED
            marks = [f"{found or 'FALSE'} AS `{n} `" for n, found in enumerate(judged)]
            every = ["*"] if whole else []
            frame = source.selectExpr(f"{version} AS v", "_metadata.file_path", position, *marks, *every)
            shape = source.schema.json()
            frames[shape] = frames[shape].union(frame) if shape in frames else frame
        with self._a_partition_a_file() if counted else nullcontext():
            found_rows = [tuple(row) for frame in frames.values() for row in frame.collect()]
        for version, file, position, *row in found_rows:
            if whole:
                rows[version].append(repr(canonical(row[len(predicates) :])))
            for predicate, true in zip(predicates, row, strict=False):
                at = answers[version, predicate]
                if true and isinstance(at, dict):
                    at.setdefault(unquote(urlparse(file).path), []).append(position)
        for at in answers.values():
            for positions in at.values() if isinstance(at, dict) else ():
                positions.sort()
        return answers, {version: sorted(found) for version, found in rows.items()}

    def _judged(self, source: Any, predicates: Sequence[str]) -> list[str | None]:
        """The predicates as Spark is to judge them; None for one that it cannot resolve."""
        wanted = [f"({predicate}) <=> TRUE" for predicate in predicates]
        if _resolved(source, *wanted) is not None:
            return list(wanted)
        return [_resolved(source, expression) for expression in wanted]

    @contextmanager
    def _a_partition_a_file(self) -> Iterator[None]:
        self.spark.conf.set("spark.sql.files.openCostInBytes", str(1 << 30))
        try:
            yield
        finally:
            self.spark.conf.unset("spark.sql.files.openCostInBytes")

    def _at_head(self, column: str) -> bool:
        return _resolved(self.spark.read.format("delta").load(self.path), column) is not None

    @contextmanager
    def _in_zone(self, zone: str) -> Iterator[None]:
        self.spark.conf.set("spark.sql.session.timeZone", zone)
        try:
            yield
        finally:
            self.spark.conf.set("spark.sql.session.timeZone", "UTC")

    def _at(self, version: int) -> Any:
        return self.spark.read.format("delta").option("versionAsOf", version).load(self.path)

    def _ask(self, opened: tailbit.IndexedTable, predicate: str, version: int, zone: str) -> Positions | str:
        try:
            answer = opened.where(predicate, version=version, zone=zone)
            positions = as_lists(answer.positions())
        except TailbitError as refused:
            if type(refused).__name__ in ("UnknownColumnError", "PredicateError"):
                return REFUSED
            raise
        assert answer.count() == sum(map(len, positions.values()))
        return {os.path.join(os.path.realpath(self.path), path): at for path, at in positions.items()}


def check_served() -> None:
    """Check, after many scans of plain SQL, that each mode has served some: else nothing is proven of it."""
    missing = {"files", "counts", "rows"} - SERVED.keys()
    assert not missing or sum(SERVED.values()) < ENOUGH, f"never served: {missing}"


def _number(found: Positions | str) -> int:
    return sum(map(len, found.values())) if isinstance(found, dict) else 0


def _resolved(source: Any, *expressions: str) -> str | None:
    """The (first) expression where Spark resolves all; None where one names what is not there."""
    from pyspark.errors import AnalysisException

    try:
        source.selectExpr(*expressions)
    except AnalysisException:
        return None
    return expressions[0]


def _files(table: Table, version: int) -> Iterator[str]:
    """The data files and deletion vector files of a version."""
    for slice_ in table.snapshot(version).files:
        yield table.storage.resolve(slice_.path)
        if isinstance(slice_.hidden, DeletionVector) and slice_.hidden.storage_type != "i":
            yield table.storage.resolve(vector_path(slice_.hidden))
