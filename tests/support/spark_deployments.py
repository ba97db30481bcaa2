"""Spark as it is deployed: a standalone cluster, and a server for JDBC and Connect, each a process."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark

from support import release_questions
from support.acceleration import patient_settings, run_patiently
from support.s3_server import free_ports, running
from support.spark_environments import python_with
from support.spark_session import JAVA
from support.waiting import HANG_S, wait_until

SPARK = Path(pyspark.__file__).parent
HERE = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LAUNCHER_OPTS": JAVA}
"""Variables of daemons: they listen on this machine alone."""


def delta_jars() -> list[str]:
    """Return Delta's jars, which Spark has fetched for a session before."""
    folder = next(Path.home().glob(".ivy2*/jars"))
    release = pyspark.__version__.rpartition(".")[0]
    names = (
        f"io.delta_delta-spark_{release}_*-4.4.0.jar",
        "io.delta_delta-storage-4.4.0.jar",
        "io.unitycatalog_*.jar",
    )
    return [str(path) for name in names for path in folder.glob(name)]


@contextmanager
def _daemon(folder: Path, said: str, command: list[str], options: str = JAVA) -> Iterator[None]:
    """A process of Spark that is at work once its log says so."""
    log = folder / f"{said.split()[0]}.log"
    variables = HERE | {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_JAVA_OPTS": JAVA,
        "SPARK_SUBMIT_OPTS": options,
    }
    with running(command, log, variables) as process:

        def ended() -> str | None:
            return None if process.poll() is None else log.read_text(errors="replace")[-3000:]

        wait_until(lambda: said in log.read_text(errors="replace"), ended)
        yield


@contextmanager
def standalone_cluster(folder: Path, workers: int = 1) -> Iterator[str]:
    """A master and workers of two cores; the URL of the master."""
    port, shown = free_ports(2)
    run = str(SPARK / "bin" / "spark-class")
    master = [run, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1"]
    master += ["--port", str(port), "--webui-port", str(shown)]
    url = f"spark://127.0.0.1:{port}"
    with contextlib.ExitStack() as stack:
        stack.enter_context(_daemon(folder, "I have been elected leader", master))
        for number in range(workers):
            place = folder / f"worker-{number}"
            place.mkdir()
            worker = [run, "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "2"]
            worker += ["--memory", "2g", "--webui-port", str(free_ports(1)[0])]
            worker += ["--work-dir", str(place / "work"), url]
            stack.enter_context(_daemon(place, "Successfully registered with", worker))
        yield url


@dataclass(frozen=True)
class Server:
    """A server of Spark SQL that keeps a Hive metastore in a folder; `jdbc` and `connect`: its ports."""

    folder: Path
    jdbc: int
    connect: int

    def by_jdbc(self, statements: list[str]) -> str:
        """Return what Spark's own client of JDBC prints."""
        script = self.folder / "statements.sql"
        script.write_text(";\n".join(statements) + ";\n")
        command = [str(SPARK / "bin" / "beeline"), "-u", f"jdbc:hive2://127.0.0.1:{self.jdbc}"]
        command += ["--silent=true", "--outputformat=tsv2", "-f", str(script)]
        ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=HANG_S)
        return ran.stdout

    @contextmanager
    def by_connect(self, first: list[str], then: list[str]) -> Iterator[list[list[str]]]:
        """Run some statements by a pure client before the block, others after it; yield the rows of all."""
        python = _connect_client()
        script = str(Path(__file__).with_name("connect_questions.py"))
        given = map(json.dumps, (first, then))
        rows: list[list[str]] = []
        asked = subprocess.Popen(
            [python, script, f"sc://127.0.0.1:{self.connect}", *given],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with asked, contextlib.ExitStack() as stack:
            stack.callback(asked.kill)
            assert asked.stdout is not None
            assert asked.stdout.readline() == "\n", "the first statements failed"
            yield rows
            printed, _ = asked.communicate("\n", HANG_S)
            assert asked.returncode == 0
            rows += json.loads(printed)

    def changed_by_connect(self, table: Path) -> list[str]:
        """Return what each change of a table is refused with over Connect, and the rows with k of 1."""
        packages = next(Path(_connect_client()).parents[1].glob("lib/python*/site-packages"))
        script = str(Path(__file__).with_name("connect_changes.py"))
        command = [sys.executable, script, f"sc://127.0.0.1:{self.connect}", str(packages), str(table)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANG_S)
        assert ran.returncode == 0, ran.stderr
        told: list[str] = json.loads(ran.stdout.splitlines()[-1])
        return told


def _connect_client() -> str:
    """Return the Python of an environment that has the pure client of Connect."""
    return python_with("connect-client", f"pyspark-client=={pyspark.__version__}", "pandas<3")


def submitted(master: str, folder: Path, statements: list[str]) -> dict[str, Any]:
    """Submit an application that asks some statements, of which only its settings know the index.

    Its executors have no jar of this project. Return what it is told; see `support.release_questions`.
    """
    settings, delta = patient_settings(), delta_jars()
    settings |= {"spark.driver.extraClassPath": ":".join([settings["spark.jars"], *delta])}
    settings |= {"spark.jars": ",".join(delta), "spark.cores.max": "1"}
    settings |= {"spark.executor.memory": "512m", "spark.executor.extraJavaOptions": JAVA}
    settings |= {"spark.sql.warehouse.dir": str(folder / "warehouse")}
    command = [str(SPARK / "bin" / "spark-submit"), "--master", master]
    command += [part for pair in settings.items() for part in ("--conf", "=".join(pair))]
    command += [release_questions.__file__, "{}", json.dumps(statements)]
    told: dict[str, Any] = json.loads(run_patiently(command, folder).splitlines()[-1])
    return told


@contextmanager
def sql_server(master: str, folder: Path) -> Iterator[Server]:
    """A thrift server on a master, which is a Connect server too.

    Delta's jars and that of this project are on the class paths of the driver and of executors too: the
    sessions of its clients, which may be isolated, see no others.
    """
    jdbc, connect = free_ports(2)
    settings = patient_settings()
    jars = [settings["spark.jars"], *delta_jars()]
    settings |= {
        "spark.jars": ",".join(jars),
        "spark.driver.extraClassPath": ":".join(jars),
        "spark.executor.extraClassPath": ":".join(jars),
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": JAVA,
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.port": str(connect),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.sql.catalogImplementation": "hive",
        "spark.cores.max": "1",
    }
    command = [str(SPARK / "bin" / "spark-submit"), "--master", master]
    command += [part for pair in settings.items() for part in ("--conf", "=".join(pair))]
    command += ["--class", "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2", "spark-internal"]
    command += ["--hiveconf", f"hive.server2.thrift.port={jdbc}"]
    command += ["--hiveconf", "hive.server2.thrift.bind.host=127.0.0.1"]
    with _daemon(folder, "ThriftBinaryCLIService on port", command):
        yield Server(folder, jdbc, connect)
