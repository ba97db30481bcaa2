"""A Hudi table that is being made, and Spark's rows right after each of its instants."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pyspark.sql import DataFrame, SparkSession
from rows import SCHEMA, orders
from timeline import Completed, completed_instants

NOT_VERSIONS = ("clean", "savepoint", "indexing")
"""Actions after which a reader sees the same rows as before."""

OLD_LISTS = "parquet.avro.write-old-list-structure"
UNDOING = ("rollback", "restore")

DEFAULTS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.metadata.enable": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.insert.shuffle.parallelism": "1",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.delete.shuffle.parallelism": "1",
    "hoodie.bulkinsert.shuffle.parallelism": "1",
    "hoodie.index.bloom.num_entries": "100",
    "hoodie.bloom.index.filter.dynamic.max.entries": "100",
    "hoodie.write.auto.upgrade": "false",
    "hoodie.compact.inline.max.delta.commits": "100",
}

VERSION_WORDS = {6: "SIX", 8: "EIGHT", 9: "NINE"}
WRITING = {"hoodie.table.services.enabled": "false"}
"""A write does what it is for: it runs no compaction that is pending."""


class MadeTable:
    """A table of one kind below a folder that holds `table/` and `truth/`."""

    def __init__(
        self, spark: SparkSession, folder: Path, name: str, kind: str, version: int, notes: str
    ) -> None:
        self.spark, self.name, self.kind, self.version, self.notes = spark, name, kind, version, notes
        self.table, self.truth = folder / "table", folder / "truth"
        self.options = {
            **DEFAULTS,
            "hoodie.table.name": name,
            "hoodie.write.table.version": str(version),
            "hoodie.datasource.write.table.type": "MERGE_ON_READ" if kind == "mor" else "COPY_ON_WRITE",
        }
        self.instants: list[Completed] = []
        self.states: list[tuple[str, frozenset[str]]] = []
        """Of each instant: the file that holds Spark's rows, and the data files that Spark read them from."""
        self.undone: set[str] = set()
        """Requested times of completed instants that were taken back, or after which nobody read the rows."""
        self.truth.mkdir(parents=True)

    def set(self, **options: object) -> None:
        """Set options of all later writes, without `hoodie.` and with two underscores for a dot."""
        self.options.update(spelled(options))

    def frame(self, rows: list[tuple[Any, ...]], schema: str) -> DataFrame:
        """Make a frame of one partition of rows."""
        return self.spark.createDataFrame(rows, schema).coalesce(1)

    def orders(self, keys: Iterable[int], ts: int) -> DataFrame:
        """Make a frame of the rows of keys as of one ordering value."""
        return self.frame(orders(keys, ts), SCHEMA)

    def write(self, frame: DataFrame, operation: str = "upsert", most: int = 1, **options: object) -> None:
        """Write a frame by an operation of Hudi and record the instant that follows, or up to `most`."""
        with self.recorded(most):
            self.write_silently(frame, operation, **options)

    def write_silently(self, frame: DataFrame, operation: str, **options: object) -> None:
        """Write a frame and record nothing: for writers that run at the same time."""
        chosen = {
            **self.options,
            **WRITING,
            "hoodie.datasource.write.operation": operation,
            **spelled(options),
        }
        frame.write.format("hudi").options(**chosen).mode("append").save(str(self.table))

    @contextmanager
    def lists_with_nulls(self) -> Iterator[None]:
        """Write lists in three levels within the block: Hudi's default of two levels can hold no NULL."""
        hadoop = self.spark.sparkContext._jsc.hadoopConfiguration()
        hadoop.set(OLD_LISTS, "false")
        try:
            yield
        finally:
            hadoop.unset(OLD_LISTS)

    def sql(self, statement: str) -> None:
        """Run a statement over the table, which it calls {t}, and record the instant that follows."""
        with self.recorded():
            self.ask(statement)

    def ask(self, statement: str) -> list[Any]:
        """Run a statement over the table, which it calls {t}, and return its rows."""
        self.spark.sql(f"CREATE TABLE IF NOT EXISTS {self.name} USING hudi LOCATION '{self.table}'")
        for key, value in self.options.items():
            if not key.startswith("hoodie.table.name"):
                self.spark.conf.set(key, value)
        try:
            return self.spark.sql(statement.format(t=self.name)).collect()
        finally:
            for key in self.options:
                self.spark.conf.unset(key)

    @contextmanager
    def recorded(self, most: int = 1) -> Iterator[None]:
        """Record what a block adds to the timeline: an instant that changes rows, and others.

        Of several that change rows, up to `most`, nobody saw the state after any but the last.
        """
        before = set(self.completed()) if self.instants else set()
        yield
        after = self.completed()
        new = [instant for instant in after if instant not in before]
        changing = [instant for instant in new if instant.action not in NOT_VERSIONS]
        assert new, f"{self.name}: no instant was added"
        assert len(changing) <= most, f"{self.name}: states between {changing} were not seen"
        self.undone |= {instant.requested for instant in changing[:-1]}
        if any(instant.action in UNDOING for instant in new):
            self.undone |= {instant.requested for instant in before.difference(after)}
        state = self.state() if changing or not self.states else self.states[-1]
        self.instants += new
        self.states += [state] * len(new)

    def upgrade(self, version: int) -> None:
        """Let Hudi bring the table to a newer version: instants get other names, rows stay."""
        self.ask(f"CALL upgrade_table(table => '{{t}}', to_version => '{VERSION_WORDS[version]}')")
        self.version = version
        self.set(write__table__version=version)
        renamed = {(instant.requested, instant.action): instant for instant in self.completed()}
        self.instants = [renamed[instant.requested, instant.action] for instant in self.instants]

    def completed(self) -> list[Completed]:
        """List the completed instants of the active timeline."""
        return completed_instants(self.table, self.version)

    def read(self, **options: str) -> DataFrame:
        """Read the table as Spark does."""
        return self.spark.read.format("hudi").options(**options).load(str(self.table))

    def state(self) -> tuple[str, frozenset[str]]:
        """Write Spark's rows beside the table; return the file's name and the data files behind the rows."""
        name = f"{len(self.instants):03d}.parquet"
        frame, scratch = self.read(), self.truth / "scratch"
        frame.coalesce(1).write.option("compression", "zstd").parquet(str(scratch))
        [part] = scratch.glob("part-*.parquet")
        part.rename(self.truth / name)
        shutil.rmtree(scratch)
        files = [row[0] for row in frame.selectExpr("input_file_name()").distinct().collect()]
        return name, frozenset(unquote(urlsplit(file).path) for file in files)

    def finish(self) -> None:
        """Write the manifest."""
        described = []
        for instant, (rows, files) in zip(self.instants, self.states, strict=True):
            there = instant.requested not in self.undone and all(Path(file).exists() for file in files)
            described.append(
                {
                    "requested": instant.requested,
                    "completed": instant.completed,
                    "action": instant.action,
                    "rows": rows,
                    "readable_at_end": there,
                }
            )
        manifest = {
            "name": self.name,
            "kind": self.kind,
            "table_version": self.version,
            "instants": described,
            "notes": self.notes,
        }
        (self.truth / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


def spelled(options: dict[str, object]) -> dict[str, str]:
    """Spell options as Hudi does: `clean__automatic` is `hoodie.clean.automatic`."""
    return {f"hoodie.{key.replace('__', '.')}": str(value) for key, value in options.items()}


Kind = Callable[[MadeTable], None]
