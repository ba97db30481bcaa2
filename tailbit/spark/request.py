"""A request to the helper of Spark's driver: its typed fields, what it costs, and how it is declined.

A scan is served where its estimated time is at most a share of Spark's, which the session sets. All estimates
scale with the speed of the machine, which is measured once and kept.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tailbit.base.dataclass import dataclass
from tailbit.streaming.settings import user_cache
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.parquet.rows import Positions, pages_of_rows
from tailbit.tables.storage import Storage

MOST_GROUPS = 10_000
"""Most groups of an answer, unless the request says otherwise: the driver holds them in the plan."""

MEASURES = ("min", "max", "distinct", "count")
"""What may be told of a column beside the number of rows: COUNT(DISTINCT column) and COUNT(column) too."""


OF_CONDITIONS = frozenset(
    (
        *("keeps-all", "no-gain", "many-rows", "many-bytes", "many-groups", "not-exact", "not-covered"),
        *("not-understood", "nothing-understood", "floating-point", "time-zone", "late", "malformed"),
    )
)
"""Reasons that lie in the request itself: after these, the open table is kept."""


class Declined(Exception):
    """A request that is not answered: a reason that does not change between releases, and a detail.

    `instead`: what the reply holds in place of what was asked. `rows`: how many there are, and their share of
    the bytes of the table's files.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail
        self.instead: Mapping[str, Any] | None = None
        self.rows: tuple[int, int] | None = None

    def fields(self) -> dict[str, Any]:
        """Return the fields of the reply."""
        fields: dict[str, Any] = {"declined": self.reason, "detail": self.detail}
        if self.rows is not None:
            fields |= {"rows": self.rows[0], "bytes": self.rows[1]}
        return fields if self.instead is None else {**fields, "instead": self.instead}


@dataclass(frozen=True)
class First:
    """The first `most` rows, or distinct values, by a column, with all rows of the last value."""

    by: str
    most: int
    distinct: bool
    descending: bool
    nulls_first: bool

    @classmethod
    def of(cls, given: object) -> First:
        """Return the field of a request.

        Raises:
            ValueError: it lacks a field, or one is not of its type.
        """
        types = {"by": str, "most": int, "distinct": bool, "descending": bool, "nulls_first": bool}
        if not isinstance(given, dict) or {name: type(value) for name, value in given.items()} != types:
            raise ValueError("first: by, most, distinct, descending and nulls_first")
        return cls(**given)


@dataclass(frozen=True)
class Request:
    """A request whose fields have their types.

    `cores`: of the session. `files`: those that Delta has listed for the scan; 0 before it has. `share`: the
    most of Spark's own time that rows may take; above 1, costs do not matter to files either.
    `or_files`: where rows are declined, the reply names the files. `first`: none where all rows are wanted.
    """

    want: str
    root: str
    table: str
    version: int
    where: tuple[str, ...]
    by: tuple[str, ...]
    options: Mapping[str, str]
    most: int = MOST_GROUPS
    columns: tuple[str, ...] = ()
    measures: tuple[tuple[str, str], ...] = ()
    budget_ms: int = 60_000
    cores: int = 1
    files: int = 0
    share: float = 0.7
    or_files: bool = False
    first: First | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Request:
        """Return the request of the fields of a line."""
        texts: dict[str, Any] = {name: given.get(name) for name in ("want", "root", "table")}
        wrong = [name for name, value in texts.items() if not isinstance(value, str) or not value]
        numbers: dict[str, Any] = {"version": given.get("version")}
        numbers |= {"most": given.get("most", MOST_GROUPS), "budget_ms": given.get("budget_ms", 60_000)}
        numbers |= {"cores": given.get("cores", 1), "files": given.get("files", 0)}
        wrong += [name for name, value in numbers.items() if type(value) is not int or value < 0]
        share, or_files = given.get("share", 0.7), given.get("or_files", False)
        wrong += [] if type(share) in (int, float) and share >= 0 else ["share"]
        wrong += [] if type(or_files) is bool else ["or_files"]
        lists: dict[str, Any] = {name: given.get(name) or [] for name in ("where", "by", "columns")}
        wrong += [name for name, value in lists.items() if not _is_of_texts(value, list)]
        measures = given.get("measures") or []
        if not isinstance(measures, list) or not all(_is_of_texts(pair, list) for pair in measures):
            wrong.append("measures")
        elif not all(len(pair) == 2 and pair[0] in MEASURES for pair in measures):
            wrong.append("measures")
        options = given.get("options") or {}
        if not isinstance(options, dict) or not _is_of_texts([*options.values()], list):
            wrong.append("options")
        if wrong:
            raise Declined("malformed", f"{', '.join(wrong)}: missing, or not of its type")
        given_lists: dict[str, Any] = {name: (*value,) for name, value in lists.items()}
        pairs = tuple((function, column) for function, column in measures)
        fields: dict[str, Any] = {**texts, **numbers, **given_lists, "measures": pairs, "options": options}
        first = None if given.get("first") is None else First.of(given["first"])
        return cls(**fields, share=share, or_files=or_files, first=first)


