"""A random Delta table beside its judge, the values of its columns, and conditions on them."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError

import tailbit
from support.row_changes.copy import MOST, REFUSALS, told
from support.row_changes.judge import Judge, of_table

LONG = f"'{'x' * 300}'"
"""A text that is longer than the keys of an index."""

VALUES = {
    "SMALLINT": ("0S", "1S", "2S", "3S", "-7S", "32767S"),
    "INT": ("0", "1", "2", "3", "4", "5", "-7", "2147483647"),
    "BIGINT": ("0L", "1L", "2L", "3L", "4L", "1099511627776L", "-9223372036854775807L"),
    "STRING": ("''", "'a'", "'A'", "'a '", "'ä'", "'1'", "'01'", "'it''s'", LONG),
    "VARCHAR(4)": ("''", "'a'", "'A'", "'a '", "'ä'", "'1'", "'abcd'"),
    "DATE": ("date'2026-01-01'", "date'2026-01-02'", "date'1582-10-04'", "date'1970-01-01'"),
    "DECIMAL(9,2)": ("1.00BD", "1.50BD", "-0.01BD", "0.00BD", "1234567.89BD"),
    "TIMESTAMP": ("timestamp'2026-01-01 00:00:00'", "timestamp'2026-01-01 00:00:00.000001'"),
    "TIMESTAMP_NTZ": ("timestamp_ntz'2026-01-01 00:00:00'", "timestamp_ntz'1969-12-31 23:59:59.999999'"),
    "BINARY": ("X''", "X'00'", "X'00FF'", "X'61'"),
    "BOOLEAN": ("true", "false"),
    "DOUBLE": ("0.0D", "-0.0D", "1.5D", "double('NaN')", "double('Infinity')"),
}
"""Literals of each type of which columns are, all of them edges."""

ORDINARY = ("0", "1", "2", "3", "4", "5")
"""What column `n` has nearly always; of the others some break a constraint, some overflow."""

KEY_TYPES = ("INT", "INT", "BIGINT", "STRING", "STRING", *VALUES)

PROPERTIES: tuple[tuple[str, ...], ...] = (
    ("'delta.columnMapping.mode' = 'name'",),
    ("'delta.checkpointPolicy' = 'v2'", "'delta.checkpointInterval' = '2'"),
    ("'delta.enableInCommitTimestamps' = 'true'",),
    ("'delta.checkpointInterval' = '3'",),
    ("'delta.isolationLevel' = 'Serializable'",),
    ("'delta.enableTypeWidening' = 'true'",),
    ("'delta.dataSkippingNumIndexedCols' = '3'",),
)
LEFT_TO_DELTA: tuple[tuple[str, ...], ...] = (
    ("'delta.enableDeletionVectors' = 'false'",),
    ("'delta.enableChangeDataFeed' = 'true'",),
    ("'delta.enableRowTracking' = 'true'",),
)
"""What a table may have, and what leaves its changes to Delta's own statements."""


@dataclass(frozen=True)
class Made:
    """A table with which histories begin, each with a copy of its own; `told`: how it was made."""

    path: str
    told: str
    columns: Mapping[str, str]
    key: tuple[str, ...]
    is_mapped: bool
    constrained: bool
    partition: str | None


