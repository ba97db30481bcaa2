"""Random changes of rows: as tailbit makes them, and as the judge does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import tailbit.spark
from support.row_changes.table import Pair


@dataclass(frozen=True)
class Change:
    """A change as tailbit makes it and as the judge does; `ours` takes more arguments by name."""

    told: str
    ours: Callable[..., Any]
    theirs: Callable[[], tuple[int, ...]]
    refusal: str | None = None
    reads_itself: bool = False


class Changes:
    """Random changes of a table; `stage`: where rows lie that a kept DataFrame reads."""

    def __init__(self, spark: Any, pair: Pair, stage: str) -> None:
        self._spark, self._pair, self._stage = spark, pair, stage
        self._kept: Any = None

    def delete(self) -> Change:
        """Return a deletion by a condition."""
        condition, pair = self._pair.condition(), self._pair
        return Change(
            f"delete {condition}",
            lambda **more: tailbit.spark.delete(pair.path, condition, spark=self._spark, **more),
            lambda: pair.judge.delete(condition),
        )

    def delete_keys(self) -> Change:
        """Return a deletion by keys of any form; now and then one is NULL."""
        pair, rng = self._pair, self._pair.rng
        has_null = rng.random() < 0.05
        query = pair.rows(rng.randrange(1, 7), keys_null=0.6 if has_null else 0.0)
        names = ", ".join(f"`{name}`" for name in pair.key)
        frame = self._spark.sql(f"SELECT {names} FROM ({query})")
        rows = [tuple(row.values()) for row in frame.toArrow().to_pylist()]
        bad = any(value is None for row in rows for value in row)
        form: Any = rng.choice((frame, frame.toArrow(), rows))
        on = None if hasattr(form, "select") else list(pair.key)
        return Change(
            f"delete keys of {type(form).__name__} {rows}",
            lambda **more: tailbit.spark.delete(pair.path, form, on, spark=self._spark, **more),
            lambda: pair.judge.delete_keys(pair.key, frame),
            "NULL" if bad else None,
        )

    def _source(self) -> tuple[str, tuple[Any, Any], list[tuple[Any, ...]]]:
        """Return how a source is made, the source for each side, and its keys."""
        pair, rng = self._pair, self._pair.rng
        kind = rng.choice(("frame", "frame", "kept", "arrow", "dicts", "target"))
        null = 0.6 if rng.random() < 0.05 else 0.0
        query = pair.rows(rng.randrange(1, 8), keys_null=null, distinct=rng.random() < 0.9)
        frame = self._spark.sql(query)
        if kind == "target":
            chosen = pair.condition(1)
            # What Spark reads where a condition is pushed down to Parquet may lack NaN and -0.0.
            ours = self._spark.sql(f"SELECT * FROM delta.`{pair.path}` WHERE {chosen}")
            theirs = self._spark.createDataFrame(ours.toArrow())
            frames = ours.withColumn("v", _again()), theirs.withColumn("v", _again())
            keys = [tuple(row[name] for name in pair.key) for row in frames[1].collect()]
            return f"rows of the table, {chosen}", frames, keys
        keys = [tuple(row[name] for name in pair.key) for row in frame.collect()]
        if kind == "kept":
            frame = self._kept_frame(frame)
        if kind == "arrow":
            return f"arrow {query}", (frame.toArrow(), frame), keys
        if kind == "dicts" and not any("STRUCT" in type_ for type_ in pair.columns.values()):
            rows = frame.toArrow().to_pylist()
            table = pa.table({name: [row[name] for row in rows] for name in frame.columns})
            return f"dicts {rows}", (rows, self._spark.createDataFrame(table)), keys
        return f"{kind} {query}", (frame, frame), keys

    def _kept_frame(self, rows: Any) -> Any:
        """Return a frame of the stage, whose rows are now these; kept while the columns are the same."""
        rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(self._stage)
        if self._kept is None or self._kept.schema != rows.schema:
            self._kept = self._spark.read.format("delta").load(self._stage)
            if self._pair.rng.random() < 0.3:
                self._kept = self._kept.cache()
        return self._kept

    def upsert(self) -> Change:
        """Return an upsert of any source; now and then of some columns, or with a key that cannot be."""
        pair, rng = self._pair, self._pair.rng
        told, (ours, theirs), keys = self._source()
        bad = "NULL" if any(None in key for key in keys) else None
        if bad is None and len({repr(key) for key in keys}) < len(keys):
            bad = "twice"
        columns = [name for name in pair.columns if name not in pair.key]
        chosen = rng.sample(columns, rng.randrange(1, len(columns) + 1)) if rng.random() < 0.1 else None
        return Change(
            f"upsert {told} set {chosen}",
            lambda **more: tailbit.spark.upsert(pair.path, ours, pair.key, chosen, spark=self._spark, **more),
            lambda: pair.judge.upsert(pair.key, theirs, chosen),
            bad,
            reads_itself=told.startswith("rows of the table"),
        )


def _again() -> Any:
    """Return the value that rows of the table get when they are written back."""
    from pyspark.sql import functions

    return functions.lit("again")
