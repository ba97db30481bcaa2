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
    of_version: dict[int, list[Ask]] = {}
    for one in asks:
        of_version.setdefault(one.version.version, []).append(one)
    most = max(map(len, of_version.values()))
    where = ["_metadata.file_path AS file", "_metadata.row_index AS position"]
    frames = [
        spark.read.format("delta")
        .option("versionAsOf", version)
        .load(path)
        .selectExpr(f"{version} AS version", *where, *_marks(some, most))
        for version, some in of_version.items()
    ]
    rows = reduce(lambda a, b: a.union(b), frames).toArrow()
    versions = np.asarray(rows["version"])
    files = [unquote(urlparse(file).path) for file in rows["file"].to_pylist()]
    positions = rows["position"].to_pylist()
    root = os.path.realpath(path)
    for n, one in ((n, one) for some in of_version.values() for n, one in enumerate(some)):
        true = np.asarray(rows[f"p{n}"], dtype=bool) & (versions == one.version.version)
        expected = {(files[row], positions[row]) for row in np.flatnonzero(true).tolist()}
        found = {(os.path.join(root, file), p) for file, at in one.found.positions.items() for p in at}
        if found != expected:
            yield Mismatch(one, str(sorted(expected)), one.found.error or str(sorted(found)))


def _marks(asks: Sequence[Ask], count: int) -> list[str]:
    """`count` columns: where the predicate of each is TRUE, and FALSE where there are fewer predicates."""
    judged = [f"({one.predicate.spark}) <=> TRUE" for one in asks] + ["FALSE"] * (count - len(asks))
    return [f"{text} AS p{n}" for n, text in enumerate(judged)]
