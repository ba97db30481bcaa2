"""The jar with which Spark's own queries use the index, and its build: `python -m tailbit.spark.jar`.

The sources stand beside this module and fit every release of Spark from 4.0 on. They are compiled against the
jars of the installed pyspark and Delta's, which Spark fetches as it does for a session.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from importlib.metadata import distribution
from pathlib import Path

from tailbit.base.errors import RequirementError

_HERE = Path(__file__).parent
_JAR = _HERE / "jar" / "tailbit-spark.jar"
_STAMP = "META-INF/tailbit-sources"
"""The entry of the jar that holds the digest of its sources."""

MISFITS = {"no-jar": "has not been built", "other-release": "is not of this release"}
"""What may be wrong with the jar, with its wording in errors."""

_DELTA = ("io.delta_delta-spark_*.jar", "io.delta_delta-storage-*.jar")


def jar_path() -> Path:
    """Return the path of the jar."""
    if reason := MISFITS.get(misfit() or ""):
        remedy = "Build it, which needs a JDK: python -m tailbit.spark.jar"
        raise RequirementError(reason=f"the jar for Spark {reason}: {_JAR}", remedy=remedy)
    return _JAR


def misfit() -> str | None:
    """Return what is wrong with the jar, a key of `MISFITS`; None where it is of these sources."""
    if not _JAR.exists():
        return "no-jar"
    return None if _is_built() else "other-release"


def build() -> Path:
    """Compile the sources into the jar, unless it is of these sources already; return its path."""
    if _is_built():
        return _JAR
    _JAR.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_JAR.parent) as folder:
        classes = Path(folder) / "classes"
        _compile(classes)
        unfinished = Path(folder) / _JAR.name
        pack(unfinished, classes, {_STAMP: digest()})
        unfinished.replace(_JAR)
    return _JAR


def pack(jar: Path, folder: Path, first: Mapping[str, str]) -> None:
    """Write a jar of all files below a folder, after the entries `first`, the licence and the notice.

    The same files make the same bytes: entries are sorted, have one time, and are not compressed.
    """
    papers = {f"META-INF/{name}": _paper(name) for name in ("LICENSE", "NOTICE")}
    with zipfile.ZipFile(jar, "w") as archive:
        for name, text in {**first, **papers}.items():
            archive.writestr(zipfile.ZipInfo(name), text)
        for name in sorted(
            path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
        ):
            archive.writestr(zipfile.ZipInfo(name), (folder / name).read_bytes())


def _paper(name: str) -> str:
    """Return the licence or the notice: a checkout has the original, the metadata of a wheel a copy."""
    original = _HERE.parents[1] / name
    if original.exists():
        return original.read_text(encoding="utf-8")
    return distribution("tailbit").read_text(f"licenses/{name}") or ""


def sources() -> list[Path]:
    """Return the Java sources of the jar."""
    return sorted((_HERE / "java").glob("*.java"))


def digest() -> str:
    """Return the digest of the sources, which the jar of this release holds too."""
    hashed = hashlib.sha256()
    for path in sources():
        hashed.update(path.name.encode() + b"\0" + path.read_bytes())
    return hashed.hexdigest()


def _is_built() -> bool:
    if not _JAR.exists():
        return False
    with zipfile.ZipFile(_JAR) as jar:
        return jar.read(_STAMP).decode() == digest()


def program(name: str) -> str:
    """Return the path of a program of the JDK."""
    home = os.environ.get("JAVA_HOME")
    path = shutil.which(name, path=str(Path(home) / "bin")) if home else shutil.which(name)
    if path is None:
        remedy = "Install a JDK of Java 17 or newer (a JRE is not enough), or set JAVA_HOME to one."
        raise RequirementError(reason=f"there is no {name}", remedy=remedy)
    return path


def _compile(classes: Path) -> None:
    compiler = program("javac")
    # Annotations are not processed: a class path of this length may hold a processor of somebody else.
    command = [compiler, "--release", "17", "-proc:none", "-Xlint:all,-path,-classfile,-serial", "-Werror"]
    path = os.pathsep.join(map(str, class_path()))
    ran = subprocess.run(
        [*command, "-d", str(classes), "-cp", path, *map(str, sources())],
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        remedy = "They fit Spark 4.0 to 4.2 with Delta 4.4: install tailbit[spark]."
        raise RequirementError(reason=f"the sources do not compile: {ran.stderr}", remedy=remedy)


def class_path() -> Iterable[Path | str]:
    """Return the jars that the sources are compiled against; what Spark has not fetched of Delta, it fetches.

    Raises:
        RequirementError: there is no pyspark, or Delta's jar cannot be had.
    """
    try:
        import pyspark
    except ModuleNotFoundError:
        remedy = "Install it: pip install 'tailbit[spark]'."
        raise RequirementError(reason="pyspark is not installed", remedy=remedy) from None
    spark = Path(pyspark.__file__).parent / "jars"
    delta = _fetched() or _fetch()
    return [*delta, f"{spark}/*"]


def _fetched() -> list[Path]:
    """Return Delta's jars of the installed release where Spark has put them for a session before."""
    from importlib.metadata import version

    release = version("delta-spark")
    folders = [*Path.home().glob(".ivy2*/jars")]
    jars = [path for folder in folders for name in _DELTA for path in folder.glob(name)]
    fitting = [path for path in jars if path.stem.endswith(f"-{release}")]
    return fitting if len({path.name for path in fitting}) >= len(_DELTA) else []


def _fetch() -> list[Path]:
    """Let Spark fetch Delta's jars, as it does for a session."""
    code = (
        "from delta import configure_spark_with_delta_pip as with_delta;"
        "from pyspark.sql import SparkSession;"
        "with_delta(SparkSession.builder.master('local[1]')).getOrCreate().stop()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    if not (jars := _fetched()):
        remedy = "Start a Spark session with Delta once, so that Spark fetches it."
        raise RequirementError(reason="Delta's jar is not in ~/.ivy2*/jars", remedy=remedy)
    return jars


if __name__ == "__main__":
    print(build())
