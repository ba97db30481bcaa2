"""A Spark cluster without workers and a master that nobody answers at are told of, and the first worker does
the work."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pyspark
import pytest
from deltalake import write_deltalake

from support.shipped import Shipped
from support.tables import rows
from support.waiting import HANG_S, wait_until
from tailbit.checkpoints.signs import State, last_sign
from tailbit.streaming.watch.cluster import why_silent
from tailbit.tables.storage import LocalStorage

pytestmark = pytest.mark.spark

LIMIT_S = 10
"""Seconds without a sign of life after which the runs of this module end."""

_SCRIPT = Path(__file__).parents[2] / "deploy" / "standalone" / "cluster.sh"


@dataclass(frozen=True)
class Cluster:
    """The shipped cluster, at a port of its own."""

    folder: Path
    port: int

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def script(self, action: str) -> None:
        """Start or stop it, as an operator does."""
        own = {"SPARK_MASTER_PORT": str(self.port), "PYSPARK_PYTHON": sys.executable}
        subprocess.run(["sh", _SCRIPT, action, self.folder], env=os.environ | own, check=True)

    def kill(self, name: str) -> None:
        """Kill one of its processes, and return once it is gone."""
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(int((self.folder / f"{name}.pid").read_text()))
            process.kill()
            wait_until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE)

    def new_worker(self) -> subprocess.Popen[bytes]:
        """A worker that comes late."""
        home = Path(pyspark.__file__).parent
        words = [home / "bin" / "spark-class", "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1"]
        words += ["--cores", "1", "--memory", "1g", "--work-dir", self.folder / "late", self.master]
        own = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        with (self.folder / "late.log").open("wb") as log:
            return subprocess.Popen(words, env=os.environ | own, stdout=log, stderr=log)


@contextmanager
def file_held_from_the_second_on(freed: threading.Event) -> Iterator[str]:
    """The URL of a file that the driver, who asks first, gets at once, and executors once `freed` is set."""
    asked = iter(range(1_000))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if next(asked):
                freed.wait(HANG_S)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"fetched")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/held"
        finally:
            freed.set()
            server.shutdown()


def outlives_its_limit(run: Shipped) -> None:
    """Return once a command has lived for half as long again as it may live without a sign of life."""
    until = time.monotonic() + 1.5 * LIMIT_S
    run.wait(lambda: time.monotonic() > until)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster whose master answers, and whose workers were killed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        found = Cluster(tmp_path / "cluster", free.getsockname()[1])
    found.script("start")
    try:
        for worker in ("worker1", "worker2"):
            found.kill(worker)
        wait_until(lambda: why_silent(found.master) is None)
        yield found
    finally:
        found.script("stop")


def notices(run: Shipped, part: str) -> list[str]:
    """What a command has said that holds a text."""
    return [told["notice"] for told in run.told() if part in told.get("notice", "")]


def _doing(run: Shipped) -> str:
    """What `status` says that an indexer does."""
    sign = last_sign(LocalStorage(run.index))
    return "" if sign is None or sign.state is not State.ALIVE else sign.meaning


def test_a_cluster_without_workers_is_told_of_and_the_first_worker_that_comes_does_the_work(
    cluster: Cluster, run: Shipped
) -> None:
    run.start("--columns", "k,v", "--master", cluster.master, "--stall-limit", f"{LIMIT_S}s")
    (said,) = run.wait(lambda: notices(run, "waiting for executors"))
    assert f"no progress for 30 s: waiting for executors: none has registered with {cluster.master}" in said
    assert run.wait(lambda: "waiting for executors" in _doing(run))
    late = cluster.new_worker()
    try:
        run.wait_covered(2)
        assert run.terminate() == 0
        run.wait_gone()
    finally:
        late.kill()
        late.wait(HANG_S)


def test_an_executor_that_is_slow_to_start_and_a_task_on_another_machine_that_says_nothing_outlive_the_limit(
    cluster: Cluster, run: Shipped, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    freed = threading.Event()
    with file_held_from_the_second_on(freed) as url:
        (tmp_path / "conf").mkdir()
        (tmp_path / "conf" / "spark-defaults.conf").write_text(f"spark.files {url}\n")
        monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
        worker = cluster.new_worker()
        try:
            run.start("--columns", "k,v", "--master", cluster.master, "--stall-limit", f"{LIMIT_S}s")
            run.wait(lambda: "an executor that has registered" in _doing(run))
            outlives_its_limit(run)
            freed.set()
            run.wait_covered(2)
            executors = psutil.Process(worker.pid).children()
            for executor in executors:
                executor.suspend()
            write_deltalake(run.table, rows(30), mode="append")
            outlives_its_limit(run)
            for executor in executors:
                executor.resume()
            run.wait_covered(3)
            assert run.terminate() == 0
            run.wait_gone()
        finally:
            worker.kill()
            worker.wait(HANG_S)


def test_a_master_that_nobody_answers_at_is_told_of_at_once_and_sigterm_ends_the_wait(
    cluster: Cluster, run: Shipped
) -> None:
    cluster.kill("master")
    run.start("--columns", "k,v", "--master", cluster.master)
    (said,) = run.wait(lambda: notices(run, "does not answer"))
    assert said.startswith(f"the master at {cluster.master} does not answer (127.0.0.1:{cluster.port}: ")
    assert run.descendants("java") == []
    assert run.terminate() == 0
