"""The operating system: questions are answered on any, indexes and tables are written on Linux."""

from __future__ import annotations

import signal
import sys

STOPPING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name))
"""Signals that end a run; Windows has no SIGHUP."""


def check_system() -> None:
    """Check that this system may write an index or a table, and accelerate Spark.

    Elsewhere locks, renamed files and processes behave in ways that no test has seen.

    Raises:
        RequirementError: it is not Linux.
    """
    if sys.platform != "linux":
        from tailbit.base.errors import RequirementError  # The command begins with this module.

        raise RequirementError(
            reason=f"indexes and tables are written, and Spark accelerated, on Linux; this is {sys.platform}",
            remedy="Do it in a container or on a machine with Linux (deploy/README.md). Questions work here.",
        )
