"""The status page tells state, lag, versions, error and next retry of every table, those in trouble first."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.request import urlopen

import pytest

from support.hudi import unpack
from tailbit.checkpoints.builds import Build
from tailbit.checkpoints.lag import Lag
from tailbit.checkpoints.liveness import Liveness
from tailbit.errors import StorageError
from tailbit.index.maintenance.rebuild import BuildExtent, Extent
from tailbit.streaming.config.model import TableEntry
from tailbit.streaming.many.member import Member, TableLife
from tailbit.streaming.watch.page import ORDER, status_page
from tailbit.streaming.watch.server import Pages
from tailbit.streaming.watch.view import TableState, View
from tailbit.tables import open_table

FAILURE = StorageError(path="/lake/<b>orders</b>", operation="read", reason="no answer")


def table(name: str, seconds: float = 0.0, max_lag: float = 60.0) -> Member:
    """A table that follows its log, or whose oldest commit waits for some seconds."""
    member = Member(TableEntry(path=f"/lake/{name}", id=name, max_lag=max_lag), TableLife(name, Liveness()))
    member.stands_at(Lag(4, 5, 1, 2, 300, seconds) if seconds else Lag(5, 5))
    member.standing.becomes(TableState.FOLLOWING)
    return member


def page_of(*members: Member, query: str = "") -> str:
    return status_page(View(Liveness("batch 7"), tables=lambda: [m.account() for m in members]), query)


def row_of(page: str, name: str) -> str:
    (row,) = [row for row in re.findall(r"<tr>.*?</tr>", page) if f">{name}<" in row]
    return row


def test_every_state_has_its_place_on_the_page() -> None:
    assert set(ORDER) == set(TableState)


def test_a_row_tells_state_lag_contract_and_versions() -> None:
    row = row_of(page_of(table("orders", 7.5)), "orders")
    for told in ("following", "/lake/orders", "7.5 s", "of 60 s", "1 commit, 300 B", "4, 5"):
        assert told in row
    assert "up to date" in row_of(page_of(table("orders")), "orders")


def test_versions_of_a_hudi_table_are_named_by_their_instants(tmp_path: Path) -> None:
    """A version of such a table has 17 digits, of which a browser's numbers hold no more than 16."""
    hudi = open_table(unpack("cow_v9", tmp_path).path)
    covered, head = hudi.earliest(), hudi.head()
    member = table("orders")
    member.stands_at(Lag(covered, head, 1, 2, 300, 7.5), hudi)
    account = member.account()
    assert (account["covered"], account["head"]) == (covered, head)
    assert (account["covered_name"], account["head_name"]) == (hudi.name_of(covered), hudi.name_of(head))
    assert hudi.name_of(head) != str(head)
    assert f">{hudi.name_of(covered)}, {hudi.name_of(head)}<" in row_of(page_of(member), "orders")
    assert f"{head:,}" not in page_of(member)
    told = f"orders v{hudi.name_of(covered)} of v{hudi.name_of(head)}: 1 version, 2 files, 7.5 s behind"
    assert member.behind == told
    member.stands_at(Lag(-1, head, 1), hudi)
    assert (member.account()["covered"], member.account()["covered_name"]) == (-1, None)
    assert f">none, {hudi.name_of(head)}<" in page_of(member)


def test_versions_of_a_delta_table_are_named_by_their_numbers() -> None:
    member = table("orders")
    member.stands_at(Lag(12344, 12345, 1))
    assert (member.account()["covered_name"], member.account()["head_name"]) == (12344, 12345)
    assert ">12344, 12345<" in row_of(page_of(member), "orders")


def test_a_failure_tells_the_error_the_remedy_and_the_next_retry_and_stays_known_once_it_is_mended() -> None:
    member = table("orders")
    member.failed(FAILURE)
    row = row_of(page_of(member), "orders")
    assert re.search(r"StorageError: .*no answer.* \(1 attempt failed; tried again in [01] s\)<small>\w", row)
    assert member.account()["retry_in"] <= 0.5
    member.standing.worked()
    member.standing.becomes(TableState.FOLLOWING)
    assert re.search(r"<small>0 s ago, mended: StorageError: ", row_of(page_of(member), "orders"))
    assert member.account()["retry_in"] is None


