"""Executors of a cluster answer right while all else moves, and what they cannot do has a name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import cluster_questions
from support.executor_questions import history
from support.spark_deployments import standalone_cluster
from support.waiting import HANG_S

pytestmark = pytest.mark.spark

WITHOUT = """
import sys

class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "tailbit":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Without())
"""
"""What the site of a Python that lacks tailbit does."""


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster"), workers=2) as url:
        yield url


@pytest.fixture
def table(tmp_path: Path) -> str:
    return history(str(tmp_path / "t"))


def asked(master: str, mode: str, table: str, folder: Path, python: str = sys.executable) -> dict[str, Any]:
    """What an application on the cluster tells; `python`: that of its executors."""
    command = [sys.executable, cluster_questions.__file__, master, mode, table]
    environment = os.environ | {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": sys.executable}
    ran = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=5 * HANG_S
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    answer: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return answer


def test_answers_are_those_of_one_process_while_a_writer_commits_merges_run_and_executors_die(
    master: str, table: str, tmp_path: Path
) -> None:
    told = asked(master, "judged", table, tmp_path)
    assert (told["differences"], told["failed"]) == ([], [])
    assert told["kills"] >= cluster_questions.KILLS
    assert all(told[name] for name in ("indexed", "merges", "vacuums"))
    assert told["answers"] >= 5 * cluster_questions.ROUNDS


def test_executors_without_tailbit_are_named(master: str, table: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WITHOUT)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path}:$PYTHONPATH exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    told = asked(master, "error", table, tmp_path, str(python))
    assert (told["error"], told["text"]) == ("RequirementError", "executors have no tailbit")
    assert "Install tailbit" in told["hint"]


def test_a_table_that_executors_do_not_find_at_its_path_is_named(
    master: str, table: str, tmp_path: Path
) -> None:
    told = asked(master, "error", "/proc/self/cwd/t", tmp_path)
    assert told["error"] == "UnusableStorageError"
    assert "/proc/self/cwd/t: the executor on" in told["text"]
    assert "mount" in told["hint"]


def test_a_question_for_which_no_executor_can_be_had_ends_by_name(
    master: str, table: str, tmp_path: Path
) -> None:
    told = asked(master, "alone", table, tmp_path)
    assert (told["error"], "no executor has registered for 5 s" in told["text"]) == ("ClusterError", True)
