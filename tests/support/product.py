"""The product in a folder of its own, as another program finds it, where a test may add to it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from support.suites import ROOT

ROOMS = ("tables", "index", "checkpoints", "streaming")
"""Folders of the checkout that are rooms of the package."""


def product_in(folder: Path) -> Path:
    """Copy the package, without the jar, into a folder; return the package's own folder."""
    package = folder / "tailbit"
    shutil.copytree(ROOT / "tailbit", package, ignore=shutil.ignore_patterns("jar", "__pycache__"))
    for room in ROOMS:
        shutil.copytree(ROOT / room, package / room, ignore=shutil.ignore_patterns("__pycache__"))
    return package


def printed_by(program: str, argument: Path, package: Path) -> str:
    """Run a program with the product of a folder; return what it prints. It must succeed."""
    done = subprocess.run(
        [sys.executable, "-c", program, str(argument)],
        cwd=package.parents[1],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(package.parent), "PATH": ""},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
