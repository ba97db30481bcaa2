"""What a machine has of that which an indexer needs: the findings of `tailbit doctor` without a table."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum
from pathlib import Path

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import RequirementError, TailbitError
from tailbit.streaming.java.session import (
    check_java,
    check_requirements,
    installed,
    java_binary,
    java_version,
    release,
    releases_found,
)
from tailbit.streaming.settings import own_state


class State(str, Enum):
    """Whether a finding keeps an indexer from its work."""

    OK = "ok"
    WARNING = "warning"
    """An indexer works, perhaps slowly, or a person should look at it."""
    PROBLEM = "problem"
    """An indexer, or questions, fail."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one thing, what is needed, and what to do; both empty if all is well."""

    check: str
    state: State
    found: str
    needed: str = ""
    remedy: str = ""

    @classmethod
    def of(cls, check: str, error: TailbitError, needed: str = "") -> Finding:
        """Return a named error as a finding."""
        return cls(check, State.PROBLEM, str(error), needed, error.hint)


def judged(
    check: str, found: str, unless: bool, needed: str, remedy: str, state: State = State.PROBLEM
) -> Finding:
    """Return a finding: OK if `unless` is True, else in `state`, with what is needed and the remedy."""
    return Finding(check, State.OK, found) if unless else Finding(check, state, found, needed, remedy)


MEMORY = 2 << 30
"""Bytes that Java and a batch take together."""
FREE = 1 << 30
"""Bytes that temporary files may take."""
FILES = 1024
"""Files that Java, its workers and the index may have open at once."""
_PAGES = 4040
"""The port of Spark's pages."""


def machine() -> Iterator[Finding]:
    """Yield a finding for each thing that this machine must have, whatever the table is."""
    checks = (
        *(_python, _packages, _java, _spark, _other_spark, _interpreter, _memory, _cores, _open_files),
        *(_temporary_files, _state, _loopback, _port, _text),
    )
    for check in checks:
        yield check()


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    text = f"Python {version}, {sys.executable}"
    return judged(
        "python", text, sys.version_info >= (3, 10), "Python 3.10 or newer", "Install a newer Python."
    )


def _packages() -> Finding:
    try:
        required = importlib.metadata.requires("tailbit") or []
    except importlib.metadata.PackageNotFoundError:
        remedy = "Install it: pip install 'tailbit[spark]'."
        return Finding("packages", State.WARNING, "tailbit is not installed, only on the path", "", remedy)
    wrong: list[str] = []
    right: list[str] = []
    for line in required:
        match = re.match(r"([\w.-]+)([^;]*)(?:;(.*))?", line)
        if match is None or "extra ==" in (match[3] or "") or not _is_meant(match[3] or ""):
            continue
        name, bounds = match[1], match[2].strip()
        version = installed(name)
        fits = version is not None and all(_fits(version, bound) for bound in bounds.split(","))
        (right if fits else wrong).append(f"{name} {version or 'is missing'}")
        if not fits:
            wrong[-1] += f" ({bounds})"
    return judged(
        "packages",
        ", ".join(wrong or right),
        not wrong,
        "the packages that tailbit names, in releases that fit",
        "pip install --upgrade tailbit",
    )


def _is_meant(marker: str) -> bool:
    """Return whether this Python meets the `python_version` bound of a marker; True without such a bound."""
    bound = re.search(r"python_version\s*([<>=]+)\s*['\"]([\d.]+)['\"]", marker)
    return bound is None or _fits(".".join(map(str, sys.version_info[:2])), bound[1] + bound[2])


def _fits(version: str, bound: str) -> bool:
    """Return whether a version is within a bound such as `>=1.2`; an unknown form of bound is met."""
    match = re.fullmatch(r"\s*(>=|<=|==|<|>)\s*([\d.]+)\s*", bound)
    if match is None:
        return True
    release, limit = (tuple(map(int, re.findall(r"\d+", text)[:3])) for text in (version, match[2]))
    length = max(len(release), len(limit))
    release, limit = (numbers + (0,) * (length - len(numbers)) for numbers in (release, limit))
    return {
        ">=": release >= limit,
        "<=": release <= limit,
        "==": release == limit,
        "<": release < limit,
        ">": release > limit,
    }[match[1]]


def _java() -> Finding:
    try:
        check_java()
    except RequirementError as missing:
        return Finding.of("java", missing, "Java 17 or newer")
    return Finding("java", State.OK, f"Java {java_version()}, {java_binary()}")


def _spark() -> Finding:
    needed = "what pip install 'tailbit[spark]' brings"
    if not java_version():
        return Finding("spark", State.WARNING, "not looked at, as Java is missing")
    try:
        check_requirements()
    except RequirementError as missing:
        return Finding.of("spark", missing, needed)
    return Finding("spark", State.OK, f"{releases_found()}; pandas {installed('pandas')}")


def _other_spark() -> Finding:
    """Compare the Spark of SPARK_HOME, which pyspark starts, with pyspark."""
    home, ours = os.environ.get("SPARK_HOME"), installed("pyspark")
    if not home:
        return Finding("SPARK_HOME", State.OK, "not set: Spark comes with pyspark")
    remedy = "unset SPARK_HOME, or let it name a Spark of the release of pyspark."
    cores = sorted(Path(home, "jars").glob("spark-core_*.jar"))
    version = re.search(r"spark-core_[\d.]+-(\d+(?:\.\d+)*)", cores[0].name) if cores else None
    if version is None:
        return Finding("SPARK_HOME", State.PROBLEM, f"{home} holds no Spark", "a Spark, or nothing", remedy)
    text = f"Spark {version[1]} at {home}, and pyspark {ours}"
    same = ours is None or release(version[1]) == release(ours)
    return judged("SPARK_HOME", text, same, "the same release of both", remedy)


