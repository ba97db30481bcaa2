"""What does not fit beside a session: its queries run as without tailbit, `last()` and one line say why."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pytest

from support.acceleration import helper_of, kill, logged, patiently_accelerated, rows_of
from support.tables import index_of
from support.waiting import wait_until
from tailbit.spark import accelerate, acceleration, jar
from tailbit.spark.acceleration import Acceleration

ROWS = 400


@pytest.fixture(scope="module")
def table(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Eight files with an index."""
    path = str(tmp_path_factory.mktemp("misfits") / "table")
    spark.range(ROWS).selectExpr("id", "cast(id AS int) i").repartition(8).write.format("delta").save(path)
    index_of(path, ["i"])
    return path


def no_jar(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(jar, "_JAR", folder / "none.jar")


def another_jar(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    with zipfile.ZipFile(folder / "another.jar", "w") as written:
        written.writestr("META-INF/tailbit-sources", "another")
    monkeypatch.setattr(jar, "_JAR", folder / "another.jar")


def another_class(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let Spark load a class that lacks a method; another name, since this Java may know the true one."""
    source = folder / "Lacking.java"
    source.write_text("package io.tailbit.spark; public class Lacking {}")
    monkeypatch.setattr(acceleration, "_CLASS", "io.tailbit.spark.Lacking")
    subprocess.run(["javac", "-d", str(folder), str(source)], check=True)
    with zipfile.ZipFile(folder / "lacking.jar", "w") as written:
        written.writestr("META-INF/tailbit-sources", jar.digest())
        written.write(folder / "io/tailbit/spark/Lacking.class", "io/tailbit/spark/Lacking.class")
    monkeypatch.setattr(jar, "_JAR", folder / "lacking.jar")


def older_spark(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let the oldest release be newer than this one."""
    monkeypatch.setattr(acceleration, "OLDEST", (99, 0))


def newer_spark(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let the newest release be older than this one."""
    monkeypatch.setattr(acceleration, "NEWEST", (4, 1))


MISFITS = {
    "no jar": (no_jar, "no-jar", "has not been built"),
    "jar of another release": (another_jar, "other-release", "is not of this release"),
    "class of another release": (another_class, "other-release", "sources"),
    "older Spark": (older_spark, "other-release", "; 99.0 to 4.2 are accelerated"),
    "newer Spark": (newer_spark, "other-release", "; 4.0 to 4.1 are accelerated"),
}
"""What does not fit, the reason that is told, and a part of its detail."""


@pytest.mark.parametrize("misfit", MISFITS)
def test_a_session_that_cannot_be_accelerated_is_left_as_it_is(
    spark: Any,
    table: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    misfit: str,
) -> None:
    happens, reason, detail = MISFITS[misfit]
    happens(monkeypatch, tmp_path)
    monkeypatch.setattr(acceleration, "_entries", WeakKeyDictionary())
    accelerated = accelerate(spark)
    assert len(rows_of(spark, f"SELECT * FROM delta.`{table}` WHERE i < 7")) == 7
    (scan,) = accelerated.last()
    assert (scan.served, scan.reason, accelerated.served("files")) == (None, reason, 0)
    assert detail in str(scan.detail)
    (line,) = [record.getMessage() for record in caplog.records if record.name == "tailbit.spark"]
    assert f"{reason}: {scan.detail}" in line
    accelerated.stop()


@pytest.fixture
def without_credentials(spark: Any, s3_options: dict[str, str], tmp_path: Path) -> Iterator[Acceleration]:
    """A session whose helper has other credentials for an object store than Spark."""
    wrong = {**s3_options, "AWS_SECRET_ACCESS_KEY": "another"}
    script = tmp_path / "python"
    variables = " ".join(f"{name}='{value}'" for name, value in wrong.items())
    script.write_text(f'#!/bin/sh\nexec env {variables} {sys.executable} "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    with patiently_accelerated(spark) as accelerated:
        spark.conf.set("spark.tailbit.python", str(script))
        kill(helper_of(accelerated), signal.SIGKILL)
        yield accelerated
        spark.conf.set("spark.tailbit.python", sys.executable)
        process = helper_of(accelerated)
        kill(process, signal.SIGKILL)
        # The next session is to start a helper of its own.
        wait_until(lambda: process < 0 or helper_of(accelerated) != process)


def test_a_store_that_only_spark_has_credentials_for_is_read_by_spark(
    without_credentials: Acceleration, spark: Any, table: str
) -> None:
    """Hadoop's settings lead `s3a://kept` to a folder; the store of the helper refuses its keys."""
    overload = "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme"
    hadoop = {
        "fs.s3a.impl": overload,
        "fs.viewfs.overload.scheme.target.s3a.impl": overload,
        "fs.viewfs.mounttable.kept.link./table": f"file://{table}",
    }
    for name, value in hadoop.items():
        spark.conf.set(name, value)
    statement = "SELECT * FROM delta.`s3a://kept/table` WHERE i < 7"
    reasons = set[str | None]()
    with logged(spark) as lines:
        while not reasons & {"error"}:
            assert len(rows_of(spark, statement)) == 7
            (scan,) = without_credentials.last()
            assert scan.reason in ("helper-ended", "helper-paused", "helper-starting", "error"), scan
            reasons.add(scan.reason)
        assert len(rows_of(spark, statement)) == 7
        told = [line for line in lines() if "s3://kept/table" in line]
    for name in hadoop:
        spark.conf.unset(name)
    assert without_credentials.last()[0].detail
    assert len(told) == 1, told
