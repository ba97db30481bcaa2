"""An audit of the pinned packages that asked nobody does not pass for a clean one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.audit import CLEAN, NOT_ASKED, VULNERABLE, main, vulnerabilities

CLEAN_ONE = {"name": "zipp", "version": "4.1.2", "vulns": []}
BAD_ONE = {"name": "rich", "version": "15.0.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["15.0.1"]}]}
UNKNOWN = {"name": "zipp", "skip_reason": "Dependency not found on PyPI and could not be audited"}


@pytest.fixture
def status(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Any:
    """Runs the audit with a tool that answers so, or that fails where it has no answer."""
    tool = tmp_path / "1.0" / "bin" / "pip-audit"
    tool.parent.mkdir(parents=True)

    def run(answer: list[dict[str, Any]] | None, *more: str) -> int:
        told = "exit 1" if answer is None else f"echo '{json.dumps({'dependencies': answer})}'"
        tool.write_text(f"#!/bin/sh\n{told}\n")
        tool.chmod(0o755)
        return main(["--folder", str(tmp_path), "--version", "1.0", *more])

    return run


def test_a_known_vulnerability_of_a_pinned_package_is_told(
    status: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    assert status([CLEAN_ONE]) == CLEAN
    assert status([CLEAN_ONE, BAD_ONE], "--or-go-on") == VULNERABLE
    assert "rich 15.0.0: PYSEC-1, mended in ['15.0.1']" in capfd.readouterr().out


@pytest.mark.parametrize("answer", [None, [], [UNKNOWN], [CLEAN_ONE, UNKNOWN]])
def test_where_the_service_cannot_be_asked_it_says_so_and_ci_goes_on(
    status: Any, capfd: pytest.CaptureFixture[str], answer: list[dict[str, Any]] | None
) -> None:
    assert status(answer) == NOT_ASKED
    assert status(answer, "--or-go-on") == CLEAN
    assert capfd.readouterr().err.count("NOT AUDITED: the service of advisories does not") == 2


def test_one_package_is_asked_for_before_all_others(tmp_path: Path) -> None:
    tool, pins = tmp_path / "pip-audit", tmp_path / "pins.txt"
    tool.write_text(
        f"""#!/bin/sh
for last; do :; done
grep -c == $last >>{tmp_path}/asked
echo '{json.dumps({"dependencies": [CLEAN_ONE]})}'
"""
    )
    tool.chmod(0o755)
    pins.write_text("# pinned\nrich==15.0.0 ; python_version < '4'\nzipp==4.1.2\n")
    assert vulnerabilities(tool, pins) == []
    assert (tmp_path / "asked").read_text().split() == ["1", "2"]