def _interpreter() -> Finding:
    """Check the interpreter that Spark's workers are told to use."""
    given = os.environ.get("PYSPARK_PYTHON")
    if not given:
        return Finding("PYSPARK_PYTHON", State.OK, "not set: workers run this Python")
    path = shutil.which(given)
    return judged(
        "PYSPARK_PYTHON",
        given if path else f"{given} is no program",
        path is not None,
        "a Python that has tailbit",
        "unset PYSPARK_PYTHON, or name the Python of this environment.",
    )


def _memory() -> Finding:
    bytes_ = available_memory()
    if bytes_ is None:
        return Finding("memory", State.OK, "not known on this system")
    return judged(
        "memory",
        f"{bytes_ / (1 << 30):.1f} GiB available",
        bytes_ >= MEMORY,
        f"{MEMORY >> 30} GiB: half for Java, half for a batch",
        "Give the machine or container more, or stop what takes it.",
        State.WARNING,
    )


def available_memory(system: Path = Path("/")) -> int | None:
    """Return the bytes of memory that are free for this process, by the system and its control group."""
    limits = []
    with suppress(OSError, ValueError):
        text = (system / "proc/meminfo").read_text(encoding="ascii")
        available = re.search(r"MemAvailable:\s*(\d+) kB", text)
        limits += [int(available[1]) << 10] if available else []
    with suppress(OSError, ValueError):
        group = system / "sys/fs/cgroup"
        limit, used = ((group / f"memory.{name}").read_text(encoding="ascii") for name in ("max", "current"))
        limits += [] if limit.strip() == "max" else [int(limit) - int(used)]
    return min(limits, default=None)


def _cores() -> Finding:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    needed = "two, one for Java and one for a worker"
    return judged("cores", str(cores), cores > 1, needed, "Batches take longer on one.", State.WARNING)


def _open_files() -> Finding:
    try:
        import resource
    except ImportError:
        return Finding("open files", State.OK, "not limited on this system")
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    higher = FILES if most == resource.RLIM_INFINITY else max(FILES, most)
    remedy = f"ulimit -n {higher}, or LimitNOFILE= in a unit of systemd."
    enough = limit == resource.RLIM_INFINITY or limit >= FILES
    return judged("open files", f"at most {limit}", enough, str(FILES), remedy, State.WARNING)


def _temporary_files() -> Finding:
    """Check the folder of temporary files: that it can be written to, has space, and may hold programs."""
    needed = f"a folder to write to, {FREE >> 30} GiB free, not mounted noexec: Java loads libraries from it"
    try:
        with tempfile.TemporaryFile() as file:
            file.write(b"\0")
        folder = tempfile.gettempdir()
    except OSError as refused:
        remedy = "Set TMPDIR to a folder that this user may write to."
        return Finding("temporary files", State.PROBLEM, str(refused.strerror or refused), needed, remedy)
    free = shutil.disk_usage(folder).free
    text = f"{folder}, {free / (1 << 30):.1f} GiB free"
    if hasattr(os, "statvfs") and os.statvfs(folder).f_flag & getattr(os, "ST_NOEXEC", 0):
        remedy = "Set TMPDIR, and JAVA_TOOL_OPTIONS=-Djava.io.tmpdir=, to a folder of another mount."
        return Finding("temporary files", State.PROBLEM, f"{folder} is mounted noexec", needed, remedy)
    return judged("temporary files", text, free >= FREE, needed, "Make space there, or set TMPDIR.")


def _state() -> Finding:
    """Check the folder of this user, where progress over object stores and Java's archive lie."""
    folder = own_state()
    nearest = next(parent for parent in (folder, *folder.parents) if os.path.exists(parent))
    usable = nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
    return judged(
        "state of this user",
        str(folder) if usable else f"{nearest} cannot be written to",
        usable,
        "a folder for rebuildable files",
        "Set XDG_CACHE_HOME or STATE_DIRECTORY to a folder that this user may write to.",
        State.WARNING,
    )


def _loopback() -> Finding:
    """Check that Python and Java can talk to each other on this machine."""
    try:
        with socket.create_server(("127.0.0.1", 0)):
            return Finding("loopback", State.OK, "127.0.0.1")
    except OSError as refused:
        reason = str(refused.strerror or refused)
        remedy = "Bring the loopback interface up: ip link set lo up."
        return Finding("loopback", State.PROBLEM, reason, "127.0.0.1, for Python and Java", remedy)


def _port() -> Finding:
    try:
        with socket.create_server(("127.0.0.1", _PAGES)):
            return Finding("port of Spark's pages", State.OK, f"{_PAGES} is free")
    except OSError:
        text = f"{_PAGES} is in use: the pages are at the next free port, which `tailbit run` prints"
        return Finding("port of Spark's pages", State.OK, text)


def _text() -> Finding:
    encoding = sys.getfilesystemencoding()
    return judged(
        "names of files",
        encoding,
        encoding.lower().replace("-", "") == "utf8",
        "UTF-8",
        "Set LANG=C.UTF-8.",
        State.WARNING,
    )
