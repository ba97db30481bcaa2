"""A master that does not answer is named, and waited for with a line."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from support.waiting import HANG_S
from tailbit.checkpoints.liveness import Liveness
from tailbit.errors import ClusterError, UsageError
from tailbit.streaming.job import run
from tailbit.streaming.watch.cluster import (
    addresses,
    await_master,
    check_master,
    ended_by_cluster,
    why_silent,
)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A socket with a port of its own; nobody answers there before it listens."""
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        yield own


def master_at(listener: socket.socket) -> str:
    return f"spark://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("spark://a,b:7078", [("a", 7077), ("b", 7078)]),
        ("spark://[::1]:7077", [("::1", 7077)]),
        ("k8s://https://a:6443", [("a", 6443)]),
        ("k8s://http://a/path", [("a", 80)]),
        ("local[2]", []),
        ("yarn", []),
    ],
)
def test_the_addresses_of_a_master_are_those_of_its_url(master: str, expected: list[tuple[str, int]]) -> None:
    assert addresses(master) == expected


_TAKEN = """
local local[2] local[*] local[4,3] local-cluster[2,1,1024] yarn k8s://https://a:6443
spark://a:7077 spark://a:7077,b:7078 spark://[::1]:7077
"""
_NOT_TAKEN = """
nonsense local[0] local[two] localhost:7077 http://a:8080 a:7077 k8s:// yarn://a
spark:// spark://a spark://a:7077,b spark://a:port mesos://a:5050 SPARK://a:7077
"""


@pytest.mark.parametrize("master", _TAKEN.split())
def test_a_master_that_spark_takes_is_passed_on(master: str) -> None:
    check_master(master)


@pytest.mark.parametrize("master", ["", *_NOT_TAKEN.split()])
def test_a_master_that_spark_does_not_take_is_refused_before_anything_is_read(master: str) -> None:
    with pytest.raises(UsageError, match="Spark takes no master") as refused:
        run("/nowhere", master=master)
    assert not refused.value.retryable


def test_a_master_that_answers_at_one_of_its_addresses_is_not_silent(listener: socket.socket) -> None:
    silent = why_silent(master_at(listener))
    assert silent is not None
    assert "Connection refused" in silent
    listener.listen()
    assert why_silent(f"spark://127.0.0.1:1,{master_at(listener).removeprefix('spark://')}") is None
    assert why_silent("local[2]") is None


def test_a_master_that_comes_late_is_waited_for_with_a_line_at_once(listener: socket.socket) -> None:
    told: list[str] = []

    def tell(line: str) -> None:
        told.append(line)
        listener.listen()

    await_master(master_at(listener), threading.Event(), Liveness(), tell, HANG_S)
    assert len(told) == 1
    assert master_at(listener) in told[0]
    assert "Connection refused" in told[0]


def test_a_master_that_does_not_come_is_an_error_by_name(listener: socket.socket) -> None:
    with pytest.raises(ClusterError, match=r"does not answer for .*Connection refused") as met:
        await_master(master_at(listener), threading.Event(), Liveness(), lambda line: None, 0.0)
    assert met.value.retryable


def test_a_run_that_is_to_stop_waits_for_no_master(listener: socket.socket) -> None:
    stop = threading.Event()
    stop.set()
    await_master(master_at(listener), stop, Liveness(), pytest.fail, 0.0)


@pytest.mark.parametrize(
    "text",
    [
        "org.apache.spark.SparkException: All masters are unresponsive! Giving up.",
        "Application has been killed. Reason: Master removed our application: KILLED",
        "Job 1 cancelled because SparkContext was shut down",
    ],
)
def test_what_spark_says_when_its_cluster_ends_an_application_is_an_error_by_name(text: str) -> None:
    met = ended_by_cluster(f"{text}\n\tat x", "spark://a:7077")
    assert met is not None
    assert met.retryable
    assert "spark://a:7077" in str(met)
    assert ended_by_cluster(text, "local[2]") is None
    assert ended_by_cluster("division by zero", "spark://a:7077") is None
