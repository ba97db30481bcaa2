"""Random histories of one Delta table, written by deltalake or by real delta-spark.

Both writers know the same operations; only Spark writes deletion vectors. A seed fixes the history.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from support.predicates import POOLS, literal
from support.replay import run, write
from support.spark_session import session_settings
from support.verdicts import digest_of
from tailbit.tables import open_table

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("category", pa.string()),
        ("amount", pa.float64()),
        ("score", pa.float32()),
        ("small", pa.int8()),
        ("price", pa.decimal128(10, 2)),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("moment", pa.timestamp("us", tz="UTC")),
        ("note", pa.string()),
        ("region", pa.string()),
    ]
)


def random_rows(rng: random.Random, count: int) -> pa.Table:
    """Rows with values from the pools; one value in eight is NULL."""
    columns = {
        name: [None if rng.random() < 0.125 else rng.choice(POOLS[name]) for _ in range(count)]
        for name in SCHEMA.names
    }
    return pa.table(columns, schema=SCHEMA)


class History(ABC):
    """A table that random operations change, one or more commits each."""

    def __init__(self, path: str, rng: random.Random) -> None:
        self.path = path
        self.rng = rng
        self.done: list[str] = []
        self.create(self.rows(rng.randint(20, 60)))

    def step(self) -> str:
        """Apply one random operation; its name."""
        name = self.rng.choice(tuple(self.operations()))
        self.operations()[name]()
        self.done.append(name)
        return name

    def rows(self, count: int) -> pa.Table:
        return random_rows(self.rng, count)

    def operations(self) -> dict[str, Callable[[], None]]:
        """The operations by name; a name may stand twice to be drawn more often."""
        return {
            "append": lambda: self.append(self.rows(self.rng.randint(1, 40))),
            "delete": lambda: self.delete(self._some_rows()),
            "update": lambda: self.update(self._some_rows(), *self._new_value()),
            "merge": lambda: self.merge(self.rows(self.rng.randint(1, 10))),
            "optimize": self.optimize,
            "restore": self._restore_some,
            "overwrite": lambda: self.overwrite(self.rows(self.rng.randint(5, 30))),
        }

    def _restore_some(self) -> None:
        head = self.head()
        if head:
            self.restore(self.rng.randrange(head))

    def _some_rows(self) -> str:
        column = self.rng.choice(("id", "category", "price", "day", "note", "region"))
        values = ", ".join(literal(v) for v in self.rng.sample(POOLS[column], 2))
        return f"{column} IN ({values})"

    def _new_value(self) -> tuple[str, str]:
        column = self.rng.choice(("category", "price", "note", "day"))
        return column, literal(self.rng.choice(POOLS[column]))

    @abstractmethod
    def head(self) -> int: ...
    @abstractmethod
    def create(self, rows: pa.Table) -> None: ...
    @abstractmethod
    def append(self, rows: pa.Table) -> None: ...
    @abstractmethod
    def overwrite(self, rows: pa.Table) -> None: ...
    @abstractmethod
    def delete(self, condition: str) -> None: ...
    @abstractmethod
    def update(self, condition: str, column: str, value: str) -> None: ...
    @abstractmethod
    def merge(self, rows: pa.Table) -> None: ...
    @abstractmethod
    def optimize(self) -> None: ...
    @abstractmethod
    def restore(self, version: int) -> None: ...


class DeltalakeHistory(History):
    """A history written by deltalake: no JVM, a few milliseconds a commit, copy-on-write."""

    @property
    def table(self) -> Any:
        import deltalake

        return deltalake.DeltaTable(self.path)

    def head(self) -> int:
        return int(self.table.version())

    def create(self, rows: pa.Table) -> None:
        import deltalake

        deltalake.write_deltalake(self.path, rows, partition_by=["region"])

    def append(self, rows: pa.Table) -> None:
        import deltalake

        deltalake.write_deltalake(self.path, rows, mode="append")

    def overwrite(self, rows: pa.Table) -> None:
        import deltalake

        deltalake.write_deltalake(self.path, rows, mode="overwrite")

    def delete(self, condition: str) -> None:
        self.table.delete(condition)

    def update(self, condition: str, column: str, value: str) -> None:
        self.table.update(updates={column: value}, predicate=condition)

    def merge(self, rows: pa.Table) -> None:
        merger = self.table.merge(unique(rows), "t.id = s.id", source_alias="s", target_alias="t")
        merger.when_matched_update_all().when_not_matched_insert_all().execute()

    def optimize(self) -> None:
        self.table.optimize.compact()

    def restore(self, version: int) -> None:
        self.table.restore(version)

    def operations(self) -> dict[str, Callable[[], None]]:
        return {**super().operations(), "log checkpoint": lambda: self.table.create_checkpoint()}


class SparkHistory(History):
    """A history written by real delta-spark; each change hides rows by deletion vector or rewrites files."""

    def __init__(self, spark: Any, path: str, rng: random.Random) -> None:
        self.spark = spark
        super().__init__(path, rng)

    @property
    def name(self) -> str:
        """The table in SQL."""
        return f"delta.`{self.path}`"

    def head(self) -> int:
        return open_table(self.path).head()

    def create(self, rows: pa.Table) -> None:
        self._save("create", rows, partitionBy="region", **{"delta.enableDeletionVectors": "true"})

    def append(self, rows: pa.Table) -> None:
        self._save("append", rows)

    def overwrite(self, rows: pa.Table) -> None:
        self._save("overwrite", rows)

    def delete(self, condition: str) -> None:
        self.dml(f"DELETE FROM {self.name} WHERE {condition}")

    def update(self, condition: str, column: str, value: str) -> None:
        self.dml(f"UPDATE {self.name} SET {column} = {value} WHERE {condition}")

    def merge(self, rows: pa.Table) -> None:
        statement = (
            f"MERGE INTO {self.name} t USING incoming s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        settings, distinct = self._vectors(), unique(rows)

        def act() -> None:
            self.frame(distinct).createOrReplaceTempView("incoming")
            with session_settings(self.spark, settings):
                self.spark.sql(statement)

        write(self.spark, [statement, settings, digest_of(distinct)], act)

    def optimize(self) -> None:
        run(self.spark, f"OPTIMIZE {self.name}")

    def restore(self, version: int) -> None:
        run(self.spark, f"RESTORE TABLE {self.name} TO VERSION AS OF {version}")

    def frame(self, rows: pa.Table) -> Any:
        """Rows as one Spark partition, so that a small append is a small number of files."""
        return self.spark.createDataFrame(rows).coalesce(1)

    def _save(self, mode: str, rows: pa.Table, **options: str) -> None:
        def act() -> None:
            writer = self.frame(rows).write.format("delta").mode(mode.replace("create", "errorifexists"))
            named = {name: value for name, value in options.items() if name != "partitionBy"}
            if "partitionBy" in options:
                writer = writer.partitionBy(options["partitionBy"])
            writer.options(**named).save(self.path)

        write(self.spark, [mode, options, self.path, digest_of(rows)], act)

    def dml(self, statement: str) -> None:
        """Run a statement; two times in three it hides rows by deletion vectors, else it rewrites files."""
        run(self.spark, statement, settings=self._vectors())

    def _vectors(self) -> dict[str, str]:
        vectors = str(self.rng.random() < 0.67).lower()
        kinds = ("delete", "update", "merge")
        return dict.fromkeys(
            (f"spark.databricks.delta.{kind}.deletionVectors.persistent" for kind in kinds), vectors
        )


def unique(rows: pa.Table) -> pa.Table:
    """Rows with distinct, known ids: a MERGE refuses two source rows for one target row."""
    first: dict[int, int] = {}
    for row, number in enumerate(rows["id"].to_pylist()):
        if number is not None:
            first.setdefault(number, row)
    return rows.take(pa.array(first.values(), pa.int64()))
