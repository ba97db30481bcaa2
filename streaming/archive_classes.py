"""A separate run writes the archive of classes with which Java starts sooner: `java.class_archive`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tailbit.errors import NoIndexError, RequirementError
from tailbit.index.store.place import index_path
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.java.class_archive import (
    OPTIONS_OF_JAVA,
    SETTING,
    SILENT,
    archive_stem,
    archives,
    keep,
)
from tailbit.streaming.java.session import check_java, java_binary
from tailbit.streaming.job import run
from tailbit.streaming.upkeep.mending import Tell, tell_nobody

_REMEDY = f"Name a folder that can be written to, for runs as well: {SETTING}=FOLDER."


def archive_classes(again: bool = False, tell: Tell = tell_nobody) -> tuple[Path, bool]:
    """Write the class archive if there is none, or if `again`; return its path, and whether it was written.

    Indexes a small table in a new JVM, which writes down the classes that it loaded. This process cannot
    start Spark afterwards. Other processes see the old archive or the new one, never a part.

    Raises:
        RequirementError: Java or pyspark is missing, the folder cannot be written to, runs are told to use
            no archive, or this Java writes none.
    """
    check_java()
    java = java_binary()
    stem = None if java is None else archive_stem(java, os.environ)
    if java is None or stem is None:
        raise RequirementError(
            reason=f"runs use no archive: {SETTING} is off, or its folder has a blank or quote in its name",
            remedy=_REMEDY,
        )
    there = archives(java, os.environ)
    if there and not again:
        return there[0], False
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=stem.parent) as folder:
            archive = Path(folder, "made")
            tell("starting Spark once, and writing down its classes")
            _write(Path(folder), archive)
            return keep(archive, stem), True
    except OSError as refused:
        raise RequirementError(
            reason=f"the archive of classes cannot be written: {refused}", remedy=_REMEDY
        ) from refused


def _write(folder: Path, archive: Path) -> None:
    """Run a whole indexer once, after which Java ends and writes the archive."""
    import deltalake
    import pyarrow as pa
    from pyspark import SparkContext

    table = str(folder / "table")
    deltalake.write_deltalake(table, pa.table({"k": [1, 2], "v": ["a", "b"]}))
    with _option_of_java(f"{SILENT} -XX:ArchiveClassesAtExit={archive}"):
        run(table, ["k", "v"], once=True)
    gateway: Any = SparkContext._gateway
    # A signal ends a run early, without an error.
    if gateway is None or not _is_indexed(table):
        raise RequirementError(
            reason="it was stopped before the classes were known", remedy="Nothing was kept. Run it again."
        )
    gateway.shutdown()
    with suppress(OSError):
        gateway.proc.stdin.close()
    gateway.proc.wait()
    if not archive.exists():
        raise RequirementError(
            reason="this Java writes no archive of classes",
            remedy="Runs work without one. OpenJDK 17 and newer write them.",
        )


@contextmanager
def _option_of_java(option: str) -> Iterator[None]:
    """Start Java with one more option while the block lasts.

    The option is added to an environment variable of the user's own options. A run that finds the option
    there uses no archive.
    """
    name = OPTIONS_OF_JAVA[0]
    chosen = os.environ.get(name)
    os.environ[name] = f"{chosen or ''} {option}"
    try:
        yield
    finally:
        if chosen is None:
            del os.environ[name]
        else:
            os.environ[name] = chosen


def _is_indexed(table: str) -> bool:
    try:
        return MetadataTable.open(index_path(table)).state.ledger is not None
    except NoIndexError:
        return False