@dataclass
class Pair:
    """A table whose rows tailbit changes, and the judge of what it must be.

    `columns`: the types by name, generated ones not among them; `key`: the names of the key columns;
    `partition`: the name of the partition column.
    """

    spark: Any
    path: str
    rng: random.Random
    columns: dict[str, str] = field(default_factory=dict)
    key: tuple[str, ...] = ()
    is_mapped: bool = False
    partition: str | None = None
    deltalake_reads: bool = True
    judge: Judge = field(init=False)

    def begin(self, made: Made, by_delta: bool) -> None:
        """Begin with a copy of a table; `by_delta`: another one, which Delta changes, judges too."""
        twin = f"{self.path} twin" if by_delta else None
        for path in filter(None, (self.path, twin)):
            shutil.copytree(made.path, path)
        self.columns, self.key, self.is_mapped = {**made.columns}, made.key, made.is_mapped
        self.partition = made.partition
        self.judge = of_table(self.spark, self.path, made.constrained, made.partition, twin)

    def make(self) -> Made:
        """Make the table, with rows in some files."""
        rng = self.rng
        self.columns = {"k": rng.choice(KEY_TYPES), "j": rng.choice(KEY_TYPES), "n": "INT", "v": "STRING"}
        self.key = rng.choice((("k",), ("k",), ("k", "j"), ("j", "k")))
        told = self._statement()
        self.spark.sql(told)
        if constrained := rng.random() < 0.2:
            self.spark.sql(f"ALTER TABLE delta.`{self.path}` ADD CONSTRAINT small CHECK (n < {MOST})")
        if rng.random() < 0.2:
            for _ in range(rng.randrange(1, 4)):
                self.run(self.insertion(rng.randrange(1, 9)))
        else:
            files = f"SELECT /*+ REPARTITION({rng.randrange(1, 5)}) */"
            self.run(self.insertion(rng.randrange(1, 20)).replace("SELECT", files, 1))
        return Made(self.path, told, self.columns, self.key, self.is_mapped, constrained, self.partition)

    def _statement(self) -> str:
        rng = self.rng
        properties = ["'delta.enableDeletionVectors' = 'true'"]
        for group in PROPERTIES:
            if rng.random() < 0.15:
                properties += group
        if rng.random() < 0.1:
            properties += rng.choice(LEFT_TO_DELTA)
        properties = [*{one.split("=")[0]: one for one in properties}.values()]
        self.is_mapped = any("columnMapping" in one for one in properties)
        required = " NOT NULL" if rng.random() < 0.2 else ""
        defined = [f"{name} {type_}{required if name == 'n' else ''}" for name, type_ in self.columns.items()]
        if rng.random() < 0.2:
            defined.append("g INT GENERATED ALWAYS AS (CAST(n % 3 AS INT))")
        layout = self._layout()
        if rng.random() < 0.3:
            self.columns["s"] = "STRUCT<a: INT, b: STRING>"
            defined.insert(0, "s STRUCT<a: INT, b: STRING>")
        if "CLUSTER" in layout:
            # Delta refuses to cluster by a column without statistics.
            properties = [one for one in properties if "dataSkipping" not in one]
        told = f"TBLPROPERTIES ({', '.join(properties)})"
        return f"CREATE TABLE delta.`{self.path}` ({', '.join(defined)}) USING delta{layout} {told}"

    def _layout(self) -> str:
        draw = self.rng.random()
        if draw < 0.4:
            self.partition = "j" if draw < 0.3 and self.columns["j"] != "BINARY" else "n"
            return f" PARTITIONED BY ({self.partition})"
        return " CLUSTER BY (n)" if draw < 0.5 else ""

    def literal(self, name: str, null: float = 0.1) -> str:
        """Return a random value of a column as SQL."""
        type_, rng = self.columns[name], self.rng
        if type_.startswith("STRUCT"):
            a, b = rng.choice(("1", "2", "NULL")), rng.choice(("'x'", "'y'", "NULL"))
            some = f"named_struct('a', {a}, 'b', {b})"
            return f"CAST({'NULL' if rng.random() < null else some} AS {type_})"
        literals = ORDINARY if name == "n" and rng.random() < 0.97 else VALUES[type_]
        if name == self.partition:
            # The name of a folder is at most 255 bytes long.
            literals = tuple(text for text in literals if text != LONG)
        text = "NULL" if rng.random() < null else rng.choice(literals)
        return f"CAST({text} AS {'STRING' if type_.startswith('VARCHAR') else type_})"

    def rows(self, count: int, null: float = 0.1, keys_null: float = 0.0, *, distinct: bool = False) -> str:
        """Return random rows as a query with the names of the columns; a `n` is never NULL.

        `distinct`: a key stands in the first of its rows alone.
        """
        lines: dict[str, str] = {}
        for number in range(count):
            cells = {
                name: self.literal(name, 0.0 if name == "n" else keys_null if name in self.key else null)
                for name in self.columns
            }
            key = ", ".join(cells[name] for name in self.key) if distinct else str(number)
            lines.setdefault(key.replace("-0.0D", "0.0D"), f"({', '.join(cells.values())})")
        names = ", ".join(f"`{name}`" for name in self.columns)
        return f"SELECT * FROM VALUES {', '.join(lines.values())} AS given({names})"

    def insertion(self, count: int) -> str:
        """Return an INSERT of random rows, NULL keys and now and then keys that stand twice among them."""
        names, distinct = ", ".join(f"`{name}`" for name in self.columns), self.rng.random() < 0.7
        return f"INSERT INTO THIS_TABLE ({names}) {self.rows(count, 0.15, 0.1, distinct=distinct)}"

    def condition(self, depth: int = 2) -> str:
        """Return a random condition on some columns."""
        rng = self.rng
        if depth and rng.random() < 0.5:
            sides = self.condition(depth - 1), self.condition(depth - 1)
            form = rng.choice(("({} AND {})", "({} OR {})", "(NOT {} AND {})", "(({}) <=> ({}))"))
            return form.format(*sides)
        name = rng.choice([name for name, type_ in self.columns.items() if not type_.startswith("STRUCT")])
        if "s" in self.columns and rng.random() < 0.15:
            return rng.choice(("s.a = 1", "s.b IN ('x', 'z')", "s IS NULL", "s.a IS NOT NULL"))
        literals = [self.literal(name, 0.05) for _ in range(3)]
        forms: list[Callable[[], str]] = [
            lambda: f"`{name}` {rng.choice(('=', '<', '>=', '<=>', '<>'))} {literals[0]}",
            lambda: f"`{name}` IN ({', '.join(literals)})",
            lambda: f"`{name}` IS {rng.choice(('', 'NOT '))}NULL",
            lambda: f"`{name}` BETWEEN {literals[0]} AND {literals[1]}",
            lambda: rng.choice(("n % 3 = 1", "upper(v) LIKE 'A%'", "coalesce(n, 0) > 1", "v || 'x' = 'ax'")),
        ]
        return rng.choice(forms)()

    def both(self, statement: str) -> bool:
        """Run a statement on both; return whether it was carried out.

        Raises:
            AssertionError: one side refuses it alone.
        """
        done = self.run(statement), self.judge.run(statement)
        assert done[0] == done[1], f"{statement}: {done}"
        return done[0]

    def run(self, statement: str) -> bool:
        """Run a statement in which THIS_TABLE stands for the table; False if it is refused."""
        try:
            self.spark.sql(statement.replace("THIS_TABLE", f"delta.`{self.path}`"))
        except REFUSALS:
            return False
        return True

    def contents(self, path: str) -> list[str]:
        """Return every row as text, sorted, with the names of the columns."""
        return told(self.spark.read.format("delta").load(path).toArrow())

    def quick_contents(self, path: str) -> list[str]:
        """Return every row as `contents` does, read by deltalake; by tailbit, where deltalake cannot."""
        if self.deltalake_reads:
            try:
                query = QueryBuilder().register("t", DeltaTable(path))
                return told(pa.table(query.execute("SELECT * FROM t")))
            except DeltaError:
                # Only features that deltalake does not have end here.
                self.deltalake_reads = False
        return told(tailbit.open(path).where("TRUE").to_arrow())


def last_version(path: str) -> int:
    """Return the newest version of a table."""
    return max(int(file.stem) for file in Path(path, "_delta_log").glob("*.json") if file.stem.isdigit())
