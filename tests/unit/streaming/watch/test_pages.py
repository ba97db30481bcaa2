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

from support.waiting import wait_until
from tailbit.checkpoints.lag import Lag
from tailbit.checkpoints.liveness import Liveness
from tailbit.cli import config_status
from tailbit.cli.config_status import live_accounts
from tailbit.streaming.config.model import TableEntry
from tailbit.streaming.many.member import Member, TableLife
from tailbit.streaming.watch.server import Pages, SeenApplication
from tailbit.streaming.watch.view import TableState, View

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
