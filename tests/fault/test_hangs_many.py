"""A Java that hangs ends an application of many tables, whatever else it looks at, and one that stands by.

Each hang is a real SIGSTOP of a real process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from deltalake import write_deltalake

from support.application import Application
from support.tables import rows
from support.waiting import HANG_S, wait_until

pytestmark = pytest.mark.spark

NAMES = ("orders", "returns", "visits")

LIMIT = 'stall_limit = "10s"'


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Application]:
    """Three tables, two of which stay quiet, and nothing started yet."""
    made = Application.of_three_commits(tmp_path, *NAMES)
    made.configure(*NAMES, more=LIMIT)
    yield made
    made.end_of_test()


def java_of(application: Application) -> psutil.Process:
    """The Java process of an application."""
    found = []
    for process in application.processes()[1:]:
        # Others, such as the shell that started Java, may end meanwhile.
        with suppress(psutil.Error):
            found += [process] if process.name().startswith("java") else []
    (java,) = found
    return java


def test_a_java_that_hangs_ends_an_application_with_75_though_its_quiet_tables_are_looked_at(
    application: Application,
) -> None:
    application.start()
    application.wait_for_head(*NAMES)
    java = java_of(application)
    java.suspend()
    write_deltalake(application.table("orders"), rows(1000, 10), mode="append")
    assert application.process is not None
    assert application.process.wait(HANG_S) == 75
    said = application.said.read_text()
    assert "HungError: " in said
    assert f"Java is process {java.pid}, which is stopped" in said
    wait_until(lambda: not psutil.pid_exists(java.pid))


def test_an_application_that_stands_by_with_a_java_that_hangs_ends_and_the_one_at_work_goes_on(
    application: Application, standby: Application
) -> None:
    application.start()
    application.wait_for_head(*NAMES)
    standby.start()
    standby.wait_for_words("standing by")
    java_of(standby).suspend()
    assert standby.process is not None
    assert standby.process.wait(HANG_S) == 75
    assert "HungError: " in standby.said.read_text()
    write_deltalake(application.table("orders"), rows(1000, 10), mode="append")
    application.wait_for_head(*NAMES)
    assert application.end() == 0
