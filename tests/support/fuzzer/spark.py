"""Spark's verdict on answers: every version of one schema in one job, all predicates in it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any
from urllib.parse import unquote, urlparse

import numpy as np

from support.fuzzer.asks import Ask
from support.fuzzer.judge import Mismatch


def judge_by_spark(spark: Any, path: str, asks: Sequence[Ask]) -> list[Mismatch]:
    """Every answer about the table as it now is whose positions are not those that Spark finds."""
    groups: dict[object, list[Ask]] = {}
    for one in asks:
        groups.setdefault(one.version.key, []).append(one)
    return [wrong for group in groups.values() for wrong in _group(spark, path, group)]


def _group(spark: Any, path: str, asks: list[Ask]) -> Iterator[Mismatch]:
    marks = [f"({one.predicate.spark}) <=> TRUE AS p{n}" for n, one in enumerate(asks)]
    where = ["_metadata.file_path AS file", "_metadata.row_index AS position"]
    frames = [
        spark.read.format("delta")
        .option("versionAsOf", version)
        .load(path)
        .selectExpr(f"{version} AS version", *where, *marks)
        for version in sorted({one.version.version for one in asks})
    ]
    rows = reduce(lambda a, b: a.union(b), frames).toArrow()
    versions = np.asarray(rows["version"])
    files = [unquote(urlparse(file).path) for file in rows["file"].to_pylist()]
    positions = rows["position"].to_pylist()
    root = os.path.realpath(path)
    for n, one in enumerate(asks):
        true = np.asarray(rows[f"p{n}"], dtype=bool) & (versions == one.version.version)
        expected = {(files[row], positions[row]) for row in np.flatnonzero(true).tolist()}
        found = {(os.path.join(root, file), p) for file, at in one.found.positions.items() for p in at}
        if found != expected:
            yield Mismatch(one, str(sorted(expected)), one.found.error or str(sorted(found)))
