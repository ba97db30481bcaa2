"""Metrics, health and states of an application by HTTP; alerts and dashboard name what is exported."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
import yaml

from support.hudi import unpack
from support.waiting import wait_until
from tailbit.checkpoints.builds import Build
from tailbit.checkpoints.lag import Lag
from tailbit.checkpoints.liveness import Liveness
from tailbit.cli import config_status
from tailbit.cli.config_status import live_accounts
from tailbit.errors import StorageError
from tailbit.index.maintenance.rebuild import BuildExtent, Extent
from tailbit.streaming.config.model import TableEntry
from tailbit.streaming.many.member import Member, TableLife
from tailbit.streaming.watch.page import ORDER, status_page
from tailbit.streaming.watch.server import Pages, SeenApplication
from tailbit.streaming.watch.view import TableState, View
from tailbit.tables import open_table

DEPLOY = Path(__file__).parents[4] / "deploy"
RULES = DEPLOY / "prometheus" / "tailbit.rules.yml"
LEASE = "s3://lake/_tailbit_lease"
ALERTS = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


@pytest.fixture
def life() -> Liveness:
    return Liveness("batch 7")


@pytest.fixture
def member(life: Liveness) -> Member:
    """A table that is one commit behind."""
    followed = Member(TableEntry(path="/lake/orders", id="orders", max_lag=60.0), TableLife("orders", life))
    followed.stands_at(Lag(4, 5, versions=1, files=2, bytes=300, seconds=7.5))
    followed.standing.becomes(TableState.FOLLOWING)
    return followed


@pytest.fixture
def view(life: Liveness, member: Member) -> View:
    return View(life, stall_s=60.0, tables=lambda: [member.account()], has_started=True, lease=LEASE)


@pytest.fixture
def pages(view: View) -> Iterator[Pages]:
    served = Pages("127.0.0.1:0", view)
    yield served
    served.close()


def asked(pages: Pages, path: str) -> tuple[int, str]:
    try:
        with urlopen(f"{pages.url}{path}") as answer:
            return answer.status, answer.read().decode()
    except HTTPError as refused:
        return refused.code, refused.read().decode()


def test_each_table_has_its_lag_its_contract_and_its_state(pages: Pages) -> None:
    status, text = asked(pages, "/metrics")
    assert status == 200
    assert 'tailbit_table_lag_versions{table="orders"} 1.0' in text
    assert 'tailbit_table_max_lag_seconds{table="orders"} 60.0' in text
    assert 'tailbit_table_state{state="following",table="orders"} 1.0' in text
    assert 'tailbit_table_state{state="stuck",table="orders"} 0.0' in text
    assert "tailbit_leading 1.0" in text
    assert len(re.findall(r'table="orders"', text)) <= 30


def test_an_application_that_stands_by_has_no_tables_and_is_ready(pages: Pages, view: View) -> None:
    view.tables = None
    assert "tailbit_leading 0.0" in asked(pages, "/metrics")[1]
    assert asked(pages, "/readyz")[0] == 200
    assert live_accounts(pages.url.removeprefix("http://"), LEASE) is None


def test_an_application_whose_spark_starts_is_alive_and_not_ready(view: View, life: Liveness) -> None:
    starting = Pages("127.0.0.1:0", View(life))
    try:
        assert asked(starting, "/readyz") == (503, "starting: batch 7\n")
        assert asked(starting, "/livez")[0] == 200
    finally:
        starting.close()


def test_readiness_names_the_tables_that_do_not_keep_to_their_contract(pages: Pages, member: Member) -> None:
    assert asked(pages, "/readyz") == (200, "ready\n")
    member.standing.becomes(TableState.REFUSED, "no such column")
    assert asked(pages, "/readyz") == (503, "orders: refused: no such column\n")


def test_a_rollout_asks_for_the_start_alone(pages: Pages, member: Member, view: View) -> None:
    member.standing.becomes(TableState.REFUSED, "no such column")
    assert asked(pages, "/readyz?tables=no") == (200, "ready\n")
    view.has_started = False
    assert asked(pages, "/readyz?tables=no") == (503, "starting: batch 7\n")


def test_metrics_without_their_library_say_what_to_install(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    assert asked(pages, "/metrics") == (
        503,
        "prometheus-client is not installed: pip install prometheus-client\n",
    )


def test_status_is_watched_by_the_page_of_the_application_that_has_the_lease(
    pages: Pages, view: View, member: Member, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tailbit.toml"
    address = pages.url.removeprefix("http://")
    file.write_text(
        f'[application]\nmetrics = "{address}"\nlease = "{tmp_path}/lease"\n'
        '[[table]]\npath = "orders"\ncolumns = ["k"]\n'
    )
    view.lease = str(tmp_path / "lease")
    member.standing.becomes(TableState.RETRYING, "no answer")

    def lines(*options: Any) -> list[list[str]]:
        with pytest.MonkeyPatch.context() as patch:
            # The module's own name: threads of other modules in this process, such as py4j's, sleep too.
            patch.setattr(config_status, "time", SimpleNamespace(sleep=_interrupt))
            assert config_status.watch_config(str(file), *options) == 0
        return [line.split("\t") for line in capsys.readouterr().out.splitlines()]

    lag = "1 version behind (2 files, 300 B), the oldest 8 s old"
    assert lines(None, 0.1, False) == [
        ["", "id", "table", "state", "lag", "indexer", "trouble"],
        ["LATE", "orders", "/lake/orders", "retrying", lag, f"{pages.url}/", "retrying: no answer"],
    ]
    member.standing.becomes(TableState.FOLLOWING)
    assert lines(None, 0.1, False)[1][0] == "ok"
    assert json.loads(lines(1.0, 0.1, True)[0][0])["within_max_lag"] is False
    view.lease = "/another/lease"
    assert lines(None, 0.1, False)[1][1:3] == ["orders", str(tmp_path / "orders")]


def _interrupt(seconds: float) -> None:
    raise KeyboardInterrupt


def test_an_application_without_signs_of_life_is_not_alive(view: View, life: Liveness) -> None:
    now = [0.0]
    view.clock = lambda: now[0]
    assert view.why_dead() is None
    now[0] = 61.0
    assert view.why_dead() == "no sign of life for 61 s: batch 7"
    life.sign()
    assert view.why_dead() is None


def test_a_commit_waits_for_longer_while_its_table_is_not_looked_at(member: Member) -> None:
    assert member.looked is not None
    member.looked -= 100.0
    assert member.account()["lag"]["seconds"] > 107.0


@pytest.mark.parametrize("state", [TableState.RETRYING, TableState.WAITING, TableState.STUCK])
def test_the_lag_of_a_table_that_cannot_be_looked_at_grows_from_the_last_look_in_every_account_of_it(
    pages: Pages, member: Member, view: View, state: TableState
) -> None:
    member.stands_at(Lag(5, 5))
    member.standing.becomes(state, "no answer")
    assert member.looked is not None
    member.looked -= 75.0
    series = asked(pages, "/metrics")[1]
    (seconds,) = re.findall(r'^tailbit_table_lag_seconds{table="orders"} (\S+)', series, re.M)
    assert float(seconds) >= 75.0
    (account,) = view.status()["tables"]
    assert account["lag"]["seconds"] >= 75.0
    assert account["lag"]["versions"] == 0
    assert member.is_behind
    page = asked(pages, "/")[1]
    assert "not looked at since it was up to date" in page
    assert "up to date<small>" not in page


def test_a_quiet_table_that_is_looked_at_in_time_has_no_lag(member: Member) -> None:
    member.stands_at(Lag(5, 5))
    assert member.looked is not None
    member.looked -= 75.0
    member.due = time.monotonic() + 5.0
    assert member.account()["lag"]["seconds"] == 0.0
    assert not member.is_behind


def test_a_paused_table_has_no_growing_lag(member: Member) -> None:
    member.stands_at(Lag(5, 5))
    assert member.looked is not None
    member.looked -= 75.0
    member.entry = member.entry.model_copy(update={"paused": True})
    assert member.account()["lag"]["seconds"] == 0.0


def test_the_pages_are_at_the_next_port_until_theirs_is_free_and_are_found_at_both(view: View) -> None:
    told: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with SeenApplication(address, view, told.append, told.append) as seen:
            assert told[0].startswith(
                f"{address}: Address already in use; the pages are at http://127.0.0.1:"
            )
            assert told[1].startswith("status page: ")
            there = told[1].split()[2].removeprefix("http://").rstrip("/;")
            assert there != address
            accounts = live_accounts(there, LEASE)
            assert accounts is not None
            assert accounts[0]["id"] == "orders"
            other.close()
            wait_until(lambda: len(told) > 2)
            assert told[2:] == [f"status page: http://{address}/; metrics: http://{address}/metrics"]
            assert live_accounts(address, LEASE) is not None
            assert live_accounts(address, "/another/lease") is None
            seen.show()
    assert len(told) == 3


def test_an_application_that_lost_its_lease_leads_no_more_though_its_java_hangs(
    pages: Pages, view: View
) -> None:
    view.is_lost = lambda: True
    assert "tailbit_leading 0.0" in asked(pages, "/metrics")[1]
    assert view.status()["tables"] == []


def test_pages_are_served_at_an_address_of_ipv6(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nobody listens there: a page of this machine is asked for past any proxy.
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    pages = Pages("[::1]:0", view)
    try:
        assert live_accounts(pages.url.removeprefix("http://"), LEASE) is not None
    finally:
        pages.close()


def test_a_service_that_speaks_something_else_is_not_taken_for_an_application() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def greet() -> None:
            connection, _ = other.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")

        greeter = threading.Thread(target=greet)
        greeter.start()
        assert live_accounts(f"127.0.0.1:{other.getsockname()[1]}", LEASE) is None
        greeter.join()


def test_a_page_that_is_not_there_is_said_so(pages: Pages) -> None:
    assert asked(pages, "/secrets")[0] == 404


def exported(pages: Pages) -> set[str]:
    return set(re.findall(r"^(\w+)(?:{| )", asked(pages, "/metrics")[1], re.M))


def test_alerts_and_dashboard_name_metrics_that_are_exported(pages: Pages) -> None:
    dashboard = json.loads((DEPLOY / "grafana" / "tailbit.json").read_text())
    targets = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    for expression in [rule["expr"] for rule in ALERTS] + targets:
        named = set(re.findall(r"\b(?:tailbit|process)_\w+", expression))
        assert named
        assert named - exported(pages) == set(), expression
    states = set(re.findall(r'state="(\w+)"', RULES.read_text()))
    assert states - {state.value for state in TableState} == set()


def test_each_alert_has_its_section_of_the_runbook_and_a_test() -> None:
    names = [rule["alert"] for rule in ALERTS]
    assert re.findall(r"^## (\w+)$", (DEPLOY / "RUNBOOK.md").read_text(), re.M) == names
    for rule in ALERTS:
        assert rule["annotations"]["runbook"] == f"RUNBOOK.md#{rule['alert'].lower()}"
    tested = (DEPLOY / "prometheus" / "tailbit.rules.test.yml").read_text()
    assert set(re.findall(r"alertname: (\w+)", tested)) == set(names)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_each_alert_fires_and_is_resolved_by_promtool() -> None:
    command = ["promtool", "test", "rules", "tailbit.rules.test.yml"]
    done = subprocess.run(command, cwd=RULES.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


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
