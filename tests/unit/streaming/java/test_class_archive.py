"""Which file of classes a run uses, and when it uses none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tailbit.streaming.java.class_archive import (
    OPTIONS_OF_JAVA,
    SILENT,
    archive_stem,
    archives,
    keep,
    use_archive,
    with_size,
)

JAVA = Path(os.__file__)
"""Any file: it is looked at, not started."""


def archived(folder: Path) -> dict[str, str]:
    """An environment whose runs find a file."""
    environment = {"TAILBIT_CLASS_ARCHIVE": str(folder)}
    stem = archive_stem(JAVA, environment)
    assert stem is not None
    with_size(stem, 7).write_bytes(b"classes")
    return environment


def test_a_run_uses_the_file_where_there_is_one(tmp_path: Path) -> None:
    assert use_archive(JAVA, "-Xss8m", {"TAILBIT_CLASS_ARCHIVE": str(tmp_path)}) == ""
    environment = archived(tmp_path)
    [path] = archives(JAVA, environment)
    assert f"-XX:SharedArchiveFile={path} " in use_archive(JAVA, "", environment)


def test_what_the_user_has_java_log_is_logged(tmp_path: Path) -> None:
    environment = archived(tmp_path)
    assert SILENT in use_archive(JAVA, "", environment)
    asked = use_archive(JAVA, "", environment | {"JAVA_TOOL_OPTIONS": "-Xlog:gc"})
    assert "SharedArchiveFile" in asked
    assert "-Xlog" not in asked


def test_a_new_file_takes_the_place_of_the_one_before_and_of_those_that_nobody_reads(tmp_path: Path) -> None:
    environment = archived(tmp_path)
    stem = archive_stem(JAVA, environment)
    assert stem is not None
    for name in ("spark-other-7.jsa", "spark-gone-7.jsa", "mine.jsa"):
        (tmp_path / name).write_bytes(b"classes")
    for name in ("spark-gone-7.jsa", "mine.jsa"):
        os.utime(tmp_path / name, (1, 1))
    (tmp_path / "made").write_bytes(b"more classes")
    kept = keep(tmp_path / "made", stem)
    assert kept == with_size(stem, 12)
    assert {path.name for path in tmp_path.iterdir()} == {kept.name, "spark-other-7.jsa", "mine.jsa"}


def test_a_file_that_was_cut_off_is_not_used(tmp_path: Path) -> None:
    environment = archived(tmp_path)
    [path] = archives(JAVA, environment)
    path.write_bytes(b"class")
    assert use_archive(JAVA, "", environment) == ""


def test_a_run_uses_none_without_java_or_where_it_is_told_so(tmp_path: Path) -> None:
    environment = archived(tmp_path)
    assert use_archive(None, "", environment) == ""
    assert use_archive(JAVA, "", {"TAILBIT_CLASS_ARCHIVE": "off"}) == ""
    assert archive_stem(JAVA, {"TAILBIT_CLASS_ARCHIVE": "OFF"}) is None


@pytest.mark.parametrize("option", ["-XX:SharedArchiveFile=/x", "-XX:ArchiveClassesAtExit=/x", "-Xshare:off"])
def test_an_option_of_java_by_which_the_user_has_chosen_wins(tmp_path: Path, option: str) -> None:
    environment = archived(tmp_path)
    assert use_archive(JAVA, f"-Xss8m {option}", environment) == ""
    for name in OPTIONS_OF_JAVA:
        assert use_archive(JAVA, "", environment | {name: option}) == ""


def test_a_folder_whose_name_spark_would_take_apart_is_not_used(tmp_path: Path) -> None:
    for name in ("a b", 'a"b', "a'b", "a,b", "a:b"):
        assert archive_stem(JAVA, {"TAILBIT_CLASS_ARCHIVE": str(tmp_path / name)}) is None


def test_without_a_choice_the_file_is_in_the_users_cache(tmp_path: Path) -> None:
    stem = archive_stem(JAVA, {"XDG_CACHE_HOME": str(tmp_path)})
    assert stem is not None
    assert stem.parent == tmp_path / "tailbit" / "java"


def test_another_java_and_other_jars_have_another_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {"TAILBIT_CLASS_ARCHIVE": str(tmp_path)}
    (tmp_path / "jars").mkdir()
    jar = tmp_path / "jars" / "spark.jar"
    jar.write_bytes(b"1")
    os.utime(jar, (1, 1))
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    first = archive_stem(JAVA, environment)
    assert first == archive_stem(JAVA, environment)
    assert first != archive_stem(Path(pytest.__file__), environment)
    os.utime(jar, (2, 2))
    assert first != archive_stem(JAVA, environment)
