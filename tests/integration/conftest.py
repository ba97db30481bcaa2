"""What tests of streams on real Spark share."""

from __future__ import annotations

from typing import Any

import pytest

import tailbit.spark
from tailbit.streaming import start


@pytest.fixture
def started(spark: Any) -> Any:
    """Start queries; what still runs at the end of a test is stopped."""
    queries = []

    def begin(*args: Any, **options: Any) -> Any:
        queries.append(start(spark, *args, **options))
        return queries[-1]

    yield begin
    for query in queries:
        query.stop()


@pytest.fixture(scope="module")
def registered(spark: Any) -> Any:
    """The session, which reads format `tailbit`."""
    tailbit.spark.register(spark)
    return spark
