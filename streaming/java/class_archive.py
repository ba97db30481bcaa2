"""The classes that a run of Spark loads, in a file that every later Java maps into memory.

Java finds, reads and checks some 19,000 classes in Spark's jars at each start: half of its processor time
until the first batch is done. The file is made once by `streaming.archive_classes`, which takes longer than a
run. Java itself compares the file with its own build, with the jars and with the checksums in it, and does
without it where they differ. Source: JEP 350, dynamic class data archives.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from tailbit.streaming.user_cache import user_cache

SETTING = "TAILBIT_CLASS_ARCHIVE"
"""The environment variable that names the folder of the files; `off`: none is used."""

SUFFIX = ".jsa"

OPTIONS_OF_JAVA = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
"""Environment variables by which Java gets options, besides Spark's settings."""

_CHOSEN = re.compile(r"-XX:(SharedArchiveFile|ArchiveClassesAtExit)|-Xshare")
_UNSAFE = re.compile(r"[\s\"'\\,:]")
SILENT = "-Xlog:disable -Xlog:all=error:stderr"
"""What Java thinks of a file that does not fit is for nobody to read, unless the user has it log."""

_UNREAD_S = 30 * 86_400.0
"""Seconds after which a file that no Java has read is that of one that has gone."""


def use_archive(java: Path | None, options: str, environment: Mapping[str, str]) -> str:
    """Options of Java by which it uses the file; none where there is no file, or not all of it.

    Nor where the user has chosen by an option of Java's. `java`: its binary, all links followed. `options`:
    those of Spark's own settings.
    """
    given = [options, *(environment.get(name, "") for name in OPTIONS_OF_JAVA)]
    path = None
    if java is not None and not any(map(_CHOSEN.search, given)):
        path = next(iter(archives(java, environment)), None)
    if path is None:
        return ""
    silent = "" if any("-Xlog" in text for text in given) else f"{SILENT} "
    return f"{silent}-XX:SharedArchiveFile={path} -XX:+VerifySharedSpaces"


def archives(java: Path, environment: Mapping[str, str]) -> list[Path]:
    """The whole files for a Java and the installed Spark: one, or none.

    A name ends with the size that the file was written with. Java compares checksums, but reading behind the
    end of a file that was cut off would be its own end.
    """
    stem = archive_stem(java, environment)
    if stem is None:
        return []
    found = []
    for file in stem.parent.glob(f"{stem.name}-*{SUFFIX}"):
        with suppress(FileNotFoundError):
            if file.name == with_size(stem, file.stat().st_size).name:
                found.append(file)
    return found


def keep(made: Path, stem: Path) -> Path:
    """Put a file that was made in place of the one before, whole; where it is now.

    Files of another Java or Spark go where nobody has read them for a month.
    """
    path = with_size(stem, made.stat().st_size)
    os.replace(made, path)
    for file in {*stem.parent.glob(f"spark-*{SUFFIX}")} - {path}:
        with suppress(FileNotFoundError):
            if file.name.startswith(f"{stem.name}-") or time.time() - file.stat().st_atime > _UNREAD_S:
                file.unlink()
    return path


def with_size(stem: Path, size: int) -> Path:
    """The whole name of a file of `size` bytes."""
    return stem.with_name(f"{stem.name}-{size}{SUFFIX}")


def archive_stem(java: Path, environment: Mapping[str, str]) -> Path | None:
    """The path of the file for a Java and the installed Spark, up to its size.

    None where there is to be none, or where Spark would take the folder's name apart.
    """
    chosen = environment.get(SETTING)
    folder = Path(chosen).absolute() if chosen else user_cache(environment) / "java"
    if (chosen or "").lower() == "off" or _UNSAFE.search(str(folder)):
        return None
    return folder / f"spark-{_fingerprint(java)}"


def _fingerprint(java: Path) -> str:
    """Of Java's binary, and of the names, sizes and times of Spark's jars: Java compares the latter too."""
    import pyspark

    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    jars = sorted((home / "jars").glob("*.jar"))
    known = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in (java, *jars)]
    return blake2b(repr(known).encode(), digest_size=8).hexdigest()
