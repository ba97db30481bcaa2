"""A session's own queries of Delta tables use the index: a rule in Spark's optimizer, written in Java."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from tailbit.arguments.values import names, whole
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import RequirementError, UsageError
from tailbit.base.system import check_system
from tailbit.spark.jar import digest, jar_path, misfit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODES = ("files", "counts", "groups", "rows")
"""What may be served; see docs/spark.md."""

GONE = {"positions": 'Give "rows", and "files" for more rows than a plan holds.'}
"""Modes of former releases, with what to give in their place."""

START = 60
"""Seconds in which the helper must have started."""

OLDEST, NEWEST = (4, 0), (4, 2)
"""The oldest and the newest minor release of Spark that is accelerated: Delta has no jar for a newer one."""

_CLASS = "io.tailbit.spark.Acceleration"
_DELTA = "io.delta.sql.DeltaSparkSessionExtension"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:/")
_LOG = logging.getLogger("tailbit.spark")
_entries: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""The Java entry object of the rule in each Java process: one helper serves all sessions there."""


@dataclass(frozen=True)
class AcceleratedScan:
    """What became of one scan of a Delta table: `served` names the mode, or `reason` says why there is none.

    `asked`: the filters that were used, as SQL; `left`: those that were not. `files` and `of`: the files that
    are read or hold `rows`, and those that Delta left or, where it has not listed them, that there are.
    `not_counted`: why a count is not taken from bitmaps; `no_rows`: why rows are not read in advance.
    `rows_ms` and `spark_ms`: the estimates by which `rows` were chosen. `early`: whether the scan was served
    before Delta listed its files. `summary`: all that in a line for people, as EXPLAIN has it. Other fields
    are None or empty where they do not apply.
    """

    table: str | None
    version: int | None
    served: str | None
    reason: str | None
    detail: str | None
    not_counted: str | None
    no_rows: str | None
    asked: tuple[str, ...]
    left: tuple[str, ...]
    files: int | None
    of: int | None
    rows: int | None
    rows_ms: int | None
    spark_ms: int | None
    early: bool
    summary: str | None


class Acceleration:
    """A session whose queries use the index, until `stop`."""

    def __init__(self, spark: SparkSession, entry: Any) -> None:
        self._spark, self._entry = spark, entry

    def stop(self) -> None:
        """Let the session's queries run as without tailbit."""
        self._entry.detach(self._spark._jsparkSession)

    def last(self) -> list[AcceleratedScan]:
        """Return what became of the scans of Delta tables of the last query, in the order of its plan.

        A query without such scans has none; commands that ask for nothing, such as SET, are no queries.
        """
        notes = json.loads(self._entry.last(self._spark._jsparkSession))
        return [_scan(note) for note in notes]

    def served(self, mode: str) -> int:
        """Return how many scans of this Java process a mode has served."""
        return int(self._entry.served(mode))

    def questions(self) -> int:
        """Return how many questions the helper of this Java process has been asked."""
        return int(self._entry.asked())


@dataclass(frozen=True)
class NotAccelerated:
    """The entry object of a session that is not accelerated, with the reason: queries run as usual."""

    reason: str
    detail: str

    def detach(self, session: Any) -> None:
        """Leave the session as it is."""

    def last(self, session: Any) -> str:
        """Return the reason as the note of a scan, whatever was asked."""
        return json.dumps([{"reason": self.reason, "detail": self.detail}])

    def served(self, mode: str) -> int:
        """Return 0: no mode has served a scan."""
        return 0

    def asked(self) -> int:
        """Return 0: there is no helper that could be asked."""
        return 0


class _Unfit(Exception):
    """A session that cannot be accelerated: a reason that does not change between releases, and a detail."""


def _scan(note: dict[str, Any]) -> AcceleratedScan:
    fields: dict[str, Any] = {name: note.get(name) for name in AcceleratedScan.__annotations__}
    texts = {name: (*note.get(name, ()),) for name in ("asked", "left")}
    return AcceleratedScan(**fields | texts | {"early": bool(note.get("early"))})


