"""Environments of Python with another Spark than that of the tests, made once below `build/`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_ENVIRONMENTS = Path(__file__).parents[2] / "build"


def python_with(name: str, *requirements: str) -> str:
    """Return the Python of an environment; the test is skipped where it cannot be installed."""
    folder = _ENVIRONMENTS / name
    python = folder / "bin" / "python"
    if not (folder / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", *requirements]
        done = subprocess.run(install, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"{requirements} cannot be installed: {done.stderr[-300:]}")
        (folder / "installed").touch()
    return str(python)
