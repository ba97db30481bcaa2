"""Fixtures of tests that start the command over one table, and applications of many."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.application import Application
from support.shipped import Shipped
from support.tables import three_commits


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Shipped]:
    """The command over a table of three commits, which has not been started."""
    made = Shipped(three_commits(str(tmp_path / "orders")), tmp_path / "output")
    yield made
    if hasattr(made, "process"):
        made.kill_group()


@pytest.fixture
def standby(application: Application) -> Iterator[Application]:
    """A second application of the same configuration."""
    made = Application(application.folder, "said too.txt")
    yield made
    made.end_of_test()
