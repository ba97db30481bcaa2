"""A real Prometheus and a real Alertmanager tell a person when each alert fires and when it is resolved."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from support.waiting import HANG_S, wait_until
from tailbit.checkpoints.lag import Lag
from tailbit.checkpoints.liveness import Liveness
from tailbit.streaming.many.member import Member
from tailbit.streaming.watch.server import Pages
from tailbit.streaming.watch.view import TableState, View

RULES = Path(__file__).parents[4] / "deploy" / "prometheus" / "tailbit.rules.yml"
PROGRAMS = ("prometheus", "prometheus-alertmanager")
PROMETHEUS = """
global: {{scrape_interval: 200ms, evaluation_interval: 200ms}}
rule_files: ["{rules}"]
alerting: {{alertmanagers: [{{static_configs: [{{targets: ["{alerts}"]}}]}}]}}
scrape_configs: [{{job_name: tailbit, static_configs: [{{targets: ["{target}"]}}]}}]
"""
ALERTMANAGER = """
route: {{receiver: person, group_by: [alertname], group_wait: 10ms, group_interval: 200ms}}
receivers: [{{name: person, webhook_configs: [{{url: "http://{person}/", send_resolved: true}}]}}]
"""

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, PROGRAMS)), reason="Prometheus and Alertmanager are not both installed"
)

Told = set[tuple[str, str]]


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"127.0.0.1:{free.getsockname()[1]}"


@pytest.fixture
def person() -> Iterator[tuple[str, Told]]:
    """Where a person is told, and what the person was told: alerts and whether they fire or are resolved."""
    told: Told = set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            told.update((alert["labels"]["alertname"], alert["status"]) for alert in message["alerts"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}", told
    server.shutdown()
    server.server_close()


@pytest.fixture
def view(table: Member, person: tuple[str, Told], tmp_path: Path) -> Iterator[View]:
    """An application that Prometheus scrapes, with the alerts' waits taken out."""
    view = View(Liveness(), tables=lambda: [table.account()])
    pages, alerts = Pages("127.0.0.1:0", view), free_address()
    rules = tmp_path / "rules.yml"
    rules.write_text(re.sub(r"for: \w+", "for: 0s", RULES.read_text()))
    target = pages.url.removeprefix("http://")
    (tmp_path / "p.yml").write_text(PROMETHEUS.format(rules=rules, alerts=alerts, target=target))
    (tmp_path / "a.yml").write_text(ALERTMANAGER.format(person=person[0]))
    scrapes = [f"--config.file={tmp_path}/p.yml", f"--storage.tsdb.path={tmp_path}/p"]
    routes = [f"--config.file={tmp_path}/a.yml", f"--storage.path={tmp_path}/a", "--cluster.listen-address="]
    commands = [
        [PROGRAMS[0], *scrapes, f"--web.listen-address={free_address()}"],
        [PROGRAMS[1], *routes, f"--web.listen-address={alerts}"],
    ]
    with ExitStack() as stack:
        said = stack.enter_context((tmp_path / "said").open("wb"))
        for command in commands:
            process = stack.enter_context(subprocess.Popen(command, stdout=said, stderr=said))
            stack.callback(process.wait, HANG_S)
            stack.callback(process.terminate)
        yield view
    pages.close()


def test_a_person_is_told_of_each_alert_when_it_fires_and_when_it_is_resolved(
    view: View, table: Member, person: tuple[str, Told]
) -> None:
    _, told = person

    def is_told(alert: str, status: str) -> bool:
        return (alert, status) in told

    table.stands_at(Lag(4, 5, versions=1, seconds=400.0))
    wait_until(partial(is_told, "TailbitTableBehind", "firing"))
    table.stands_at(Lag(5, 5))
    for state in (TableState.STUCK, TableState.REFUSED, TableState.RETRYING, TableState.WAITING):
        table.standing.becomes(state, "why")
        wait_until(partial(is_told, f"TailbitTable{state.value.capitalize()}", "firing"))
    table.standing.becomes(TableState.FOLLOWING)
    tables, view.tables = view.tables, None
    wait_until(partial(is_told, "TailbitNobodyAtWork", "firing"))
    view.tables = tables
    names = re.findall(r"alert: (\w+)", RULES.read_text())
    wait_until(lambda: told == {(name, status) for name in names for status in ("firing", "resolved")})
