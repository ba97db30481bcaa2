"""Settings of a stream, the Spark session's settings."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tailbit.errors import RequirementError, UsageError
from tailbit.streaming.java.session import check_java, session_settings
from tailbit.streaming.settings import milliseconds


@pytest.mark.parametrize(
    ("text", "ms"),
    {
        "500ms": 500,
        "2s": 2000,
        "1 minute": 60_000,
        "0": 0,
        "1.5": 1500,
        "2m": 120_000,
        "1h": 3_600_000,
    }.items(),
)
def test_a_trigger_is_a_length_of_time(text: str, ms: int) -> None:
    assert milliseconds(text) == ms


@pytest.mark.parametrize("text", ["", "soon", "-1s", "5 parsecs", "1s2s"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="length of time"):
        milliseconds(text)


def test_one_machine_gets_few_partitions_and_a_cluster_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert session_settings("local[2]")["spark.sql.shuffle.partitions"] == "2"
    assert "spark.hadoop.fs.file.impl" not in session_settings("spark://host:7077")
    assert session_settings("local[2]", ui=False)["spark.ui.enabled"] == "false"
    for name in ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"):
        monkeypatch.delenv(name, raising=False)
    larger = session_settings("local[2]", extra={"spark.driver.memory": "4g"})
    assert larger["spark.driver.memory"] == "4g"
    sessions = (session_settings("local[2]"), larger, session_settings("spark://host:7077"))
    options = [settings["spark.driver.extraJavaOptions"] for settings in sessions]
    assert all("-XX:TieredStopAtLevel=1" in given for given in options)
    assert ["GC" in given for given in options] == [True, False, False]
    often = "spark.cleaner.periodicGC.interval"
    assert [often in settings for settings in sessions] == [True, False, False]
    short = session_settings("spark://host:7077", short=True)
    assert "GC" in short["spark.driver.extraJavaOptions"]


def java(folder: Path, version: str) -> str:
    binary = folder / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!{sys.executable}\nimport sys\nsys.stderr.write('openjdk version \"{version}\"')\n")
    binary.chmod(0o755)
    return str(folder)


@pytest.mark.parametrize("version", ["17.0.15", "21", "25.0.1"])
def test_java_17_and_newer_will_do(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", java(tmp_path, version))
    check_java()


@pytest.mark.parametrize(("version", "major"), [("1.8.0_402", 8), ("11.0.2", 11)])
def test_an_older_java_is_refused_with_what_to_install(
    version: str, major: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", java(tmp_path, version))
    with pytest.raises(RequirementError, match=f"Java {major} is too old") as refused:
        check_java()
    assert "openjdk-17" in refused.value.hint


def test_a_missing_java_is_refused_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RequirementError, match="Java is not installed") as refused:
        check_java()
    assert "openjdk-17" in refused.value.hint
