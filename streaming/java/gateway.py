"""The JVM that Spark runs in, started so that its stderr passes through a filter.

A person who runs `tailbit run` reads one stream: Spark's errors belong in it; the JVM's notices and the
messages of helper processes at shutdown do not.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tailbit.base.errors import RequirementError

if TYPE_CHECKING:
    from pyspark import SparkContext

_NOISE = ("WARNING: Using incubator modules",)
_ASIDE = re.compile(
    r"\s|WARNING|NOTE|Picked up |[^:]* VM warning: |\[[\d.]+s\]\[(warning|info)|\S+ \S+ WARN "
)
"""Beginnings of lines that do not say why Java fails to start: warnings, and frames of a stack trace."""
_TRACEBACK = "Traceback (most recent call last):"
_DURING = "During handling of the above exception"
_CALLS_BACK = "local_connect_and_auth"
"""Function in which a Python worker connects to the JVM that started the worker. It fails if that JVM has
ended or given up, and then the JVM itself says why."""
_FRAME = re.compile(r'^ +File "([^"]*)", line ', re.MULTILINE)
_SPARKS_OWN = re.compile(r"/pyspark/|<frozen |/python3\.\d+/(?!site-packages/|dist-packages/)")
_IVY = re.compile(
    r"::|\t(?:::|confs: |found |\d+ artifacts |-{5}|\||[\w.-]+#)"
    r"|[\w.-]+#\S+ added as|Ivy Default Cache|The jars for"
)
"""What Ivy says while it resolves the jars of packages; Java itself reports a jar that was not found."""
_LOST = ("BrokenPipeError", "ConnectionResetError", "EOFError")


QUICK_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""Java options for the quick compiler only, with a code cache as large as for both compilers.

Spark plans every batch anew, in code so large that the optimising compiler is busy with it for the first
thousands of batches: see docs/decisions.md.
"""

OPTIONS_OF_JAVA = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
"""Environment variables through which Java gets options, besides Spark's settings."""

_COLLECTED = re.compile(r"-XX:\+Use\w+GC\b")


def small_java() -> str:
    """Return options for a Java process with a small heap: the quick compiler, and the serial collector.

    The heap of the serial collector follows what is alive; that of Java's default collector grows for an hour
    (see docs/decisions.md). If the environment chooses a collector, none is set: Java accepts only one.
    """
    chosen = any(_COLLECTED.search(os.environ.get(name, "")) for name in OPTIONS_OF_JAVA)
    return QUICK_COMPILER if chosen else f"{QUICK_COMPILER} -XX:+UseSerialGC"


_LAST_WORDS_S = 2.0
"""Most seconds to wait for the rest of an ended JVM's stderr; a child of the JVM may hold the pipe longer."""


class JavaErrors:
    """The filter that passes on what the JVM and its children write to stderr, until `hush`.

    The traceback of a Python worker whose JVM was shut down is not passed on.
    """

    def __init__(self) -> None:
        self._read, self.write_end = os.pipe()
        self._hushed = False
        self._first = ""
        self._thread = threading.Thread(target=self._pass_on, name="tailbit-java-stderr", daemon=True)
        self._thread.start()

    def hush(self) -> None:
        """Stop passing on stderr: Spark is being shut down, and its output from now on is expected."""
        self._hushed = True

    def why(self) -> str:
        """Return why Java did not start: its first line on stderr that is no warning."""
        self._thread.join(_LAST_WORDS_S)
        return self._first or "it says nothing"

    def _pass_on(self) -> None:
        with os.fdopen(self._read, encoding="utf-8", errors="replace") as lines:
            for text in without_noise(self._remembered(paragraphs(lines))):
                if not self._hushed:
                    sys.stderr.write(text)
                    sys.stderr.flush()

    def _remembered(self, pieces: Iterable[str]) -> Iterator[str]:
        for text in pieces:
            if not self._first and not _ASIDE.match(text):
                self._first = text.strip().partition("\n")[0]
            yield text


def paragraphs(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines one by one, but a Python traceback, with its last line, as one piece."""
    piece = ""
    for line in lines:
        piece += line
        inside = piece.startswith(_TRACEBACK) and (line.startswith((_TRACEBACK, " ")) or not line.strip())
        if not inside:
            yield piece
            piece = ""
    if piece:
        yield piece


def without_noise(pieces: Iterable[str]) -> Iterator[str]:
    """Yield the pieces of Java's error output that a person needs.

    The line that joins a dropped traceback to the traceback of its cause is dropped too.
    """
    left_out = False
    for text in pieces:
        left_out = is_noise(text) or (left_out and _goes_on(text))
        if not left_out:
            yield text


def _goes_on(text: str) -> bool:
    """Return whether a piece belongs to an earlier traceback, as lines of two workers may alternate."""
    frame = _FRAME.match(text)
    if frame is not None:
        return _SPARKS_OWN.search(frame[1]) is not None
    return not text.strip() or text.startswith((_DURING, "    ", *_LOST))


def is_noise(text: str) -> bool:
    """Return whether a piece says nothing that a person needs to know."""
    if not text.startswith(_TRACEBACK):
        return text.startswith(_NOISE) or _IVY.match(text) is not None
    return _CALLS_BACK in text or _lost_its_java(text)


def _lost_its_java(traceback: str) -> bool:
    """Return whether a Python worker lost its JVM, with only Spark's code on its stack."""
    frames = _FRAME.findall(traceback)
    error = traceback.rstrip().rpartition("\n")[2]
    return error.startswith(_LOST) and bool(frames) and all(map(_SPARKS_OWN.search, frames))


class _Spawned(dict[str, Any]):
    """The arguments of `Popen` without `preexec_fn`, by which Spark makes the child ignore SIGINT.

    With `preexec_fn` a fork of this process must run Python, and may wait for ever for a lock that another
    thread held at the fork. In a session of its own the child gets no SIGINT of the terminal either.
    `variables` are added to the environment that Spark makes for the child.
    """

    def __init__(self, variables: Mapping[str, str], **arguments: Any) -> None:
        super().__init__(**arguments)
        self._variables = variables

    def __setitem__(self, name: str, value: Any) -> None:
        if name == "env":
            value = {**value, **self._variables}
        if name != "preexec_fn":
            super().__setitem__(name, value)


def launch_java(settings: Mapping[str, str], variables: Mapping[str, str]) -> tuple[Any, JavaErrors]:
    """Start a JVM with these Spark settings; return the gateway for a SparkContext, and the JVM's errors.

    `variables`: added to the JVM's environment; this process's own environment is unchanged.
    """
    from pyspark import SparkConf
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway

    # Spark's launcher, which makes up the command line, is a short-lived Java process too.
    launcher = {"SPARK_LAUNCHER_OPTS": os.environ.get("SPARK_LAUNCHER_OPTS") or small_java()}
    errors, gateway = JavaErrors(), None
    try:
        # In a session of its own the JVM gets no signal that is sent to our process group. The JVM ends when
        # this process ends, since then the JVM's stdin ends.
        own = _Spawned(launcher | dict(variables), stderr=errors.write_end, start_new_session=True)
        with suppress(PySparkException):
            gateway = launch_gateway(SparkConf().setAll(list(settings.items())), own)
    finally:
        os.close(errors.write_end)
    if gateway is None:
        raise RequirementError(
            reason=f"Java does not start: {errors.why()}",
            remedy="Try `java -version`, and the Spark settings.",
            retryable=True,
        )
    return gateway, errors


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