def _is_of_texts(value: object, type_: type[list[Any]]) -> bool:
    return isinstance(value, type_) and all(isinstance(item, str) for item in value)


MOST_FOOTERS = 32
"""Most files whose footers are read: the wanted rows of the others are taken to lie as those of these do."""

# Seconds of a core of the machine that they were measured on, files in the cache of the system: of Spark with
# two cores on 3 M and 6 M rows of 3 to 16 columns, and of this process on the rows of 1 to 400 keys of them.
JOB_SECONDS = 0.08
"""A job of Spark, from its planning to its result, without its tasks."""

LISTING_SECONDS = 0.06
"""Delta's list of the files of a version."""

SCANNED_FILE_SECONDS, SCANNED_ROW_SECONDS, SCANNED_BYTE_SECONDS = 5e-3, 2e-7, 1.8e-9
"""A file that Spark scans, each of its rows, and a decompressed byte of the columns."""

FILE_SECONDS, PAGE_BYTE_SECONDS, GROUP_BYTE_SECONDS, ROW_SECONDS = 2e-3, 3e-9, 1.1e-9, 2e-6
"""A file of which this process reads rows, a byte of their pages or, where they lie in most pages, of their
row groups, and a row that is sent to the driver."""

NAMED_FILE_SECONDS = 5e-6
"""A file that is named to the driver, and is found there in Delta's list."""

UNPACKED = 6
"""Decompressed bytes that take Spark as long as a byte of a file, with the rows that it belongs to."""

_REFERENCE = 1.6e-9
"""Seconds in which `_decoding` decodes a byte on that machine."""

_SPEED_FILE = "speed.json"


@dataclass(frozen=True)
class Scan:
    """What Spark would read: files, their rows, and the decompressed bytes of the columns."""

    files: int
    rows: int
    bytes: int

    def seconds(self, request: Request) -> float:
        """Return the seconds that Spark takes on the cores of its session, on the machine of reference."""
        work = self.files * SCANNED_FILE_SECONDS + self.rows * SCANNED_ROW_SECONDS
        work += self.bytes * SCANNED_BYTE_SECONDS
        fixed = JOB_SECONDS + (0 if request.files else LISTING_SECONDS)
        return fixed + work / max(1, min(request.cores, self.files))


@dataclass(frozen=True)
class Pages:
    """The pages that hold wanted rows, in files and their row groups."""

    files: int
    rows: int
    touched: int
    whole: Scan

    @property
    def seconds(self) -> float:
        """Return the seconds in which one core reads the rows, on the machine of reference."""
        reading = min(self.touched * PAGE_BYTE_SECONDS, self.whole.bytes * GROUP_BYTE_SECONDS)
        return self.files * FILE_SECONDS + reading + self.rows * ROW_SECONDS


