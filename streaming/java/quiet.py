"""Noise of Spark's own Python code, in logs and threads, is dropped: the caller names the cause.

py4j logs a traceback for each call that finds Java gone. If nobody has set up logging, the traceback would be
printed before the one line that matters.
"""

from __future__ import annotations

import logging
import re
import threading
import traceback
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext

_SPARKS = re.compile(r"[/\\](?:pyspark|py4j)[/\\]")
_THREADS_OWN = re.compile(r"[/\\](?:threading|socketserver|concurrent[/\\]futures[/\\]thread)\.py$")


def hush_python() -> None:
    """Drop from now on what Spark's own code logs and raises in its threads; keep everything else.

    If a program has set up logging, its log is unchanged.
    """
    root = logging.getLogger()
    if not root.handlers:
        handler = logging.StreamHandler()
        handler.setLevel(logging.WARNING)
        handler.addFilter(lambda record: not _SPARKS.search(record.pathname))
        root.addHandler(handler)
    before = threading.excepthook

    def told(args: threading.ExceptHookArgs) -> None:
        frames = traceback.extract_tb(args.exc_traceback)
        if not is_sparks_own(frame.filename for frame in frames):
            before(args)

    threading.excepthook = told


def hush_accumulators(context: SparkContext) -> None:
    """Silence the server of Spark's accumulators when Java is gone; this program has no accumulators."""
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda request, client: None


def is_sparks_own(files: Iterable[str]) -> bool:
    """Return whether all files on a thread's stack are Spark's, apart from the standard start of a thread."""
    own = [file for file in files if not _THREADS_OWN.search(file)]
    return bool(own) and all(map(_SPARKS.search, own))
