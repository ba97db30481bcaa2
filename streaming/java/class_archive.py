"""The classes that a run of Spark loads, in a file that every later Java maps into memory.

Java finds, reads and checks some 19,000 classes in Spark's jars at each start: half of its processor time
until the first batch is done. `streaming.archive_classes` writes the file once, which takes longer than a
run. Java compares the file with its own build, with the jars and with the checksums in the file, and ignores
the file if they differ. Source: JEP 350, dynamic class data archives.
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
"""Environment variables through which Java gets options, besides Spark's settings."""

_CHOSEN = re.compile(r"-XX:(SharedArchiveFile|ArchiveClassesAtExit)|-Xshare")
_UNSAFE = re.compile(r"[\s\"'\\,:]")
SILENT = "-Xlog:disable -Xlog:all=error:stderr"
"""Java's log settings: its remarks on an archive that does not fit are not shown, unless the user logs them.
"""

_UNREAD_S = 30 * 86_400.0
"""Seconds after which an archive that no Java has read belongs to an uninstalled Java or Spark."""


def use_archive(java: Path | None, options: str, environment: Mapping[str, str]) -> str:
    """Return the Java options that use the archive; empty if there is no complete archive.

    Empty also if the user has set such options himself. `java`: the binary, with symbolic links resolved.
    `options`: those of Spark's own settings.
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
    """Return the complete archives for a Java and the installed Spark: one, or none.

    A file name ends with the size of the complete file. Java compares checksums, but reading beyond the end
    of a truncated file would crash Java.
    """
    stem = archive_stem(java, environment)
    if stem is None:
        return []
    archive_files = []
    for file in stem.parent.glob(f"{stem.name}-*{SUFFIX}"):
        with suppress(FileNotFoundError):
            if file.name == with_size(stem, file.stat().st_size).name:
                archive_files.append(file)
    return archive_files


def keep(written: Path, stem: Path) -> Path:
    """Move a new archive to its place, atomically; return its path.

    Archives of another Java or Spark are deleted if nobody has read them for a month.
    """
    path = with_size(stem, written.stat().st_size)
    os.replace(written, path)
    for file in {*stem.parent.glob(f"spark-*{SUFFIX}")} - {path}:
        with suppress(FileNotFoundError):
            if file.name.startswith(f"{stem.name}-") or time.time() - file.stat().st_atime > _UNREAD_S:
                file.unlink()
    return path


def with_size(stem: Path, size: int) -> Path:
    """Return the path of the complete archive of `size` bytes."""
    return stem.with_name(f"{stem.name}-{size}{SUFFIX}")


def archive_stem(java: Path, environment: Mapping[str, str]) -> Path | None:
    """Return the archive's path for a Java and the installed Spark, without the suffix that states its size.

    None if archives are switched off, or if Spark would split the folder's name into several arguments.
    """
    chosen = environment.get(SETTING)
    folder = Path(chosen).absolute() if chosen else user_cache(environment) / "java"
    if (chosen or "").lower() == "off" or _UNSAFE.search(str(folder)):
        return None
    return folder / f"spark-{_fingerprint(java)}"


def _fingerprint(java: Path) -> str:
    """Return a hash of Java's binary and of the names, sizes and times of Spark's jars.

    Java compares names, sizes and times of the jars too.
    """
    import pyspark

    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    jars = sorted((home / "jars").glob("*.jar"))
    known = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in (java, *jars)]
    return blake2b(repr(known).encode(), digest_size=8).hexdigest()
