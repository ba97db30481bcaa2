"""Estimates of the time that a scan takes in Spark, and that its rows or files take by the index.

A scan is served where its estimate is at most a share of Spark's, which the session sets. All estimates scale
with the speed of the machine, which is measured once and kept.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tailbit.base.dataclass import dataclass
from tailbit.spark.request import Declined, Request
from tailbit.streaming.settings import user_cache
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.parquet.rows import Positions, pages_of_rows
from tailbit.tables.storage import Storage

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

FILE_SECONDS, PAGE_BYTE_SECONDS, GROUP_BYTE_SECONDS, ROW_SECONDS = 2e-3, 3e-9, 1.1e-9, 1e-5
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
    """Return the estimates in milliseconds: of reading rows, and of Spark's own scan.

    Raises:
        Declined: the rows take more than the request's share of Spark's time.
    """
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
    """Check that leaving files out pays; `bytes` of both are those of the files.

    Raises:
        Declined: all files are kept, or the others would cost Spark too little.
    """
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
