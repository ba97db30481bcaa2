"""A random Delta table of every type through some commits, and an index of it that may lag."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

import tailbit
from support.fuzzer.definitions import REFUSALS
from support.plain_sql.conditions import Column, Conditions
from support.plain_sql.kinds import KINDS, ColumnKind
from support.tables import index_of

PROPERTIES = (
    "'delta.checkpointPolicy' = 'v2'",
    "'delta.checkpointInterval' = '2'",
    "'delta.enableInCommitTimestamps' = 'true'",
    "'delta.enableRowTracking' = 'true'",
    "'delta.enableChangeDataFeed' = 'true'",
    "'delta.dataSkippingNumIndexedCols' = '0'",
    "'delta.dataSkippingNumIndexedCols' = '3'",
)
PARTITIONS = ("BOOLEAN", "INT", "STRING", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "DECIMAL(9,2)", "TINYINT")
NAMES = ("k", "K2", "x.y", "ä", "c`d", "sum", "i", "id2", "a b")
"""Names of columns, some of which must be quoted; the last one is allowed where columns are mapped."""

DOUBTFUL = ("FLOAT", "DOUBLE", "CHAR(6)", "VARCHAR(8)", "BINARY")
"""Types of which conditions are left to Spark, or counts."""

ROWS = 900

PIECES: dict[str, tuple[str, ...]] = {
    "parquet.block.size": ("1024", "1024", "20000", "134217728"),
    "parquet.block.size.row.check.min": ("10", "100"),
    "parquet.page.row.count.limit": ("25", "7", "20000"),
    "parquet.page.size": ("1048576", "60", "300"),
    "parquet.page.size.row.check.min": ("100", "5"),
    "parquet.enable.dictionary": ("true", "true", "false"),
}
"""Sizes of row groups and pages, drawn for each table: by rows, and by bytes, where pages of columns end at
other rows."""


@dataclass
class Version:
    """A version that is asked: the view of it, its columns, and whether the index covers all of it."""

    number: int
    view: str
    columns: dict[str, Column]
    covered: bool = False


@dataclass
class RandomTable:
    """A table, the versions that are asked, and how it came about; the index of one that lags is behind."""

    spark: Any
    path: str
    rng: random.Random
    name: str
    lags: bool
    columns: dict[str, Column] = field(default_factory=dict)
    partitions: tuple[str, ...] = ()
    indexed: frozenset[str] = frozenset()
    story: list[str] = field(default_factory=list)
    versions: list[Version] = field(default_factory=list)
    is_mapped: bool = False
    rows: int = 0

    @property
    def sql(self) -> str:
        """The table as SQL names it."""
        return f"delta.`{self.path}`"

    def told(self, version: Version) -> dict[str, Column]:
        """Return the columns of a version of which bitmaps may tell every row."""
        return {
            name: column
            for name, column in version.columns.items()
            if (name in self.indexed or name in self.partitions) and column.kind.type not in DOUBTFUL
        }

    def make(self) -> None:
        """Write the table in some commits, and build an index of all of them or of the first."""
        rng = self.rng
        for name, values in PIECES.items():
            self.spark.conf.set(name, rng.choice(values))
            self.story.append(f"SET {name}={self.spark.conf.get(name)}")
        self._create()
        self._insert(ROWS)
        number = rng.randint(2, 5)
        upto = rng.randint(0, number - 1) if self.lags else number
        self._remember()
        for step in range(number + 1):
            if step == upto or (step < upto and rng.random() < 0.3):
                self._index()
            if step < number:
                self._change()
                self._remember()
        self._view()

    def _create(self) -> None:
        rng = self.rng
        self.is_mapped = rng.random() < 0.4
        self._draw_columns()
        properties = [f"'delta.enableDeletionVectors' = '{str(rng.random() < 0.7).lower()}'"]
        properties += rng.sample(PROPERTIES, rng.choice((0, 0, 1, 2)))
        if self.is_mapped:
            mode = rng.choice(("name", "name", "id"))
            properties += [f"'delta.columnMapping.mode' = '{mode}'", "'delta.enableTypeWidening' = 'true'"]
        told = ", ".join({one.split("=")[0]: one for one in properties}.values())
        defined = ", ".join(f"{column.sql} {column.kind.type}" for column in self.columns.values())
        by = ", ".join(self.columns[name].sql for name in self.partitions)
        layout = f" PARTITIONED BY ({by})" if by else ""
        self._run(f"CREATE TABLE {self.sql} ({defined}) USING delta{layout} TBLPROPERTIES ({told})")

    def _draw_columns(self) -> None:
        rng = self.rng
        names = rng.sample(NAMES[: None if self.is_mapped else -1], 4)
        kinds = rng.sample([*KINDS.values()], 9)
        kinds += rng.choices([kind for kind in kinds if not kind.is_nested], k=2)
        columns = [Column("id", ColumnKind("BIGINT", "{v}"), ROWS, rng.random() < 0.5)]
        for number, kind in enumerate(kinds):
            name = names[number] if number < len(names) else f"c{number}"
            columns.append(Column(name, kind, rng.choice((3, 20, 90, 300, 300)), rng.random() < 0.6))
        fit = [column for column in columns[1:] if column.kind.type in PARTITIONS]
        chosen = rng.sample(fit, min(len(fit), rng.choice((0, 0, 1, 1, 2))))
        self.partitions = tuple(column.name for column in chosen)
        for column in columns:
            if column in chosen:
                column = Column(column.name, column.kind, 3 // len(chosen) + 1, column.scattered)
            self.columns[column.name] = column

    def _insert(self, count: int) -> None:
        """Append rows with new ids."""
        hint = self.rng.choice(("REPARTITION(4)", "REPARTITION_BY_RANGE(4, id)"))
        hint = f"/*+ {hint} */" if count > 100 and not self.partitions else ""
        self._run(f"INSERT INTO {self.sql} SELECT {hint} {self._cells()} FROM {self._ids(count)}")

    def _ids(self, count: int) -> str:
        """Return new ids as a table."""
        first, self.rows = self.rows, self.rows + count
        return f"range({first}, {self.rows}, 1, 2)"

    def _cells(self) -> str:
        """Return the values of a row with an id as SQL."""
        return ", ".join(f"{self._cell(column)} AS {column.sql}" for column in self.columns.values())

    def _cell(self, column: Column) -> str:
        if column.name == "id":
            return "id"
        salt = self.rng.randrange(10_000)
        spread = f"pmod(xxhash64(id, {salt}), {column.most}L)"
        value = column.kind.of.format(v=spread if column.scattered else f"(id * {column.most}L DIV {ROWS})")
        draw = f"pmod(xxhash64(id, {salt + 1}), 100)"
        edges = f"WHEN {draw} < 6 THEN NULL"
        if column.kind.edges and column.name not in self.partitions:
            place = f"CAST({draw} % {len(column.kind.edges)} AS INT) + 1"
            edges += f" WHEN {draw} < 12 THEN element_at(array({', '.join(column.kind.edges)}), {place})"
        return f"CAST(CASE {edges} ELSE {value} END AS {column.kind.type.replace('CHAR(6)', 'STRING')})"

    def _index(self) -> None:
        """Build the index of some columns, or bring it up to date; an expression is indexed now and then."""
        if (Path(self.path) / "_tailbit").exists():
            index_of(self.path)
            self.story.append("index")
            return
        rng, indexed = self.rng, list[str]()
        for column in self.columns.values():
            if column.kind.type.startswith("STRUCT"):
                indexed += [f"{column.sql}.{name}" for name in ("a", "b", "c.d")]
            elif not column.kind.is_nested and column.name not in self.partitions:
                indexed.append(column.sql)
        chosen = [name for name in indexed if rng.random() < 0.75] or indexed
        index_of(self.path, chosen)
        self.indexed = frozenset(c.name for c in self.columns.values() if c.sql in chosen)
        self.story.append(f"index of {chosen}")
        for number in range(rng.choice((0, 0, 1, 2))):
            on, kind = self._definition(indexed)
            try:
                tailbit.open(self.path).create_index(f"index {number}", on, kind)
                self.story.append(f"{kind} of {on}")
            except REFUSALS:
                continue

    def _definition(self, indexed: list[str]) -> tuple[list[str], str]:
        rng = self.rng
        texts = [
            column.sql for column in self.columns.values() if column.kind.type in ("STRING", "VARCHAR(8)")
        ]
        if texts and rng.random() < 0.5:
            return [f"{rng.choice(('lower', 'upper', 'length'))}({rng.choice(texts)})"], "bitmap"
        if rng.random() < 0.5:
            return ["*"], "column_stats"
        return rng.sample(indexed, 2), "bitmap"

    def _change(self) -> None:
        """Make a commit; what Delta refuses is left out."""
        rng, conditions = self.rng, Conditions(self.rng, self.columns)
        changes: list[Callable[[], object]] = [
            lambda: self._insert(rng.choice((3, 40, 150))),
            lambda: self._run(f"DELETE FROM {self.sql} WHERE {conditions.selective()}"),
            lambda: self._run(f"DELETE FROM {self.sql} WHERE id % 11 = 3 AND {conditions.atom()}"),
            lambda: self._run(f"UPDATE {self.sql} SET {self._assignment()} WHERE id % 13 = 5"),
            lambda: self._run(f"UPDATE {self.sql} SET {self._assignment()} WHERE {conditions.selective()}"),
            self._merge,
            lambda: self._run(f"OPTIMIZE {self.sql}"),
            self._alter,
            self._alter,
        ]
        rng.choice(changes)()

    def _assignment(self) -> str:
        plain = [c for c in self.columns.values() if c.name != "id" and not c.kind.is_nested]
        column = self.rng.choice(plain)
        return f"{column.sql} = {column.kind.literal(self.rng, column.most)}"

    def _merge(self) -> None:
        """Update rows, and insert some with new ids."""
        first, cells = max(0, self.rows - 30), self._cells()
        self.rows += 15
        source = f"SELECT {cells} FROM range({first}, {self.rows}, 1, 1)"
        on = "x.id = y.id AND x.id % 4 = 1" if self.rng.random() < 0.5 else "x.id = y.id"
        new = "" if "%" in on else " WHEN NOT MATCHED THEN INSERT *"
        self._run(f"MERGE INTO {self.sql} x USING ({source}) y ON {on} WHEN MATCHED THEN UPDATE SET *{new}")

    def _alter(self) -> None:
        """Let a column come, go, have another name or a wider type."""
        rng, free = self.rng, [name for name in self.columns if name not in ("id", *self.partitions)]
        old, new = rng.choice(free), f"new{len(self.story)}"
        narrow = {"TINYINT": "SMALLINT", "SMALLINT": "INT", "INT": "BIGINT"}
        column = self.columns[old]
        draw = rng.random() if self.is_mapped else 1.0
        if draw < 0.3 and self._run(f"ALTER TABLE {self.sql} RENAME COLUMN {column.sql} TO {new}"):
            moved = Column(new, column.kind, column.most, column.scattered)
            self.columns = {c.name: c for c in (moved if c is column else c for c in self.columns.values())}
        elif 0.3 <= draw < 0.5 and self._run(f"ALTER TABLE {self.sql} DROP COLUMN {column.sql}"):
            self.columns = {name: c for name, c in self.columns.items() if name != old}
        elif 0.5 <= draw < 0.8 and column.kind.type in narrow:
            kind = KINDS[narrow[column.kind.type]]
            if self._run(f"ALTER TABLE {self.sql} ALTER COLUMN {column.sql} TYPE {kind.type}"):
                self.columns = {**self.columns, old: Column(old, kind, column.most, column.scattered)}
        elif draw >= 0.8:
            kind = rng.choice([*KINDS.values()])
            if self._run(f"ALTER TABLE {self.sql} ADD COLUMN {new} {kind.type}"):
                self.columns = {**self.columns, new: Column(new, kind, 90, True)}
                self._insert(30)

    def _run(self, statement: str) -> bool:
        """Run a statement; return whether it was carried out."""
        self.story.append(statement)
        try:
            self.spark.sql(statement)
        except (PySparkException, Py4JError) as refused:
            # What Delta refuses of a schema comes as an error of Java.
            self.story[-1] += f" -- refused: {str(refused).splitlines()[0][:150]}"
            return False
        return True

    def _remember(self) -> None:
        number = max(
            int(log.stem) for log in Path(self.path, "_delta_log").glob("*.json") if log.stem.isdigit()
        )
        if not self.versions or self.versions[-1].number < number:
            self.versions.append(Version(number, f"{self.name}_{number}", self.columns))

    def _view(self) -> None:
        """Choose the versions that are asked, the newest and some before, and make a view of each."""
        covered = tailbit.open(self.path).where(None).covered_version or 0
        *before, newest = self.versions
        self.versions = [newest, *self.rng.sample(before, min(2, len(before)))]
        for version in self.versions:
            version.covered = version.number <= covered
            reader = self.spark.read.format("delta")
            if version is not newest:
                reader = reader.option("versionAsOf", version.number)
            reader.load(self.path).createOrReplaceTempView(version.view)
        asked = ", ".join(str(version.number) for version in self.versions)
        self.story.append(f"versions {asked} are asked; the index covers {covered}")
