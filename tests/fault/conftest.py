"""Fixtures of tests that start applications of many tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture
def standby(application: Any) -> Iterator[Any]:
    """A second application of the same configuration."""
    from support.application import Application

    made = Application(application.folder, "said too.txt")
    yield made
    made.end_of_test()
