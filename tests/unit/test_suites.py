"""Suites of the night: their files and rooms exist, and a change in a room of theirs runs them at once."""

from __future__ import annotations

import ast
import datetime
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.profiles import commit_number, of_turn
from support.proof import record_suites
from support.suites import (
    BEGIN,
    COMMON,
    END,
    NIGHTLY,
    ROOT,
    Suite,
    digest_of,
    due,
    is_of,
    left_out,
    proven,
    rooms_of,
    summary,
)

FRONT = ("tailbit", "tailbit.errors", "tailbit.api")
"""What nearly every test imports: a change of it concerns every suite as little as one of any other room."""

FOLDERS = ("tables", "index", "checkpoints", "streaming")
"""Packages of tailbit that are folders beside it."""


def product_modules(test: Path) -> set[str]:
    """Return the files of the product that a test module imports by name."""
    names = set[str]()
    for node in ast.walk(ast.parse(test.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "tailbit":
            names.add(node.module)
    files = set[str]()
    for name in names - set(FRONT):
        folders = name.split(".")[1:] if name.split(".")[1] in FOLDERS else name.split(".")
        module = ROOT.joinpath(*folders).with_suffix(".py")
        files.add(
            (module if module.exists() else module.with_suffix("") / "__init__.py")
            .relative_to(ROOT)
            .as_posix()
        )
    return files


@pytest.mark.parametrize("suite", NIGHTLY, ids=lambda suite: suite.subject)
def test_the_files_tests_and_rooms_of_a_suite_exist(suite: Suite) -> None:
    for test in suite.tests:
        file, _, function = test.partition("::")
        text = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert not function or f"def {function}(" in text, test
    assert [room for room in (*COMMON, *suite.rooms) if not (ROOT / room).exists()] == []


@pytest.mark.parametrize("suite", NIGHTLY, ids=lambda suite: suite.subject)
def test_what_a_test_of_a_suite_imports_is_among_its_rooms(suite: Suite) -> None:
    imported = {
        file for test in suite.tests for file in product_modules(ROOT / "tests" / test.partition("::")[0])
    }
    rooms = rooms_of(suite)
    assert {
        file for file in imported if not any(f"{file}/".startswith(f"{room}/") for room in rooms)
    } == set()


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with a file in each room of each suite."""
    root = tmp_path_factory.mktemp("checkout")
    git(root, "init", "-q")
    for room in {room for suite in NIGHTLY for room in rooms_of(suite)}:
        (root / room).mkdir(parents=True, exist_ok=True)
        (root / room / "file.py").write_text("1")
    return root


@pytest.mark.parametrize("suite", NIGHTLY, ids=lambda suite: suite.subject)
def test_a_change_in_any_room_of_a_suite_runs_it_and_one_elsewhere_does_not(
    checkout: Path, suite: Suite
) -> None:
    before = digest_of(suite, checkout)
    for room in rooms_of(suite):
        file = checkout / room / "file.py"
        file.write_text("2")
        assert digest_of(suite, checkout) != before, room
        file.write_text("1")
        added = checkout / room / "deeper.py"
        added.write_text("1")
        assert digest_of(suite, checkout) != before, room
        added.rename(checkout / "elsewhere.py")
        assert digest_of(suite, checkout) == before, room


def test_nothing_is_left_out_where_it_is_unknown_what_has_changed(tmp_path: Path) -> None:
    assert digest_of(NIGHTLY[0], tmp_path) is None
    assert proven(tmp_path / "no such page") == {}
    assert list(due(dict.fromkeys((suite.subject for suite in NIGHTLY), None), {})) == list(NIGHTLY)


def test_a_suite_is_due_until_a_page_says_that_it_passed_with_the_files_of_today(tmp_path: Path) -> None:
    first, second, *others = NIGHTLY
    page, digest = tmp_path / "page.md", "0123456789abcdef" * 2
    page.write_text(f"a\n{BEGIN}\n\nold\n\n{END}\nb\n")
    digests = {suite.subject: digest for suite in NIGHTLY}
    assert list(due(digests, proven(page))) == list(NIGHTLY)
    record_suites(page, {first.subject: digest, second.subject: digest[::-1]}, datetime.date(2026, 1, 31))
    assert list(due(digests, proven(page))) == [second, *others]
    record_suites(page, {second.subject: digest}, datetime.date(2026, 2, 1))
    assert list(due(digests, proven(page))) == others
    assert proven(page)[first.subject] == ("2026-01-31", digest)
    assert "old" not in page.read_text()


def test_what_is_recorded_on_the_page_changes_no_digest(tmp_path: Path) -> None:
    pages = Suite("pages", (), ("docs",))
    git(tmp_path, "init", "-q")
    page = tmp_path / "docs" / "testing.md"
    page.parent.mkdir()
    page.write_text(f"a\n{BEGIN}\n\nold\n\n{END}\nb\n")
    before = digest_of(pages, tmp_path)
    record_suites(page, {NIGHTLY[0].subject: "0123456789abcdef" * 2}, datetime.date(2026, 1, 31))
    assert digest_of(pages, tmp_path) == before
    page.write_text(page.read_text() + "c")
    assert digest_of(pages, tmp_path) != before


def git(folder: Path, *arguments: str) -> str:
    identity = {
        f"GIT_{who}_{what}": "t@e.st" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    command = ["git", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=os.environ | identity, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_pytest_leaves_out_what_the_suites_say_and_names_it() -> None:
    files = [f"tests/{test}" for suite in NIGHTLY for test in suite.tests if "::" not in test]
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "--since-proof", *files]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    collected = [line for line in listing.splitlines() if "::" in line and line.startswith("tests/")]
    omitted = left_out()
    assert not [line for line in collected if any(is_of(line, suite) for suite in omitted)]
    for suite in NIGHTLY:
        if suite not in omitted and "::" not in suite.tests[0]:
            assert any(is_of(line, suite) for line in collected), suite.subject
    assert [line for line in summary(omitted) if line not in listing] == []


def test_three_commits_in_a_row_have_every_test_that_is_proved_by_thirds() -> None:
    for count in (1, 2, 3, 7, 20):
        turns = [set(of_turn(count, turn)) for turn in range(11, 14)]
        assert set.union(*turns) == set(range(count))
        assert min(map(len, turns)) > 0
        assert sum(map(len, turns)) == max(3, count)


def test_a_commit_has_the_next_number_and_a_folder_without_a_repository_none(tmp_path: Path) -> None:
    assert commit_number(tmp_path) == 0
    numbers = list[int]()
    for command in (["init", "-q"], ["commit", "-q"], ["commit", "-q"]):
        committing = ["--allow-empty", "-m", "x"] if command[0] == "commit" else []
        author = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *author, *command, *committing], cwd=tmp_path, check=True)
        numbers.append(commit_number(tmp_path))
    assert numbers == [0, 1, 2]
