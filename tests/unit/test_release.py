"""What `make release` refuses, and archives that are the same bytes whoever makes them, and when."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from support.release import ROOT, changes, project, repack, unready
from tailbit.spark import jar

VERSION = project()["version"]

CHART = "deploy/helm/tailbit/Chart.yaml"


def test_the_chart_and_the_images_are_of_the_project() -> None:
    about = project()
    chart = yaml.safe_load((ROOT / CHART).read_text())
    assert chart["version"] == chart["appVersion"] == about["version"]
    assert chart["annotations"]["artifacthub.io/license"] == about["license"]
    for name in ("Dockerfile", "Dockerfile.spark"):
        text = (ROOT / "deploy" / "docker" / name).read_text()
        assert f'org.opencontainers.image.licenses="{about["license"]}"' in text
        assert 'org.opencontainers.image.version="$VERSION"' in text


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose changelog dates the current version."""
    for paper in ("pyproject.toml", "CITATION.cff", CHART):
        (tmp_path / paper).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / paper, tmp_path / paper)
    (tmp_path / "CHANGELOG.md").write_text(
        f"# Changes\n\n## {VERSION} (2026-12-01)\n\n- New.\n\n## 0.0.9\n\n- Old.\n"
    )
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "A release"]):
        subprocess.run([*git, *command], cwd=tmp_path, check=True)
    return tmp_path


def test_a_committed_version_with_a_dated_section_is_ready_for_its_tag(checkout: Path) -> None:
    assert unready(f"v{VERSION}", checkout) == ""
    assert changes(VERSION, checkout) == f"## {VERSION} (2026-12-01)\n\n- New.\n\n"


@pytest.mark.parametrize(
    ("tag", "file", "text", "reason"),
    [
        ("v9.9.9", "more", "", f"pyproject.toml has version {VERSION}"),
        (f"v{VERSION}", "CHANGELOG.md", f"## {VERSION} (unreleased)\n", "CHANGELOG.md needs the heading"),
        (f"v{VERSION}", "CHANGELOG.md", "## 0.0.9\n", "CHANGELOG.md needs the heading"),
        (f"v{VERSION}", "CITATION.cff", "version: 0.0.9\n", "CITATION.cff needs the line"),
        (f"v{VERSION}", CHART, "appVersion: 0.0.9\n", f"{CHART} needs the line"),
        (
            f"v{VERSION}",
            "pyproject.toml",
            f'[project]\nversion = "{VERSION}"\n',
            "these files are not committed",
        ),
    ],
)
def test_a_tag_is_refused_for_a_checkout_that_is_not_ready(
    checkout: Path, tag: str, file: str, text: str, reason: str
) -> None:
    (checkout / file).write_text(text)
    assert unready(tag, checkout).startswith(reason)


def archive_of(path: Path, names: Sequence[str], second: int, owner: str) -> Path:
    """Write a source archive in which somebody packed some files at some time."""
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.uname, entry.mode = len(name), second, owner, 0o640
            archive.addfile(entry, io.BytesIO(name.encode()))
    repack(path, 1_700_000_000)
    return path


def test_source_archives_of_the_same_files_are_the_same_bytes(tmp_path: Path) -> None:
    one = archive_of(tmp_path / "one.tar.gz", ["a/b", "a/c"], 1, "ann")
    other = archive_of(tmp_path / "other.tar.gz", ["a/c", "a/b"], 2, "bob")
    assert one.read_bytes() == other.read_bytes()
    with tarfile.open(one) as archive:
        assert [archive.extractfile(entry).read() for entry in archive] == [b"a/b", b"a/c"]  # type: ignore[union-attr]


def test_jars_of_the_same_files_are_the_same_bytes(tmp_path: Path) -> None:
    for folder, names in (("one", "ab"), ("other", "ba")):
        for second, name in enumerate(names):
            path = tmp_path / folder / "io" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)
            os.utime(path, (second, second))
        jar.pack(tmp_path / f"{folder}.jar", tmp_path / folder, {"META-INF/first": "1"})
    assert (tmp_path / "one.jar").read_bytes() == (tmp_path / "other.jar").read_bytes()
