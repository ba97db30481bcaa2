"""What an indexer needs of Java and Spark, and a session that is quick to start, with low latency per batch.

pyspark is imported inside functions, so that a missing one is a named error and not a traceback.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import RequirementError
from tailbit.base.system import check_system
from tailbit.streaming.java.gateway import (
    QUICK_COMPILER,
    JavaErrors,
    hush_accumulators,
    hush_python,
    launch_java,
    small_java,
)

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

JAVA_VERSION = 17

_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Environment variable that spark-submit sets when it has started the JVM, with a master of its own."""

_EVERYWHERE = {
    # Saves two local TCP hops a task, about 40 ms each.
    "spark.python.unix.domain.socket.enabled": "true",
    # Spark matches a regular expression over a Python traceback; the default stack overflows in it.
    "spark.driver.extraJavaOptions": "-Xss8m",
    "spark.sql.streaming.stopTimeout": "60000",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.sql.ui.retainedExecutions": "50",
    "spark.sql.session.timeZone": "UTC",
}

_SMALL = {
    # A collection of the whole heap takes 50 ms; until the next, garbage touches 1 MB of new pages a minute.
    "spark.cleaner.periodicGC.interval": "5min"
}

_ONE_MACHINE = {
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # Without checksums, and without forked processes that resolve links: 70 ms less a batch. Only the
    # checkpoint is written this way, a cache of progress: the index's own ledger decides.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}

_LOGGING = """
status = error
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.console.type = Console
appender.console.name = stderr
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd HH:mm:ss} %p %c{1}: %m%n
# Where this logger's level is another than the root's, Spark sets the root to it and says so.
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = error
# What ends a query is told once, by name, by the process that started it.
logger.query.name = org.apache.spark.sql.execution.streaming
logger.query.level = off
# So is a task that failed, and with it the job.
logger.task.name = org.apache.spark.executor.Executor
logger.task.level = off
logger.job.name = org.apache.spark.scheduler.TaskSetManager
logger.job.level = off
"""
"""Spark's own log: errors only, on stderr; read once, when the JVM starts."""


def session_settings(
    master: str, ui: bool = True, extra: Mapping[str, str] | None = None, short: bool = False
) -> dict[str, str]:
    """Return Spark's settings for a master; `extra` overrides. `short`: for a run that ends by itself."""
    ours, given = dict(_EVERYWHERE), dict(extra or {})
    small = short or (on_one_machine(master) and "spark.driver.memory" not in given)
    ours["spark.driver.extraJavaOptions"] += f" {small_java() if small else QUICK_COMPILER}"
    if on_one_machine(master):
        ours |= _ONE_MACHINE
    if small:
        ours |= _SMALL
    ours["spark.ui.enabled"] = str(ui).lower()
    return ours | given


def on_one_machine(master: str) -> bool:
    """Return whether all of Spark is one process and its workers."""
    return master.startswith("local") and not master.startswith("local-cluster")


def delta_settings() -> dict[str, str]:
    """Return the settings with which Spark writes Delta tables; Spark fetches the jars of delta-spark once.

    Raises:
        RequirementError: delta-spark or pyspark is not installed.
    """
    try:
        from delta.pip_utils import configure_spark_with_delta_pip
        from pyspark.sql import SparkSession
    except ImportError:
        raise RequirementError(
            reason="delta-spark is not installed", remedy="Install it: pip install 'tailbit[spark]'."
        ) from None
    packages = configure_spark_with_delta_pip(SparkSession.Builder())._options["spark.jars.packages"]
    return {
        "spark.jars.packages": packages,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }


@dataclass(frozen=True, slots=True)
class Session:
    """A Spark session that this process created; `errors` filters stderr of a JVM started for the session."""

    spark: SparkSession
    errors: JavaErrors | None = None

    def __enter__(self) -> SparkSession:
        return self.spark

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Stop Spark; after an error Spark ends with the process. Its child processes end silently."""
        if self.errors is not None:
            self.errors.hush()
        if kind is None:
            self.spark.stop()


def is_submitted() -> bool:
    """Return whether spark-submit has started the JVM, with a master of its own."""
    return _SUBMITTED in os.environ


def master_told(master: str) -> str:
    """Return how a message names the master, which under spark-submit is not `master`."""
    return "the master of spark-submit" if is_submitted() else f"master {master}"


def build_session(
    app_name: str,
    master: str = "local[2]",
    ui: bool = True,
    extra: Mapping[str, str] | None = None,
    short: bool = False,
) -> Session:
    """Return a Spark session in a JVM of its own.

    Under spark-submit the session is in spark-submit's JVM, with its master and not `master`. `short`: for a
    run that ends by itself.
    """
    check_java()
    try:
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
    except ImportError:
        raise RequirementError(
            reason="pyspark is not installed", remedy="Install it: pip install 'tailbit[spark]'."
        ) from None
    named = {"spark.app.name": app_name}
    if is_submitted() or SparkContext._gateway is not None:
        settings = session_settings(_master_of_java(master), ui, extra, short) | named
        _join_context(settings)
        return Session(SparkSession.builder.config(map=settings).getOrCreate())
    settings = session_settings(master, ui, extra, short) | named | {"spark.master": master}
    variables = _variables(master, settings.get("spark.driver.host"))
    with tempfile.NamedTemporaryFile("w", suffix=".properties") as logging:
        logging.write(_LOGGING)
        logging.flush()
        settings["spark.driver.extraJavaOptions"] += f" -Dlog4j2.configurationFile=file:{logging.name}"
        hush_python()
        gateway, errors = launch_java(settings, variables)
    _make_context(settings, gateway, variables)
    return Session(SparkSession.builder.getOrCreate(), errors)


def _master_of_java(master: str) -> str:
    """Return the master that spark-submit gave to an existing JVM; `master` if it gave none."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    chosen: str = SparkConf(_jvm=SparkContext._jvm).get("spark.master", master)
    return chosen


def _make_context(settings: dict[str, str], gateway: Any, variables: dict[str, str]) -> None:
    """Create the Spark context of a JVM that was just started."""
    from pyspark import SparkConf, SparkContext

    conf = SparkConf(_jvm=gateway.jvm).setAll(list(settings.items()))
    context = _in_another_thread(lambda: SparkContext(conf=conf, gateway=gateway))
    # PySpark would take the interpreter from the environment of this process, which stays as it is.
    context.pythonExec = variables.get(CHOSEN, context.pythonExec)
    hush_accumulators(context)


def _join_context(settings: dict[str, str]) -> None:
    """Create a Spark context in an existing JVM, unless the JVM has one."""
    from pyspark import SparkConf, SparkContext

    is_there = SparkContext._active_spark_context is not None
    conf = SparkConf().setAll(list(settings.items()))
    context = _in_another_thread(lambda: SparkContext.getOrCreate(conf))
    if not is_there:
        # The existing JVM may lack the variable that the launcher needs; the interpreter itself needs none.
        context.pythonExec = os.environ.get(CHOSEN) or sys.executable


def _variables(master: str, host: str | None) -> dict[str, str]:
    """Return the environment variables that only Java gets: for its workers, and for its own address."""
    variables = variables_of_workers(on_one_machine(master))
    if host:
        variables["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP") or host
    return variables


def _in_another_thread(make: Callable[[], SparkContext]) -> SparkContext:
    """Create a Spark context in a short-lived thread.

    In the main thread the context would take over SIGINT: it then cancels all jobs and raises
    KeyboardInterrupt.
    """
    with ThreadPoolExecutor(1, "tailbit-spark") as thread:
        return thread.submit(make).result()


def check_java() -> None:
    """Check that Java 17 or newer is installed."""
    version = java_version()
    remedy = f"Install Java {JAVA_VERSION} (Debian: apt install openjdk-17-jre-headless) and set JAVA_HOME."
    if version is None:
        raise RequirementError(
            reason="Java is not installed; the indexer needs it, queries do not", remedy=remedy
        )
    if version < JAVA_VERSION:
        raise RequirementError(reason=f"Java {version} is too old; Spark needs {JAVA_VERSION}", remedy=remedy)


def java_binary() -> Path | None:
    """Return the Java binary that Spark would start, with links resolved; None if there is none."""
    home = os.environ.get("JAVA_HOME")
    binary = os.path.join(home, "bin", "java") if home else shutil.which("java")
    return Path(os.path.realpath(binary)) if binary and os.path.exists(binary) else None


def java_version() -> int | None:
    """Return the major version of the Java that Spark would start; None if there is none or it is unknown.

    Read from Java's release file, without starting Java; a Java without such a file is started and asked.
    """
    binary = java_binary()
    if binary is None:
        return None
    release = binary.parent.parent / "release"
    text = release.read_text(encoding="utf-8", errors="replace") if release.is_file() else _ask_java(binary)
    match = re.search(r'(?:JAVA_VERSION="|version ")(\d+)(?:\.(\d+))?', text)
    if not match:
        return None
    return int(match[2]) if match[1] == "1" and match[2] else int(match[1])


def _ask_java(binary: Path) -> str:
    done = subprocess.run([binary, "-version"], capture_output=True, text=True, check=False)
    return done.stderr + done.stdout


OLDEST_SPARK = (4, 2)
"""The first Spark whose Python streaming sources can limit how much a batch reads."""

TOO_NEW_SPARK = (4, 3)
"""The first Spark for which there is no release of Delta Lake."""

PROVEN: Mapping[str, tuple[str, ...]] = {
    "Spark": ("4.2.0",),
    "Java": ("17", "21", "25"),
    "Python": ("3.10", "3.11", "3.12", "3.13", "3.14"),
}
"""Releases with which tests index tables and accelerate queries; docs/compatibility.md names the tests."""

TOO_NEW_PANDAS = (3, 0)
"""The first pandas whose types Spark's Python workers do not support."""

_REMEDY = "Install what fits: pip install 'tailbit[spark]'. Questions need none of it."


def releases_found() -> str:
    """Return which Spark, Java and Python there are, and which of them no test has proven."""
    python = ".".join(map(str, sys.version_info[:2]))
    releases = {"Spark": installed("pyspark"), "Java": java_version(), "Python": python}
    text = ", ".join(f"{name} {version}" for name, version in releases.items())
    unproven = [name for name, version in releases.items() if str(version) not in PROVEN[name]]
    if not unproven:
        return f"found {text}, which are proven"
    proven = "; ".join(f"{name} {', '.join(PROVEN[name])}" for name in unproven)
    return f"found {text}; not proven: {' and '.join(unproven)} (proven: {proven})"


def check_requirements() -> None:
    """Check the system, and that Java, pyspark and pandas are installed, each in a supported release.

    Cost: reads the packages' names on disk. Starts Java only if Java has no release file, and imports a
    package only if the package has no metadata.

    Raises:
        RequirementError: one of them is missing or of another release; the error names what was found and
            what is needed.
    """
    check_system()
    check_java()
    spark = installed("pyspark")
    if spark is None:
        raise RequirementError(reason="pyspark is not installed", remedy=_REMEDY)
    if release(spark) < OLDEST_SPARK:
        reason = f"pyspark {spark} is installed; indexing needs {_shown(OLDEST_SPARK)} or newer"
        raise RequirementError(reason=reason, remedy=_REMEDY)
    if release(spark) >= TOO_NEW_SPARK:
        reason = f"pyspark {spark} is installed; there is no Delta Lake for Spark {_shown(TOO_NEW_SPARK)} yet"
        raise RequirementError(reason=reason, remedy=_REMEDY)
    pandas = installed("pandas")
    if pandas is None:
        raise RequirementError(reason="pandas is not installed; Spark's workers need it", remedy=_REMEDY)
    if release(pandas) >= TOO_NEW_PANDAS:
        reason = f"pandas {pandas} is installed; Spark's workers need one below {_shown(TOO_NEW_PANDAS)}"
        raise RequirementError(reason=reason, remedy=_REMEDY)


def installed(package: str) -> str | None:
    """Return the version of an installed package; None if it cannot be imported."""
    if find_spec(package) is None:
        return None
    try:
        return version(package)
    except PackageNotFoundError:
        # A package in a folder on the path, as under spark-submit, has no metadata: it knows its own version.
        return str(__import__(package).__version__)


def release(text: str) -> tuple[int, int]:
    """Return the major and minor number of a version."""
    numbers = re.match(r"(\d+)(?:\.(\d+))?", text)
    return (int(numbers[1]), int(numbers[2] or 0)) if numbers else (0, 0)


def _shown(release: tuple[int, int]) -> str:
    return ".".join(map(str, release))


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
