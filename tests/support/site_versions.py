"""The site, in a folder for each released version and one for this checkout: `make site`.

Tags of Git, such as v0.2.1, are the releases: of those that differ in their last number alone the newest is
shown. Nothing is kept between two builds, so that any machine with the tags makes the whole site.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from support.release import project

ROOT = Path(__file__).parents[2]
NEXT = "next"
"""The folder of the checkout."""

_TAG = re.compile(r"v(\d+)\.(\d+)\.(\d+)")
_MOVED = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>tailbit</title>
<meta http-equiv="refresh" content="0; url={0}"><link rel="canonical" href="{0}"></head>
<body><a href="{0}">tailbit</a></body></html>
"""


def releases(root: Path) -> dict[str, str]:
    """Return the tag of each version that has a folder, the newest first."""
    command = ["git", "tag", "--list", "v*"]
    tags = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False).stdout.split()
    numbered = sorted(
        (tuple(map(int, found.groups())), tag) for tag in tags if (found := _TAG.fullmatch(tag))
    )
    newest = {f"{number[0]}.{number[1]}": tag for number, tag in numbered}
    return dict(reversed(newest.items()))


def build(into: Path, root: Path = ROOT) -> None:
    """Build all versions in a folder, and what leads to them."""
    into.mkdir(parents=True, exist_ok=True)
    known = []
    for version, tag in releases(root).items():
        with tempfile.TemporaryDirectory() as folder:
            tree = subprocess.run(["git", "archive", tag], cwd=root, capture_output=True, check=True).stdout
            with tarfile.open(fileobj=io.BytesIO(tree)) as files:
                files.extractall(folder, filter="data")
            _build_one(Path(folder), into / version)
        known.append({"version": version, "title": tag.removeprefix("v"), "aliases": []})
    _build_one(root, into / NEXT)
    known.append({"version": NEXT, "title": f"{project(root)['version']} ({NEXT})", "aliases": []})
    known[0]["aliases"] = ["latest"]
    (into / "versions.json").write_text(json.dumps(known), encoding="utf-8")
    first = f"{known[0]['version']}/index.html"
    (into / "index.html").write_text(_MOVED.format(first), encoding="utf-8")
    (into / "latest").mkdir(exist_ok=True)
    (into / "latest" / "index.html").write_text(_MOVED.format(f"../{first}"), encoding="utf-8")


def _build_one(tree: Path, into: Path) -> None:
    """Build the pages of a tree, where every warning is an error."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(into)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


if __name__ == "__main__":
    build(Path(sys.argv[1]))
