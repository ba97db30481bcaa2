"""Java starts with the archive of classes, and without it where that is damaged."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.profiles import PROOF
from support.shared_classes import ARCHIVE
from tailbit.streaming.java.class_archive import OPTIONS_OF_JAVA, archive_stem, archives, with_size
from tailbit.streaming.java.session import java_binary

pytestmark = pytest.mark.spark

_STARTS = """
import psutil
from pathlib import Path
from tailbit.streaming.java.session import build_session
with build_session("x", ui=False, short=True) as spark:
    print(spark.range(7).count())
    java = psutil.Process(spark.sparkContext._gateway.proc.pid)
    print(any(its.rss for its in java.memory_maps() if Path(its.path).match("spark-*.jsa")))
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive in a folder of its own: that of the tests, or where Spark judges all, one of the command."""
    folder = tmp_path_factory.mktemp("classes")
    java = java_binary()
    assert java is not None
    stem = archive_stem(java, {"TAILBIT_CLASS_ARCHIVE": str(folder)})
    assert stem is not None
    if ARCHIVE.exists() and not PROOF:
        path = with_size(stem, ARCHIVE.stat().st_size)
        path.write_bytes(ARCHIVE.read_bytes())
    else:
        made = subprocess.check_output(
            [sys.executable, "-m", "tailbit.cli", "archive-classes"], env=environment(folder), text=True
        )
        [path] = archives(java, {"TAILBIT_CLASS_ARCHIVE": str(folder)})
        assert made.startswith(f"{path}: ")
        path.chmod(0o644)
    return path


def environment(folder: Path) -> dict[str, str]:
    """Runs that look for the archive in a folder, whatever those of other tests do."""
    own = {name: value for name, value in os.environ.items() if name not in OPTIONS_OF_JAVA}
    return own | {"TAILBIT_CLASS_ARCHIVE": str(folder)}


def start(folder: Path) -> list[str]:
    """What a Spark says in standard output, with what Java says there; it works, whatever the archive is."""
    return subprocess.check_output(
        [sys.executable, "-c", _STARTS], env=environment(folder), text=True, cwd=Path(sys.executable).parent
    ).split()


def test_java_maps_the_archive_and_starts_without_it_where_it_is_cut_or_overwritten(archive: Path) -> None:
    assert start(archive.parent) == ["7", "True"]
    whole = archive.read_bytes()
    archive.write_bytes(whole[: len(whole) // 2])
    assert start(archive.parent) == ["7", "False"]
    damaged = bytearray(whole)
    for at in range(len(whole) // 3, len(whole), len(whole) // 50):
        damaged[at] ^= 0xFF
    archive.write_bytes(damaged)
    assert start(archive.parent) == ["7", "False"]


def test_an_archive_that_is_there_is_not_made_again_and_one_that_cannot_be_is_refused_by_name(
    archive: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "tailbit.cli", "archive-classes"]
    before = archive.stat()
    there = subprocess.run(
        command, env=environment(archive.parent), capture_output=True, text=True, check=True
    )
    assert there.stdout == f"{archive}: is there already\n"
    assert archive.stat().st_mtime_ns == before.st_mtime_ns
    (tmp_path / "file").touch()
    for folder, reason in (("off", "runs use no archive"), (tmp_path / "file", "cannot be written")):
        refused = subprocess.run(
            command, env=environment(Path(folder)), capture_output=True, text=True, check=False
        )
        assert refused.returncode == 2
        assert reason in refused.stderr
        assert "TAILBIT_CLASS_ARCHIVE=FOLDER" in refused.stderr
