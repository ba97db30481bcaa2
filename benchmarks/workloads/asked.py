"""A question that a fresh process asks, which imports nothing but tailbit: used by `growth.py`.

Usage: python workloads/asked.py TABLE PREDICATE SMALL_TABLE. The small table is asked first, with the same
columns, so that libraries are loaded. Prints rows, seconds of opening and the first count, milliseconds of
the same count again, and the peak memory of the process.
"""

from __future__ import annotations

import json
import pathlib
import statistics
import sys
import time

import tailbit

ASKS = 9


def main(table: str, where: str, small: str) -> None:
    tailbit.open(small).where(where).count()
    before = time.perf_counter()
    opened = tailbit.open(table)
    rows = opened.where(where).count()
    first = time.perf_counter() - before
    times = []
    for _ in range(ASKS):
        before = time.perf_counter()
        opened.where(where).count()
        times.append(time.perf_counter() - before)
    status = pathlib.Path("/proc/self/status").read_text()
    found = {"rows": rows, "first count ms": round(first * 1e3, 1)}
    found |= {"count ms": round(statistics.median(times) * 1e3, 3)}
    sys.stdout.write(json.dumps(found | {"peak MB": int(status.split("VmHWM:")[1].split()[0]) >> 10}))


if __name__ == "__main__":
    main(*sys.argv[1:])
