"""An application of many tables is killed at each named point, and started again: nothing is lost or twice.

`test_kill_points.py` does the same to one table's indexer without Spark, at every later batch as well.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import tailbit
from support.application import Application
from support.contents import contents_of
from support.drive import Drive
from support.kills_of_many import Writers
from support.profiles import variants
from support.waiting import wait_until
from tailbit.base.faults import Fault
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


def is_filled(table: str) -> bool:
    """Whether every data file has been indexed for every definition of the index."""
    state = MetadataTable.open(f"{table}/_tailbit").state
    ids = {definition.id for definition in state.settings.definitions}
    return all(ids <= set(record.built) for record in state.recorded.live())


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Application]:
    made = Application.of_three_commits(tmp_path, *NAMES)
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
    writers = Writers(tables, pause_s=0.1)
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
        writers.end()
    application.wait_for_head(*NAMES)
    wait_until(lambda: all(map(is_filled, tables)), application.death)
    assert application.end() == 0, application.said.read_text()
    for table in tables:
        Drive(table, f"{table}-whole", ["v", "k"] if fault in OF_FILLING else ["v"]).drain()
        assert contents_of(f"{table}/_tailbit") == contents_of(f"{table}-whole")
        assert tailbit.open(table).verify().sound
