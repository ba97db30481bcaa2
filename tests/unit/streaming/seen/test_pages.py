"""Metrics, health and states of an application by HTTP; alerts and dashboard name what is exported."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
import yaml

from tailbit.checkpoints.lag import Lag
from tailbit.checkpoints.liveness import Liveness
from tailbit.cli.config.watch import live_accounts
from tailbit.streaming.config.model import TableEntry
from tailbit.streaming.many.member import Member, TableLife
from tailbit.streaming.seen.server import Pages, SeenApplication
from tailbit.streaming.seen.table_state import TableState
from tailbit.streaming.seen.view import View

DEPLOY = Path(__file__).parents[4] / "deploy"
RULES = DEPLOY / "prometheus" / "tailbit.rules.yml"
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
    return View(life, stall_s=60.0, tables=lambda: [member.account()], has_started=True)


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
    assert live_accounts(pages.url.removeprefix("http://")) is None


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


def test_a_port_in_use_is_told_once_and_taken_when_it_is_free(view: View) -> None:
    told: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        seen = SeenApplication(address, view, told.append, told.append)
        seen.show()
        seen.show()
    assert [line.partition(": ")[0] for line in told] == ["no metrics"]
    with seen:
        assert told[1:] == [f"status page: http://{address}/; metrics: http://{address}/metrics"]
        accounts = live_accounts(address)
    assert accounts is not None
    assert accounts[0]["id"] == "orders"


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
