"""A real Prometheus scrapes an application's page; its alerts fire and are resolved."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from support.waiting import HANG_S, wait_until
from tailbit.checkpoints.lag import Lag
from tailbit.checkpoints.liveness import Liveness
from tailbit.streaming.many.member import Member
from tailbit.streaming.watch.server import Pages
from tailbit.streaming.watch.view import TableState, View

RULES = Path(__file__).parents[4] / "deploy" / "prometheus" / "tailbit.rules.yml"
CONFIG = """
global: {{scrape_interval: 200ms, evaluation_interval: 200ms}}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: tailbit
    static_configs: [{{targets: ["{target}"]}}]
"""

pytestmark = pytest.mark.skipif(shutil.which("prometheus") is None, reason="Prometheus is not installed")


@pytest.fixture
def view(table: Member) -> View:
    return View(Liveness(), tables=lambda: [table.account()])


@pytest.fixture
def prometheus(view: View, tmp_path: Path) -> Iterator[str]:
    """The address of a Prometheus that scrapes the application, with the alerts' waits taken out."""
    pages = Pages("127.0.0.1:0", view)
    rules = tmp_path / "rules.yml"
    rules.write_text(re.sub(r"for: \w+", "for: 0s", RULES.read_text()))
    config = tmp_path / "prometheus.yml"
    config.write_text(CONFIG.format(rules=rules, target=pages.url.removeprefix("http://")))
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    options = [f"--config.file={config}", f"--storage.tsdb.path={tmp_path}/data"]
    command = ["prometheus", *options, f"--web.listen-address={address}"]
    said = (tmp_path / "said").open("wb")
    with said, subprocess.Popen(command, stdout=said, stderr=said) as process:
        yield f"http://{address}"
        process.terminate()
        process.wait(HANG_S)
    pages.close()


def firing(prometheus: str) -> set[str]:
    """The alerts that fire now; a Prometheus that has not begun has none."""
    try:
        with urlopen(f"{prometheus}/api/v1/alerts") as answer:
            alerts: list[dict[str, Any]] = json.loads(answer.read())["data"]["alerts"]
    except OSError:
        return {"none is known"}
    return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}


def _fires(prometheus: str, alert: str) -> bool:
    return firing(prometheus) == {alert}


def scraped(prometheus: str) -> bool:
    """Whether the page has been scraped."""
    try:
        with urlopen(f"{prometheus}/api/v1/query?query=tailbit_table_max_lag_seconds") as answer:
            return bool(json.loads(answer.read())["data"]["result"])
    except OSError:
        return False


def test_a_real_prometheus_fires_each_alert_and_resolves_it(
    prometheus: str, view: View, table: Member
) -> None:
    wait_until(lambda: scraped(prometheus) and firing(prometheus) == set())
    table.stands_at(Lag(4, 5, versions=1, seconds=400.0))
    wait_until(lambda: firing(prometheus) == {"TailbitTableBehind"})
    table.stands_at(Lag(5, 5))
    for state in (TableState.STUCK, TableState.REFUSED, TableState.RETRYING, TableState.WAITING):
        table.standing.becomes(state, "why")
        name = f"TailbitTable{state.value.capitalize()}"
        wait_until(partial(_fires, prometheus, name))
    table.standing.becomes(TableState.FOLLOWING)
    wait_until(lambda: firing(prometheus) == set())
    tables, view.tables = view.tables, None
    wait_until(lambda: firing(prometheus) == {"TailbitNobodyAtWork"})
    view.tables = tables
    wait_until(lambda: firing(prometheus) == set())
