"""The papers at the root, and an audit of the pinned packages that does not pass for a clean one."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.audit import CLEAN, NOT_ASKED, VULNERABLE, main, vulnerabilities
from support.licences import NOTICE, SHIPPED, findings, needed, refused

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PAGES = ("CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "SECURITY.md", "README.md")


def test_all_that_is_installed_has_a_licence_that_is_allowed_and_stands_in_the_notice() -> None:
    assert list(findings(NOTICE.read_text(encoding="utf-8"), needed("tailbit", SHIPPED))) == []


def test_a_package_that_is_missing_in_the_notice_or_under_the_gpl_is_told() -> None:
    packages = needed("tailbit", SHIPPED)
    assert len(list(findings("", packages))) == len(packages)
    assert refused("GPL-3.0-only") == ["GPL-3.0-only"]
    assert refused("unknown") == ["unknown"]


def test_the_citation_has_the_version_and_licence_of_the_package() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (cited["version"], cited["license"]) == (project["version"], project["license"])


@pytest.mark.parametrize("page", PAGES)
def test_links_between_the_papers_lead_somewhere(page: str) -> None:
    linked = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / page).read_text(encoding="utf-8"))
    assert [target for target in linked if not (ROOT / target).exists()] == []


def steps(workflow: Path) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_what_a_person_runs(workflow: Path) -> None:
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    commands = [step["run"] for step in steps(workflow) if "run" in step]
    assert commands
    for command in commands:
        asked = re.match(r"(?:sudo )?make ([\w-]+)", command)
        assert command == ".ci/run" or (asked is not None and asked[1] in targets), command


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
