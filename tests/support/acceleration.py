"""A session whose queries use the index, for tests that judge the answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tailbit.spark import accelerate, jar
from tailbit.spark.acceleration import Acceleration

PATIENT = 30_000
"""Milliseconds: what is judged is the answer, on a machine at work."""


@contextmanager
def patiently_accelerated(spark: Any, serve: Sequence[str] | None = None) -> Iterator[Acceleration]:
    """Accelerate a session until the end of the block; the jar is built before."""
    jar.build()
    acceleration = accelerate(spark, serve=serve, budget_ms=PATIENT)
    yield acceleration
    acceleration.stop()
