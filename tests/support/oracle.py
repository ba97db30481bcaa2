"""What another engine says about the same table: the positions where a predicate is TRUE, at a version.

Positions are (path relative to the table, 0-based physical row of the file). All predicates of a version
are judged in one pass over its rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from support.histories import SCHEMA
from support.predicates import Predicate
from support.replay import answer

Positions = dict[str, list[int]]


def spark_positions(
    spark: Any, path: str, versions: Sequence[int], predicates: Sequence[Predicate]
) -> dict[int, list[Positions]]:
    """What Spark says of versions of one schema, in one job; the rows come from Delta's own reader."""
    question = ["positions", path, list(versions), [predicate.spark for predicate in predicates]]
    found = answer(spark, question, lambda: list(_spark_positions(spark, path, versions, predicates)))
    return dict(zip(versions, found, strict=True))


def _spark_positions(
    spark: Any, path: str, versions: Sequence[int], predicates: Sequence[Predicate]
) -> Iterator[list[Positions]]:
    judged = [f"({p.spark}) <=> TRUE AS p{n}" for n, p in enumerate(predicates)]
    where = ["_metadata.file_path AS file", "_metadata.row_index AS position"]
    frames = [
        spark.read.format("delta")
        .option("versionAsOf", version)
        .load(path)
        .selectExpr(f"{version} AS version", *where, *judged)
        for version in versions
    ]
    whole = reduce(lambda a, b: a.union(b), frames).toArrow()
    for version in versions:
        table = whole.filter(pc.equal(whole["version"], version))
        names = [relative(path, unquote(urlparse(f).path)) for f in table["file"].to_pylist()]
        yield _by_predicate(names, table["position"].to_pylist(), table, len(predicates))


def duckdb_positions(path: str, version: int, predicates: Sequence[Predicate]) -> list[Positions]:
    """What DuckDB says about the live files as deltalake lists them; for tables without deletion vectors."""
    import duckdb

    rows = live_rows(path, version)
    judged = [f"coalesce({p.duckdb}, FALSE) AS p{n}" for n, p in enumerate(predicates)]
    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'")
        engine.register("live", rows)
        table = engine.sql(f"SELECT file, position, {', '.join(judged)} FROM live").to_arrow_table()
    return _by_predicate(table["file"].to_pylist(), table["position"].to_pylist(), table, len(predicates))


def live_rows(path: str, version: int) -> pa.Table:
    """Every row of the live files with its file and position; partition values as strings."""
    import deltalake

    source = deltalake.DeltaTable(path, version=version)
    actions = pa.table(source.get_add_actions(flatten=True))
    keys = [name for name in actions.column_names if name.startswith("partition.")]
    parts = []
    for action in actions.to_pylist():
        file = unquote(action["path"])
        rows = pq.ParquetFile(Path(path, file)).read()
        known = [SCHEMA.field(f.name) if f.name in SCHEMA.names else _array_of(f) for f in rows.schema]
        rows = rows.cast(pa.schema(known))
        rows = rows.append_column("file", pa.array([file] * len(rows), pa.string()))
        rows = rows.append_column("position", pa.array(np.arange(len(rows)), pa.int64()))
        for key in keys:
            value = pa.array([action[key]] * len(rows), pa.string())
            rows = rows.append_column(key.removeprefix("partition."), value)
        parts.append(rows)
    others = [f for f in (parts[0].schema if parts else ()) if pa.types.is_list(f.type)]
    whole = pa.schema([*SCHEMA, *others, ("file", pa.string()), ("position", pa.int64())])
    return pa.concat_tables([whole.empty_table(), *(part.select(whole.names) for part in parts)])


def _array_of(field: pa.Field) -> pa.Field:
    """A column of arrays of texts, of one type whatever wrote it."""
    return pa.field(field.name, pa.list_(pa.string()))


def relative(root: str, file: str) -> str:
    """A data file's path as the log names it."""
    return os.path.relpath(file, os.path.realpath(root)) if file.startswith(os.path.realpath(root)) else file


def as_lists(positions: dict[str, Any]) -> Positions:
    """An answer's positions in the oracle's shape."""
    return {path: at.tolist() for path, at in positions.items() if len(at)}


def _by_predicate(
    files: Sequence[str], positions: Sequence[int], table: pa.Table, count: int
) -> list[Positions]:
    answers: list[Positions] = []
    for n in range(count):
        found: Positions = {}
        for file, position, true in zip(files, positions, table[f"p{n}"].to_pylist(), strict=True):
            if true:
                found.setdefault(file, []).append(position)
        answers.append({file: sorted(at) for file, at in found.items()})
    return answers
