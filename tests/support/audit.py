"""The pinned packages are looked up among known vulnerabilities: `python -m support.audit`, in folder tests.

pip-audit asks the index of Python packages. Where that knows no advisories, as a mirror does not, or cannot
be reached, pip-audit ends as if all were well, or in a traceback. Here that is a status of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"
CLEAN, VULNERABLE, NOT_ASKED = 0, 1, 75
_LIMIT_S = 300
_HOW = ("--no-deps", "--disable-pip", "--progress-spinner", "off", "--timeout", "10", "-f", "json", "-r")


class NotAskedError(Exception):
    """The service of advisories was not asked; says why."""


def main(given: Sequence[str] | None = None) -> int:
    """Look the pins up as the command line says; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", help="of pip-audit, installed beside the tests' packages")
    parser.add_argument("--folder", type=Path, help="where it is installed")
    parser.add_argument("--or-go-on", action="store_true", help="status 0 where the service cannot be asked")
    asked = parser.parse_args(given)
    try:
        found = vulnerabilities(installed(asked.folder, asked.version), CONSTRAINTS)
    except NotAskedError as why:
        print(f"NOT AUDITED: {why}", file=sys.stderr)
        return CLEAN if asked.or_go_on else NOT_ASKED
    for line in found:
        print(line)
    print(f"{len(found)} known vulnerabilities in {CONSTRAINTS.name}")
    return VULNERABLE if found else CLEAN


def installed(folder: Path, version: str) -> Path:
    """pip-audit of a version, in an environment of its own: what it needs pins nothing of ours.

    Raises:
        NotAskedError: it cannot be installed.
    """
    tool = folder / version / "bin" / "pip-audit"
    if not tool.exists():
        _run([sys.executable, "-m", "venv", str(folder / version)])
        pip = [str(tool.with_name("python")), "-m", "pip", "install", "--quiet", "--retries", "1"]
        _run([*pip, "--timeout", "10", f"pip-audit=={version}"])
    if not tool.exists():
        raise NotAskedError(f"pip-audit {version} cannot be installed")
    return tool


def vulnerabilities(tool: Path, constraints: Path) -> list[str]:
    """A line for each known vulnerability of a pinned package, those that this Python would install.

    One package is asked for first: where that is not known, the others are not asked for.

    Raises:
        NotAskedError: the service does not answer, or does not know a package.
    """
    pins = [line for line in constraints.read_text("utf-8").splitlines() if line and line[0] != "#"]
    first = next(line for line in pins if ";" not in line)
    _asked(tool, [first])
    return [
        f"{package['name']} {package['version']}: {known['id']}, mended in {known['fix_versions'] or 'none'}"
        for package in _asked(tool, pins)
        for known in package["vulns"]
    ]


def _asked(tool: Path, pins: Sequence[str]) -> list[dict[str, Any]]:
    """What is told of packages, of each of them."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write("\n".join(pins))
        file.flush()
        told = _run([str(tool), *_HOW, file.name])
    try:
        packages: list[dict[str, Any]] = json.loads(told)["dependencies"]
    except (ValueError, KeyError, TypeError):
        raise NotAskedError("the service of advisories does not answer") from None
    skipped = [package["name"] for package in packages if "vulns" not in package]
    if skipped or not packages:
        raise NotAskedError(f"the service of advisories does not know {', '.join(skipped) or 'a package'}")
    return packages


def _run(command: Sequence[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False).stdout
    except (OSError, subprocess.TimeoutExpired) as failed:
        raise NotAskedError(f"{Path(command[0]).name} gives no answer: {type(failed).__name__}") from None


if __name__ == "__main__":
    sys.exit(main())
