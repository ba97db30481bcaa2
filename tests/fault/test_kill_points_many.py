"""An application of many tables is killed at each named point, and started again: nothing is lost or twice.

`test_kill_points.py` does the same to one table's indexer without Spark, at every later batch as well.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import write_deltalake

import tailbit
from support.application import Application
from support.contents import contents_of
from support.drive import Drive
from support.profiles import variants
from support.tables import rows, three_commits
from support.waiting import wait_until
from tailbit.faults import Fault
from tailbit.index.store.table import MetadataTable

pytestmark = pytest.mark.spark

NAMES = ("orders", "returns", "visits")

OF_FILLING = {Fault.FILL_PLANNED, Fault.FILL_BUILT, Fault.FILL_COMMITTED}
"""Points that are passed once a column has been added to an index."""

NOT_PASSED = {
    *(Fault.ROWS_LOCATED, Fault.VECTORS_WRITTEN, Fault.ROWS_APPENDED, Fault.CHANGE_COMMITTED),
    *(Fault.REPAIR_HALF_DONE, Fault.VACUUM_HALF_DONE),
}
"""Points of commands: changes of rows, `repair` and `vacuum`."""

POINTS = [
    (fault, passes)
    for fault in Fault
    if fault not in NOT_PASSED
    for passes in ((1, 2) if fault in OF_FILLING else (1, 7))
]


class Writer:
    """Commits to the tables in turn until it is stopped."""

    def __init__(self, tables: list[str]) -> None:
        self._stop, self._tables = threading.Event(), tables
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        commits = 0
        while not self._stop.wait(0.1):
            write_deltalake(
                self._tables[commits % len(self._tables)], rows(1000 + commits, 10), mode="append"
            )
            commits += 1

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def is_filled(table: str) -> bool:
    """Whether every data file has been indexed for every definition of the index."""
    state = MetadataTable.open(f"{table}/_tailbit").state
    ids = {definition.id for definition in state.settings.definitions}
    return all(ids <= set(record.built) for record in state.recorded.live())


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Application]:
    for name in NAMES:
        three_commits(str(tmp_path / name))
    made = Application(tmp_path)
    made.configure(*NAMES)
    yield made
    made.end_of_test()


@pytest.mark.parametrize(
    ("fault", "passes"),
    variants(POINTS, 3),
    ids=lambda at: at.value if isinstance(at, Fault) else str(at),
)
def test_an_application_killed_at_a_named_point_goes_on_and_each_index_equals_one_built_without_it(
    application: Application, fault: Fault, passes: int
) -> None:
    tables = [application.table(name) for name in NAMES]
    application.environment = os.environ | {"TAILBIT_FAULT": f"{fault.value}=kill@{passes}"}
    writer = Writer(tables)
    try:
        application.start()
        if fault in OF_FILLING:
            application.wait_for_words("following", "following", "following")
            for table in tables:
                tailbit.open(table).alter(["k"], [])
        assert application.process is not None
        wait_until(lambda: application.process.poll() is not None)
        assert application.process.returncode == -signal.SIGKILL, application.said.read_text()
        application.environment = dict(os.environ)
        application.start()
        application.wait_for_words("covered")
    finally:
        writer.stop()
    application.wait_for_head(*NAMES)
    wait_until(lambda: all(map(is_filled, tables)), application.death)
    assert application.end() == 0, application.said.read_text()
    for table in tables:
        Drive(table, f"{table}-whole", ["v", "k"] if fault in OF_FILLING else ["v"]).drain()
        assert contents_of(f"{table}/_tailbit") == contents_of(f"{table}-whole")
        assert tailbit.open(table).verify().sound
