"""What is missing or of another release is refused by name, before any work."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from deltalake import write_deltalake

from tailbit import errors
from tailbit.streaming.java import session
from tailbit.streaming.java.session import check_java, java_version, releases_found

TOOL = Path(sys.executable).with_name("tailbit")


def installed(folder: Path, package: str, version: str) -> None:
    """Put a package of a release, as pip would, into a folder that is first on the path."""
    (folder / package).mkdir()
    (folder / package / "__init__.py").write_text("raise ImportError('it is refused unread')\n")
    info = folder / f"{package}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")


@pytest.mark.parametrize(
    ("package", "version", "needed"),
    [
        ("pyspark", "4.1.1", "indexing needs 4.2 or newer"),
        ("pyspark", "4.0.0", "indexing needs 4.2 or newer"),
        ("pyspark", "3.5.8", "indexing needs 4.2 or newer"),
        ("pyspark", "4.3.0", "there is no Delta Lake for Spark 4.3 yet"),
        ("pandas", "3.0.1", "Spark's workers need one below 3.0"),
    ],
)
@pytest.mark.parametrize("options", [[], ["--once", "--master", "local[2]"]])
def test_another_release_is_refused_before_any_work_with_what_was_found_and_what_is_needed(
    package: str, version: str, needed: str, options: list[str], tmp_path: Path
) -> None:
    table = str(tmp_path / "t")
    write_deltalake(table, pa.table({"c": ["a", "b"]}))
    installed(tmp_path, package, version)
    done = subprocess.run(
        [TOOL, "run", table, "--columns", "c", *options],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 78, done.stderr
    found, remedy = done.stderr.splitlines()
    assert found == f"RequirementError: {package} {version} is installed; {needed}"
    assert "pip install 'tailbit[spark]'" in remedy
    assert not (tmp_path / "t" / "_tailbit").exists()


def test_a_start_says_which_releases_are_not_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    spark, java, python = pyspark.__version__, java_version(), f"3.{sys.version_info[1]}"
    here = f"found Spark {spark}, Java {java}, Python {python}"
    proven = {"Spark": (spark,), "Java": (str(java),), "Python": (python,)}
    monkeypatch.setattr(session, "PROVEN", proven)
    assert releases_found() == f"{here}, which are proven"
    monkeypatch.setattr(session, "PROVEN", proven | {"Java": ("99", "101"), "Python": ("3.1",)})
    unproven = "not proven: Java and Python (proven: Java 99, 101; Python 3.1)"
    assert releases_found() == f"{here}; {unproven}"


def test_a_machine_without_java_is_told_so_with_the_status_of_a_configuration(tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    write_deltalake(table, pa.table({"c": ["a", "b"]}))
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    done = subprocess.run(
        [TOOL, "run", table, "--columns", "auto"],
        env=environment | {"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 78
    assert done.stderr.startswith("RequirementError: Java is not installed")


def test_a_missing_pyspark_is_told_so_with_the_status_of_a_configuration_and_questions_need_none(
    tmp_path: Path,
) -> None:
    table = str(tmp_path / "t")
    write_deltalake(table, pa.table({"c": ["a", "b"]}))

    def without_pyspark(*command: str) -> subprocess.CompletedProcess[str]:
        # A module that stands there as None cannot be found, nor imported.
        program = "import sys; sys.modules['pyspark'] = None; from tailbit.cli.entry import main; main()"
        return subprocess.run(
            [sys.executable, "-c", program, *command], capture_output=True, text=True, check=False
        )

    done = without_pyspark("run", table, "--columns", "c")
    assert done.returncode == 78
    assert done.stderr.startswith("RequirementError: pyspark is not installed\n")
    assert "pip install 'tailbit[spark]'" in done.stderr
    assert without_pyspark("count", table, "c = 'a'").stdout == "1\n"


def test_the_name_before_is_known_for_a_release_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match="RequirementError"):
        assert errors.EnvironmentError_ is errors.RequirementError
    with pytest.raises(AttributeError):
        errors.NoSuchError  # noqa: B018


def test_an_old_java_is_refused_with_what_was_found_and_what_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch(mode=0o755)
    (tmp_path / "release").write_text('JAVA_VERSION="11.0.2"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(errors.RequirementError, match="Java 11 is too old; Spark needs 17"):
        check_java()
