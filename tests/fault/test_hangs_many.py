"""A Java, planner or workers that hang end an application of many tables, whatever else it looks at.

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
from support.profiles import variants
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


def part_of(application: Application, part: str) -> list[psutil.Process]:
    """The processes of one part of an application: java, planner or workers."""
    found = []
    for process in application.processes()[1:]:
        # Others, such as the shell that started Java, may end meanwhile.
        with suppress(psutil.Error):
            is_planner = "streaming_source_runner" in " ".join(process.cmdline())
            kind = "planner" if is_planner else "workers" if process.name().startswith("python") else "java"
            found += [process] if kind == part and process.name().startswith(("java", "python")) else []
    assert found
    return found


def java_of(application: Application) -> psutil.Process:
    (java,) = part_of(application, "java")
    return java


@pytest.mark.parametrize("part", variants(["java", "planner", "workers"], 2))
def test_a_part_that_hangs_ends_an_application_with_75_though_its_quiet_tables_are_looked_at(
    application: Application, part: str
) -> None:
    application.start()
    application.wait_for_head(*NAMES)
    java, every = java_of(application), application.processes()[1:]
    for process in part_of(application, part):
        process.suspend()
    write_deltalake(application.table("orders"), rows(1000, 10), mode="append")
    assert application.process is not None
    assert application.process.wait(HANG_S) == 75
    said = application.said.read_text()
    assert "HungError: " in said
    assert f"Java is process {java.pid}" in said
    assert "stopped" in said
    wait_until(lambda: not any(process.is_running() for process in every))


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
