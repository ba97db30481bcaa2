"""A real browser opens the status page of 200 tables, and Spark's UI while the stream is behind.

The pictures of the documentation are those that these tests take: `make pictures`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import write_deltalake

from support.application import Application
from support.browser import drawn, installed
from support.tables import rows, three_commits
from support.waiting import wait_until
from tailbit.checkpoints.lag import Lag
from tailbit.checkpoints.liveness import Liveness
from tailbit.errors import StorageError, UnsupportedFeatureError
from tailbit.streaming.config.model import TableEntry
from tailbit.streaming.many.member import Member, TableLife
from tailbit.streaming.watch.server import Pages
from tailbit.streaming.watch.view import TableState, View

pytestmark = pytest.mark.skipif(
    installed() is None, reason="no browser: neither Chromium nor Chrome is installed"
)

TABLES = 200
COMMITS = 80


def followed(number: int) -> Member:
    """One of many tables: most follow their logs, and a few are in each kind of trouble."""
    name = f"{('orders', 'returns', 'visits', 'stock')[number % 4]}_{number:03}"
    member = Member(TableEntry(path=f"s3://lake/{name}", id=name, max_lag=60.0), TableLife(name, Liveness()))
    late = 90.0 if number % 50 == 7 else 0.2 * (number % 5)
    member.stands_at(Lag(1000 - number % 5, 1000, number % 5, number % 5, 4096 * (number % 5), late))
    member.work.rows = 1_000_000 + 977 * number
    member.standing.becomes(TableState.BEHIND if late > 60 else TableState.FOLLOWING)
    if number == 60:
        member.failed(UnsupportedFeatureError(path=member.entry.place, version=7, feature="catalogManaged"))
    elif number == 120:
        member.failed(StorageError(path=member.entry.place, operation="read", reason="503 SlowDown"))
    elif number == 180:
        reason = "no sign of life for 61 s: looking for commits"
        member.standing.becomes(TableState.STUCK, reason, "It goes on once its store answers.")
    return member


def test_a_browser_shows_200_tables_and_those_in_trouble_are_seen_first(tmp_path: Path) -> None:
    members = [followed(number) for number in range(TABLES)]
    pages = Pages("127.0.0.1:0", View(Liveness("waiting"), tables=lambda: [m.account() for m in members]))
    try:
        html = drawn(f"{pages.url}/", tmp_path / "status-page.png")
    finally:
        pages.close()
    states = re.findall(r'<td class="(\w+)">', html)
    assert len([state for state in states if state != "n"]) == TABLES
    assert [state for state in states if state != "n"][:7] == [
        "refused",
        "stuck",
        "retrying",
        *["behind"] * 4,
    ]
    for told in ("catalogManaged", "503 SlowDown", "no sign of life for 61 s", "behind 4", "tried again in"):
        assert told in html


@pytest.fixture
def behind(tmp_path: Path) -> Iterator[Application]:
    """An application with Spark's UI whose batches take one commit of many at a time."""
    three_commits(str(tmp_path / "orders"))
    application = Application(tmp_path)
    application.configure("orders", orders="max_versions = 1")
    application.file.write_text(application.file.read_text().replace("ui = false", "ui = true"))
    application.start()
    application.wait_for_head("orders")
    for number in range(COMMITS):
        write_deltalake(application.table("orders"), rows(1000 + 10 * number, 10), mode="append")
    yield application
    application.end_of_test()


BEHIND = re.compile(r"tailbit · batch \d+ · orders v\d+ of v\d+: \d+ versions?, \d+ files?, \d+\.\d s behind")


@pytest.mark.spark
def test_a_browser_shows_in_sparks_ui_which_table_is_behind_and_by_how_much(
    behind: Application, tmp_path: Path
) -> None:
    (ui,) = re.findall(r"Spark UI: (http://\S+)", behind.said.read_text())
    page = behind.page("")  # A browser takes seconds, in which the index may come to the head.
    jobs = drawn(f"{ui}/jobs/", tmp_path / "spark-jobs.png")
    queries = drawn(f"{ui}/StreamingQuery/", tmp_path / "spark-query.png", height=360)
    assert BEHIND.search(jobs), jobs
    assert "RUNNING" in queries
    assert ">tailbit<" in re.sub(r"\s+", "", queries)
    (versions,) = re.findall(r'>orders<.*? commits?, .*?<td class="n">(\d+), (\d+)<', page)
    covered, head = map(int, versions)
    assert covered < head <= COMMITS + 2
    behind.wait_for_head("orders")
    wait_until(lambda: "up to date" in behind.page(""), behind.death)
