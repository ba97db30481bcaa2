"""Changes of rows by a process that is killed: `python -m support.row_changes.killed FOLDER`.

The tables of the folder are changed one after the other, each by a thread of its own, since the environment
lets some of them hang (`tailbit.base.faults`). "ready" is printed once each thread has ended or hangs.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

import tailbit.spark
from support.spark_session import start_spark
from support.waiting import wait_until
from tailbit.base.faults import Fault

APPLICATION = ("killed", 1)
ROWS = pa.table({"id": [3, 14, 15, 92], "part": ["b", "a", "b", "a"], "v": ["new"] * 4})
"""Rows of an upsert: three update one row each, one of which moves to another partition; one is new."""

KEYS = [1, 4, 11, 99]
CONDITION = "id BETWEEN 2 AND 12 AND part = 'a'"

CHANGES: Mapping[str, Callable[[Any, str], Any]] = {
    "upsert": lambda spark, path: tailbit.spark.upsert(
        path, ROWS, "id", spark=spark, application=APPLICATION
    ),
    "delete": lambda spark, path: tailbit.spark.delete(
        path, KEYS, "id", spark=spark, application=APPLICATION
    ),
    "erase": lambda spark, path: tailbit.spark.delete(path, CONDITION, spark=spark, application=APPLICATION),
}
STATEMENTS = {
    "upsert": "MERGE INTO {} t USING {{rows}} s ON t.id = s.id"
    " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    "delete": f"DELETE FROM {{}} WHERE id IN ({', '.join(map(str, KEYS))})",
    "erase": f"DELETE FROM {{}} WHERE {CONDITION}",
}
"""Each change as Delta's own statement."""

POINTS = (
    ("upsert", Fault.ROWS_LOCATED),
    ("upsert", Fault.VECTORS_WRITTEN),
    ("upsert", Fault.ROWS_APPENDED),
    ("upsert", Fault.CHANGE_COMMITTED),
    ("delete", Fault.ROWS_LOCATED),
    ("delete", Fault.VECTORS_WRITTEN),
    ("delete", Fault.CHANGE_COMMITTED),
    ("erase", Fault.VECTORS_WRITTEN),
    ("erase", Fault.CHANGE_COMMITTED),
)
"""Changes in their order, and the point at which the process that makes each is killed."""


def faults() -> str:
    """Return what TAILBIT_FAULT is, so that each change hangs at its point."""
    passes: dict[Fault, int] = {}
    asked = []
    for change, point in POINTS:
        for passed in PASSED[change]:
            passes[passed] = passes.get(passed, 0) + 1
            if passed is point:
                asked.append(f"{point.value}=hang@{passes[passed]}")
                break
    return ",".join(asked)


_OF_DELETE = (Fault.ROWS_LOCATED, Fault.VECTORS_WRITTEN, Fault.CHANGE_COMMITTED)
PASSED = {
    "upsert": (Fault.ROWS_LOCATED, Fault.VECTORS_WRITTEN, Fault.ROWS_APPENDED, Fault.CHANGE_COMMITTED),
    "delete": _OF_DELETE,
    "erase": _OF_DELETE,
}
"""The points of each change in order."""


def name_of(change: str, point: Fault) -> str:
    return f"{change} {point.value}"


def main() -> int:
    """Change the tables, say so, and wait to be killed."""
    folder = Path(sys.argv[1])
    spark = start_spark(folder / "spark")
    for change, point in POINTS:
        path = str(folder / name_of(change, point))
        thread = threading.Thread(target=CHANGES[change], args=(spark, path), daemon=True)
        thread.start()
        wait_until(partial(_stands, thread))
    print("ready", flush=True)
    threading.Event().wait()
    return 0


def _stands(thread: threading.Thread) -> bool:
    """Return whether a thread has ended or sleeps at a named point."""
    if not thread.is_alive():
        return True
    frame = sys._current_frames().get(thread.ident or 0)
    return frame is not None and frame.f_code.co_name == "_act"


if __name__ == "__main__":
    sys.exit(main())