def test_a_table_that_was_not_looked_at_since_it_was_up_to_date_says_for_how_long() -> None:
    member = table("orders")
    assert member.looked is not None
    member.looked -= 75.0
    row = row_of(page_of(member), "orders")
    assert "75.0 s<small>of 60 s; not looked at since it was up to date" in row


def test_on_a_narrow_screen_every_cell_of_a_table_stands_below_the_one_before() -> None:
    page = page_of(table("orders"))
    (narrow,) = re.findall(r"@media \(max-width: \w+\) {(.*?)^}", page, re.S | re.M)
    assert "table, tbody, tr, td { display: block }" in narrow
    assert "white-space: normal" in narrow


def test_tables_in_trouble_come_first_and_then_those_that_use_up_most_of_their_contract() -> None:
    broken, slow, quick = table("broken"), table("slow", 30.0), table("quick", 40.0, max_lag=3600.0)
    broken.standing.becomes(TableState.REFUSED, "no such column")
    page = page_of(quick, slow, broken)
    assert re.findall(r'<td class="">(\w+)<small>/lake', page) == ["broken", "slow", "quick"]
    assert "<title>tailbit: 3 tables, 1 not well</title>" in page


def test_one_state_alone_can_be_asked_for() -> None:
    broken = table("broken")
    broken.standing.becomes(TableState.REFUSED, "no such column")
    page = page_of(table("orders"), broken, query="state=refused")
    assert "broken" in page
    assert ">orders<" not in page
    assert "No table is &lt;i&gt;." in page_of(broken, query="state=<i>")


@pytest.mark.parametrize("hostile", ["<script>alert(1)</script>", '"><img src=x>', "\x1b[2J"])
def test_a_text_of_a_table_is_shown_as_text(hostile: str) -> None:
    member = table("orders")
    member.entry = TableEntry(path=f"/lake/{hostile}", id="orders")
    member.standing.becomes(TableState.RETRYING, hostile, hostile)
    page = page_of(member)
    assert hostile not in page
    assert "<script" not in page


def test_an_application_that_stands_by_says_so() -> None:
    view = View(Liveness("standing by: host-7 is at work"))
    assert "<title>tailbit: starting</title>" in status_page(view)
    view.has_started = True
    page = status_page(view)
    assert "<title>tailbit: standing by</title>" in page
    assert "standing by: host-7 is at work" in page


def test_the_page_allows_no_script_and_loads_nothing() -> None:
    pages = Pages("127.0.0.1:0", View(Liveness(), tables=lambda: [table("orders").account()]))
    try:
        with urlopen(f"{pages.url}/?state=following") as answer:
            policy, text = answer.headers["Content-Security-Policy"], answer.read().decode()
    finally:
        pages.close()
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"
    assert ">orders<" in text
    assert not re.search(r"https?://|src=|<link", text)


def with_build(name: str, files_done: int, rows_exact: bool = True) -> dict[str, object]:
    """The account of a table that is being built, by an application at work for ten seconds."""
    now = [0.0]
    build = Build(name, clock=lambda: now[0])
    whole = Extent(20_000, 400_000_000, 1 << 40)
    build.begin(1, lambda: BuildExtent(whole, Extent(), rows_exact))
    now[0] = 10.0
    build.add(Extent(files_done, 20_000 * files_done, (1 << 40) // 20_000 * files_done))
    progress = build.progress()
    assert progress is not None
    return {**table(name).account(), "state": TableState.BUILDING.value, "build": progress.account()}


def test_a_table_that_is_built_shows_files_rows_rate_and_time_left() -> None:
    view = View(Liveness("batch 7"), tables=lambda: [with_build("orders", 5000)])
    row = row_of(status_page(view), "orders")
    for told in ('<progress value="0.250">', "25 %", "some 30 s left", "5,000 of 20,000 files"):
        assert told in row
    for told in ("100,000,000 of 400,000,000 rows", "10,000,000 rows/s"):
        assert told in row
    assert "<progress" not in page_of(table("orders"))


def test_indexes_that_were_lost_are_shown_until_the_table_has_a_trouble_of_its_own() -> None:
    lost = {**table("orders").account(), "lost_indexes": ["by_<b>mail</b>", "by_day"]}
    page = status_page(View(Liveness(), tables=lambda: [lost]))
    assert "lost with an earlier index: by_&lt;b&gt;mail&lt;/b&gt;, by_day" in row_of(page, "orders")
