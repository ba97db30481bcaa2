"""The papers at the root: licence, notice, how to contribute and cite, and the workflows of a forge."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

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
    """The steps of all jobs of a workflow."""
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