def pages_of(
    storage: Storage, hits: Sequence[tuple[FileSlice, Positions]], columns: Sequence[Column]
) -> Pages:
    """Return the pages of the columns that hold the wanted rows of files, as an estimate.

    Cost: reads the footers of at most `MOST_FOOTERS` files.
    """
    if not hits:
        return Pages(0, 0, 0, Scan(0, 0, 0))
    sample = hits[:: len(hits) // MOST_FOOTERS + 1]
    samples = [pages_of_rows(storage, file, columns, positions) for file, positions in sample]
    scale = len(hits) / len(sample)
    touched, rows, size = (round(scale * sum(sizes)) for sizes in zip(*samples, strict=True))
    whole = Scan(len(hits), rows, size)
    return Pages(len(hits), sum(len(positions) for _, positions in hits), touched, whole)


def check_gain(pages: Pages, request: Request) -> dict[str, int]:
    """Return the estimates in milliseconds: of reading rows, and of Spark's own scan."""
    listed = request.files / max(1, pages.files)
    whole = pages.whole
    if listed > 1:
        whole = Scan(request.files, round(whole.rows * listed), round(whole.bytes * listed))
    estimates = (pages.seconds, whole.seconds(request))
    rows_ms, spark_ms = (round(1e3 * seconds * speed()) for seconds in estimates)
    detail = f"{pages.rows} rows in {pages.files} files: {rows_ms} ms by rows, {spark_ms} ms by Spark"
    if rows_ms > request.share * spark_ms:
        raise Declined("no-gain", detail)
    return {"rows_ms": rows_ms, "spark_ms": spark_ms}


def check_files(candidates: Scan, everything: Scan, request: Request) -> None:
    """Check that leaving files out pays; `bytes` of both are those of the files."""
    if candidates.files == everything.files:
        raise Declined("keeps-all", f"{candidates.files} files")
    saved = everything.seconds(request) - candidates.seconds(request)
    naming = candidates.files * NAMED_FILE_SECONDS
    if request.share <= 1 and saved <= naming:
        detail = f"{saved * 1e3:.1f} ms saved, {naming * 1e3:.1f} ms to name them"
        raise Declined("no-gain", f"{candidates.files} of {everything.files} files: {detail}")


def told_costs() -> dict[str, float]:
    """Return what the driver estimates Spark's time by, on this machine, before it asks."""
    costs = {"job_ms": JOB_SECONDS + LISTING_SECONDS, "file_ms": SCANNED_FILE_SECONDS}
    costs |= {"byte_ms": UNPACKED * SCANNED_BYTE_SECONDS}
    return {name: 1e3 * seconds * speed() for name, seconds in costs.items()}


_speeds: list[float] = []


def speed(environment: Mapping[str, str] = os.environ) -> float:
    """Return how many times as long this machine takes as that of reference; measured once and kept.

    Cost: the first time on a machine, 20 ms.
    """
    if not _speeds:
        record = Path(user_cache(environment), _SPEED_FILE)
        with suppress(OSError, ValueError, TypeError):
            _speeds.append(float(json.loads(record.read_text())["speed"]))
        if not _speeds:
            _speeds.append(_decoding() / _REFERENCE)
            # Without a folder of its own a process measures again.
            with suppress(OSError):
                record.parent.mkdir(parents=True, exist_ok=True)
                record.write_text(json.dumps({"speed": _speeds[0]}) + "\n")
    return _speeds[0]


def _decoding() -> float:
    """Return the least seconds in which a core decodes a byte of Parquet, of some tries."""
    rng = np.random.default_rng(1)
    table = pa.table({f"c{number}": rng.integers(0, 1 << 40, 1 << 16) for number in range(4)})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    data, took = sink.getvalue(), list[float]()
    for _ in range(5):
        start = time.perf_counter()
        pq.read_table(pa.BufferReader(data), use_threads=False)
        took.append(time.perf_counter() - start)
    return min(took) / int(table.nbytes)
