"""Repeated calls, contestants in turn so that a slow moment of the machine meets all of them."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any


def medians(calls: Mapping[str, Callable[[], Any]], repeats: int = 9) -> dict[str, float]:
    """Median warm seconds of each call: the calls take turns, each goes once uncounted before it is timed."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            call()
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(t) for name, t in times.items()}


def least(calls: Mapping[str, Callable[[], Any]], repeats: int = 9) -> dict[str, tuple[float, float]]:
    """Least wall and least CPU seconds of each call, timed as `medians` does.

    On a loaded machine the least of some runs says more than their median; CPU seconds are of all threads.
    """
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            call()
            wall, cpu = time.perf_counter(), time.process_time()
            call()
            times[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    return {name: (min(w for w, _ in its), min(c for _, c in its)) for name, its in times.items()}


def same(answers: Mapping[str, Any]) -> Any:
    """The one answer all contestants gave; a benchmark with differing answers stops with the difference."""
    first = next(iter(answers.values()))
    if any(a != first for a in answers.values()):
        raise SystemExit(f"the answers differ: {dict(answers)}")
    return first


def tell(row: Mapping[str, Any]) -> None:
    """Print one measured case as a line of JSON, at once: what `make bench` reads."""
    sys.stdout.write(json.dumps(dict(row)) + "\n")
    sys.stdout.flush()
