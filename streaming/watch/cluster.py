"""What a run waits for in a Spark cluster: a master that answers, an executor that has registered."""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from tailbit.base.errors import ClusterError, UsageError
from tailbit.base.wording import Tell
from tailbit.checkpoints.liveness import Liveness
from tailbit.checkpoints.signs import length
from tailbit.streaming.java.session import on_one_machine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONNECT_S = 5.0
_PAUSE_S = 1.0
_HOST = re.compile(r"(?:\[([0-9a-fA-F:]+)\]|([^,:/\[\]]+))(?::(\d+))?$")

_MASTER = re.compile(
    r"local(\[(0*[1-9]\d*|\*)(\s*,\s*\d+)?\])?|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]"
    r"|yarn|k8s://.+|spark://"
)
"""What Spark takes for a master; the hosts and ports after `spark://` are looked at one by one."""

_ENDED = re.compile(
    r"All masters are unresponsive[^\n]*|Application has been killed[^\n]*"
    r"|Master removed our application[^\n]*|Could not parse Master URL[^\n]*"
    r"|Cannot call methods on a stopped SparkContext|SparkContext was shut ?down"
)


def check_master(master: str) -> None:
    """Check that a text is the URL of a Spark master; Java would answer with a stack trace."""
    hosts = master.removeprefix("spark://").split(",") if master.startswith("spark://") else []
    ported = [match for match in map(_HOST.match, hosts) if match is not None and match[3]]
    if len(ported) < len(hosts) or not _MASTER.fullmatch("spark://" if hosts else master):
        raise UsageError(
            reason=f"Spark takes no master {master!r}",
            hint="Write local[2], spark://HOST:PORT, yarn or k8s://https://HOST:PORT.",
        )


def addresses(master: str) -> list[tuple[str, int]]:
    """Return hosts and ports of a master's URL; none if the URL names none, as `yarn` and `local[2]`.

    >>> addresses("spark://a:7077,b:7078"), addresses("k8s://https://host"), addresses("yarn")
    ([('a', 7077), ('b', 7078)], [('host', 443)], [])
    """
    scheme, _, rest = master.partition("://")
    if scheme not in ("spark", "k8s"):
        return []
    port = 7077 if scheme == "spark" else 80 if rest.startswith("http://") else 443
    listed = []
    for address in re.sub(r"^https?://", "", rest).split("/")[0].split(","):
        host = _HOST.match(address.strip())
        if host is not None:
            listed.append((host[1] or host[2], int(host[3] or port)))
    return listed


def why_silent(master: str) -> str | None:
    """Return why no address of a master accepts a connection; None if one does, or if the URL names none."""
    reasons = []
    for host, port in addresses(master):
        try:
            socket.create_connection((host, port), _CONNECT_S).close()
        except OSError as refused:
            reasons.append(f"{host}:{port}: {refused.strerror or refused}")
        else:
            return None
    return "; ".join(reasons) or None


def await_master(master: str, stop: threading.Event, life: Liveness, tell: Tell, limit_s: float) -> None:
    """Wait until a master accepts a connection or `stop` is set; `tell` receives one line about the wait.

    The watchdog repeats that line at growing intervals.
    """
    began, is_told = time.monotonic(), False
    while not stop.is_set() and (why := why_silent(master)) is not None:
        waited = time.monotonic() - began
        if waited >= limit_s:
            raise ClusterError(
                master=master, reason=f"the master does not answer for {length(waited)}: {why}"
            )
        if not is_told:
            is_told = True
            tell(f"the master at {master} does not answer ({why}); waiting for it, up to {length(limit_s)}")
        life.pause(stop, _PAUSE_S, f"waiting for the master at {master} to answer: {why}")


def ended_by_cluster(text: str, master: str) -> ClusterError | None:
    """Return a ClusterError if Spark's message, with all causes, says that the cluster ended the query."""
    match = None if on_one_machine(master) else _ENDED.search(text)
    return None if match is None else ClusterError(master=master, reason=match[0].rstrip("."))


def executors(spark: SparkSession) -> int:
    """Return the number of registered executors, without the driver."""
    return max(0, len(spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) - 1)


def waiting_for_executors(spark: SparkSession, master: str) -> str:
    """Return the line for people about a job that waits because no executor is registered."""
    needed = "1"
    with suppress(KeyError, ValueError):
        needed = str(
            int(os.environ.get("SPARK_EXECUTOR_INSTANCES") or _conf(spark, "spark.executor.instances"))
        )
    memory = _conf(spark, "spark.executor.memory") or "1g"
    silent = why_silent(master)
    return (
        f"waiting for executors: none has registered with {master}, at least {needed} is needed"
        f" (1 core and {memory} of memory on a worker that is alive)"
        + (f"; nor does the master answer: {silent}" if silent else "")
    )


def _conf(spark: SparkSession, name: str) -> str:
    return spark.sparkContext.getConf().get(name) or ""
