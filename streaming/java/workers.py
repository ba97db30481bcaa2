"""The Python interpreter that Spark starts for workers and planners."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

CHOSEN = "PYSPARK_PYTHON"
"""The environment variable that names the Python of Spark's processes."""

_LAUNCHER = Path(__file__).with_name("python-of-workers")


def variables_of_workers(one_machine: bool, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return environment variables with which Spark's Python processes use this interpreter.

    Empty if the user has chosen a Python. Java gets the variables and passes them on. On one machine the
    processes start by way of a launcher that imports pyspark from where it is installed: that takes 0.6 s of
    CPU per process, against 2 s from the archive that Spark puts first on the path.
    """
    if environment.get(CHOSEN):
        return {}
    if one_machine and os.access(_LAUNCHER, os.X_OK) and _installed():
        return {"TAILBIT_PYTHON": sys.executable, CHOSEN: str(_LAUNCHER)}
    return {CHOSEN: sys.executable}


def _installed() -> bool:
    """Return whether pyspark comes from a folder that is on the path of every process of this interpreter."""
    import pyspark

    return os.path.isfile(pyspark.__file__)
