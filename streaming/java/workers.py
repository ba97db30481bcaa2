"""The Python that Spark starts for workers and planners."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_LAUNCHER = Path(__file__).with_name("python-of-workers")


def choose_python(one_machine: bool) -> None:
    """Let Spark's Python processes be those of this environment, where nobody has chosen others.

    On one machine they start by way of a launcher that lets them import pyspark as it is installed: each
    takes 0.6 s of CPU time so, and 2 s by the archive that Spark puts first on the path. To be called before
    the JVM starts, which hands its environment on.
    """
    if one_machine and os.access(_LAUNCHER, os.X_OK) and _installed():
        os.environ["TAILBIT_PYTHON"] = sys.executable
        os.environ.setdefault("PYSPARK_PYTHON", str(_LAUNCHER))
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _installed() -> bool:
    """Whether pyspark comes from a folder that is on the path of every process of this interpreter."""
    import pyspark

    return os.path.isfile(pyspark.__file__)
