"""A stranger who has only the README comes from an empty folder to a count on a table of his own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import deltalake
import numpy as np
import pyarrow as pa
import pytest

from support.pages import README, ROOT, blocks, section, text_of

[LINES] = blocks(section(text_of(README), "Install, and ask your own table"), "sh")
COMMANDS = [line.split("  #")[0].strip() for line in LINES.splitlines()]
PAPERS = ("pyproject.toml", "README.md", "LICENSE", "NOTICE")
OF_THE_PROJECT = ("tailbit", "tables", "index", "checkpoints", "streaming", *PAPERS)
ROWS = 2_000_000
MINUTES = 15
"""A bound for machines that are slow or loaded; two cores that do nothing else take one to three."""

UNREACHED = re.compile(r"Failed to establish a new connection|name resolution|Network is unreachable", re.I)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A fresh checkout: what git holds of the packages, and nothing that a build left."""
    for name in OF_THE_PROJECT:
        there = tmp_path / "checkout" / name
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, there, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, there)
    return tmp_path / "checkout"


def own_table(path: Path) -> int:
    """Write a table of two million sensor readings; return how many are hot ones of two halls."""
    random = np.random.default_rng(seed=7)
    hall, state = random.integers(0, 40, ROWS), random.integers(0, 5, ROWS)
    readings = pa.table(
        {
            "hall": pa.array(np.array([f"hall {number}" for number in range(40)])[hall]),
            "state": pa.array(np.array(["ok", "hot", "cold", "wet", "off"])[state]),
            "value": random.normal(size=ROWS),
        }
    )
    deltalake.write_deltalake(str(path), readings)
    return int(((state == 1) & np.isin(hall, [3, 4])).sum())


def on_his_table(line: str, table: Path, source: str) -> str:
    """Return a line of the README with the table, columns and condition of somebody else."""
    line = line.replace("/data/flights", str(table)).replace("SOURCE=/path/to/tailbit", f"SOURCE={source}")
    line = line.replace("carrier,origin,dest", "hall,state")
    return line.replace(
        "carrier = 'UA' AND dest IN ('SFO', 'LAX')", "state = 'hot' AND hall IN ('hall 3', 'hall 4')"
    )


def clean_environment() -> dict[str, str]:
    """Return an environment that knows of no virtual environment and of the versions tested together."""
    kept = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    python = os.path.dirname(os.path.realpath(sys.executable))
    paths = [path for path in kept["PATH"].split(os.pathsep) if path != os.path.dirname(sys.executable)]
    # Zero stands for yes, in words of pip that begin with "no": what is never imported is not compiled.
    pip = {"PIP_CONSTRAINT": str(ROOT / "constraints.txt"), "PIP_NO_COMPILE": "0"}
    return kept | {"PATH": os.pathsep.join([python, *paths])} | pip


def test_a_stranger_counts_rows_of_his_own_table_in_fewer_than_ten_commands(
    tmp_path: Path, checkout: Path, record_property: Callable[[str, object], None]
) -> None:
    table, empty = tmp_path / "readings", tmp_path / "empty"
    expected = own_table(table)
    empty.mkdir()
    assert len(COMMANDS) < 10
    script = "\n".join(on_his_table(command, table, str(checkout)) for command in COMMANDS)
    begun = time.monotonic()
    done = subprocess.run(
        ["bash", "-ec", script],
        cwd=empty,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=MINUTES * 60,
        check=False,
    )
    record_property("seconds from an empty folder to a count", round(time.monotonic() - begun))
    if done.returncode and UNREACHED.search(done.stderr):
        pytest.skip("no index of packages can be reached")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(expected)


def test_the_line_that_installs_works_with_an_index_of_packages_too(tmp_path: Path, checkout: Path) -> None:
    pip = [sys.executable, "-m", "pip"]
    wheels, empty = tmp_path / "wheels", tmp_path / "empty"
    empty.mkdir()
    build = [*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(wheels), str(checkout)]
    subprocess.run(build, check=True, cwd=empty, capture_output=True)
    [install] = [command for command in COMMANDS if command.startswith("pip install")]
    asked = install.replace("pip install", "python -m pip install --dry-run --no-deps --ignore-installed")
    done = subprocess.run(
        ["bash", "-ec", f"SOURCE=tailbit\n{asked}"],
        cwd=empty,
        env={
            **os.environ,
            "PATH": os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"],
            "PIP_FIND_LINKS": str(wheels),
            "PIP_NO_INDEX": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Would install tailbit-" in done.stdout