def accelerated(
    spark: SparkSession, tables: Sequence[str] | None, serve: Sequence[str] | None, budget_ms: int | None
) -> Acceleration:
    """Accelerate a session, as `tailbit.spark.accelerate` says."""
    check_system()
    modes = list(MODES) if serve is None else names("serve", serve)
    if unknown := [mode for mode in modes if mode not in MODES]:
        mode = unknown[0]
        hint = GONE.get(mode, f"The modes are {', '.join(MODES)}.")
        raise UsageError(reason=f"serve: {mode!r} is {'gone' if mode in GONE else 'no mode'}", hint=hint)
    prefixes = [] if tables is None else [_prefix(path) for path in names("tables", tables)]
    budget = "" if budget_ms is None else str(whole("budget_ms", budget_ms))
    if not hasattr(spark, "_jsparkSession"):
        hint = "Start the server with the settings of tailbit.spark.acceleration_conf()."
        raise UsageError(reason="the session has no Java process beside it (Spark Connect)", hint=hint)
    settings = {"serve": ",".join(modes), "tables": ",".join(prefixes), "budgetMs": budget}
    try:
        return Acceleration(spark, _attached(spark, settings))
    except _Unfit as unfit:
        reason, detail = unfit.args
        _LOG.warning("tailbit: %s: %s. Queries run as without tailbit.", reason, detail)
        return Acceleration(spark, NotAccelerated(reason, detail))


def _attached(spark: SparkSession, settings: dict[str, str]) -> Any:
    """Attach the rules to a session; return their Java entry object.

    If the helper does not start, the rules log that, and give it as the reason.
    """
    from py4j.protocol import Py4JError

    if not OLDEST <= tuple(map(int, spark.version.split(".")[:2])) <= NEWEST:
        releases = " to ".join(f"{major}.{minor}" for major, minor in (OLDEST, NEWEST))
        raise _Unfit("other-release", f"the session is of Spark {spark.version}; {releases} are accelerated")
    try:
        entry = _entry_of(spark)
        if entry.sources() != digest():
            raise _Unfit("other-release", "the jar that Spark has loaded is of another release of tailbit")
        for name, value in {**settings, "python": sys.executable, "enabled": "true"}.items():
            spark.conf.set(f"spark.tailbit.{name}", value)
        entry.attachWithNewSessions(spark._jsparkSession)
        entry.ready(START * 1000)
        entry.forget()
    except RequirementError as no_jar:
        raise _Unfit(misfit() or "other-release", f"{no_jar}. {no_jar.hint}") from no_jar
    except Py4JError as missing:
        raise _Unfit("other-release", str(missing).splitlines()[0]) from missing
    return entry


def settings_of_start() -> dict[str, str]:
    """Return the settings of `tailbit.spark.acceleration_conf`."""
    return {
        "spark.jars": str(jar_path()),
        "spark.sql.extensions": f"{_CLASS},{_DELTA}",
        "spark.tailbit.python": sys.executable,
    }


def _prefix(path: str) -> str:
    if "," in path:
        raise UsageError(reason=f"tables: {path!r} holds a comma", hint="Name a folder above it.")
    return path if _SCHEME.match(path) else str(Path(path).absolute())


def _entry_of(spark: SparkSession) -> Any:
    """Return the rule's entry object in the session's Java process: of its class path, or else of the jar."""
    jvm, gateway = spark.sparkContext._jvm, spark.sparkContext._gateway
    assert jvm is not None
    assert gateway is not None
    if gateway in _entries:
        return _entries[gateway]
    parent = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    if parent.getResource(_CLASS.replace(".", "/") + ".class") is None:
        urls = gateway.new_array(jvm.java.net.URL, 1)
        urls[0] = jvm.java.io.File(str(jar_path())).toURI().toURL()
        parent = jvm.java.net.URLClassLoader(urls, parent)
    constructor = parent.loadClass(_CLASS).getConstructor(gateway.new_array(jvm.java.lang.Class, 0))
    _entries[gateway] = constructor.newInstance(gateway.new_array(jvm.java.lang.Object, 0))
    return _entries[gateway]
