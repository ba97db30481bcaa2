"""Keys located in a history, at any version and in any state of the index; DuckDB's join is the judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from support.fuzzer.asks import Version
from support.fuzzer.definitions import RandomDefinition
from support.fuzzer.follower import Follower
from support.fuzzer.judge import Verdict, by_duckdb
from support.fuzzer.run import CHECKS_A_HISTORY, Report, Run, reported
from support.predicates import Asked
from tailbit.api import IndexedTable

Places = list[tuple[int, str | None, int | None]]
"""Number of a key among those given, path, position: in the order in which keys are located."""


@dataclass(frozen=True)
class Located:
    """Keys that were located at a version, and where they are."""

    keys: pa.Table
    version: int
    moment: str
    found: object
    expected: Places

    def __str__(self) -> str:
        asked = f"{self.keys.to_pylist()}\n  at version {self.version}, index {self.moment}"
        return f"{asked}\n  found:    {self.found}\n  expected: {self.expected}"


class KeysFollower(Follower):
    """An index most of whose definitions are record keys."""

    def definition(self) -> RandomDefinition:
        """A record key of one to four columns, or any definition."""
        if self.rng.random() < 0.2:
            return super().definition()
        columns = self.columns()
        chosen = self.rng.sample(columns, min(len(columns), self.rng.choice((1, 1, 2, 3, 4))))
        return RandomDefinition(tuple(chosen), "record_key")


class KeysRun(Run):
    """A history while it is made, and asked for keys of one to three columns."""

    def __init__(self, seed: int, checks: int, folder: str, writer: str = "built") -> None:
        super().__init__(seed, checks, folder, writer)
        self.follower = KeysFollower(self.history.path, self.rng, self.indexable, self.partitions)
        self.answers: list[Located] = []

    @property
    def count(self) -> int:
        """Questions asked so far."""
        return len(self.answers)

    def _complete(self) -> None:
        self.follower.define()
        super()._complete()

    def ask(self, moment: str, versions: Sequence[Version], until: int) -> None:
        """Ask about one version after the other until `until` questions have been asked."""
        opened, count = self.follower.opened(), until - self.count
        for number in range(count):
            self._ask(opened, moment, versions[-1 - number * len(versions) // count])

    def _ask(self, opened: IndexedTable, moment: str, version: Version) -> None:
        chosen = self._chosen(opened, version)
        rows = version.rows()
        keys = self._keys(rows, chosen)
        expected = _joined(rows, keys, chosen)
        try:
            located = opened.locate(keys, on=[column.spark for column in chosen], version=version.version)
            found: object = _places(keys, located)
        except Exception as error:  # Whatever is raised for a version that can be read is a finding.
            found = f"{type(error).__name__}: {error}"
        self.answers.append(Located(keys, version.version, moment, found, expected))

    def _chosen(self, opened: IndexedTable, version: Version) -> list[Asked]:
        """The columns of a record key, every other time, or any columns."""
        columns = {column.spark: column for column in version.asked if column.make is None}
        kept = [index.terms for index in opened.indexes() if index.kind == "record_key"]
        kept = [terms for terms in kept if all(term in columns for term in terms)]
        if kept and self.rng.random() < 0.5:
            return [columns[term] for term in self.rng.choice(kept)]
        return self.rng.sample(list(columns.values()), min(len(columns), self.rng.choice((1, 1, 2, 3))))

    def _keys(self, rows: pa.Table, columns: Sequence[Asked]) -> pa.Table:
        """Keys of some rows and keys of any values, some of them twice, none with NULL."""
        types = [_type_of(rows.schema, column.parts) for column in columns]
        listed = [[_value(row, column.parts) for column in columns] for row in self._some(rows)]
        listed += [
            [self.rng.choice(column.pool) for column in columns] for _ in range(self.rng.randint(0, 20))
        ]
        listed = [key for key in listed if None not in key]
        listed += self.rng.sample(listed, len(listed) // 5)
        self.rng.shuffle(listed)
        values = [pa.array([key[place] for key in listed], type_) for place, type_ in enumerate(types)]
        return pa.table(values, names=[column.spark for column in columns])

    def _some(self, rows: pa.Table) -> list[dict[str, object]]:
        wanted = min(len(rows), self.rng.randint(0, 20))
        return list(rows.take(pa.array(self.rng.sample(range(len(rows)), wanted), pa.int64())).to_pylist())

    def judged(self, verdict: Verdict = by_duckdb) -> Sequence[object]:
        """What was located otherwise than by a join."""
        return [answer for answer in self.answers if answer.found != answer.expected]


def _type_of(schema: pa.Schema, parts: Sequence[str]) -> pa.DataType:
    type_ = schema.field(parts[0]).type
    for part in parts[1:]:
        type_ = type_.field(part).type
    return type_


def _value(row: object, parts: Sequence[str]) -> object:
    for part in parts:
        row = row[part] if isinstance(row, dict) else None
    return row


def _joined(rows: pa.Table, keys: pa.Table, columns: Sequence[Asked]) -> Places:
    """Where DuckDB's join finds each distinct key, by the number of the key where it first stood."""
    names = [f"k{place}" for place in range(len(columns))]
    given = keys.rename_columns(names).append_column("n", pa.array(range(len(keys)), pa.int64()))
    equal = " AND ".join(f"{column.duckdb} = {name}" for column, name in zip(columns, names, strict=True))
    with duckdb.connect(config={"threads": 1}) as engine:
        engine.execute("SET TimeZone = 'UTC'")
        engine.register("live", rows)
        engine.register("given", given)
        keyed = f"(SELECT {', '.join(names)}, min(n) AS n FROM given GROUP BY ALL)"
        found = engine.sql(
            f"SELECT n, file, position FROM {keyed} LEFT JOIN live ON {equal} ORDER BY n, file, position"
        )
        return list(found.fetchall())


def _places(keys: pa.Table, located: pa.Table) -> Places:
    """What was located, with the number of each key where it first stood."""
    listed = [repr(row) for row in keys.to_pylist()]
    names = [located.column_names[-2], located.column_names[-1]]
    numbers = [listed.index(repr(row)) for row in located.select(keys.column_names).to_pylist()]
    return list(zip(numbers, *(located[name].to_pylist() for name in names), strict=True))


def run_keys(seed: int, checks: int = CHECKS_A_HISTORY, writer: str = "built") -> Report:
    """Make one history, locate keys `checks` times, and judge what was found; nothing raised is lost."""
    return reported(seed, lambda folder: KeysRun(seed, checks, folder, writer))
