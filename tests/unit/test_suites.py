"""Suites of the night: their files and rooms exist, and a change in a room of theirs runs them at once."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.profiles import commit_number, of_turn
from support.suites import (
    COMMON,
    NIGHTLY,
    ROOT,
    Suite,
    changed_files,
    is_of,
    left_out,
    proven_commit,
    summary,
    unchanged,
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
        files.add((module if module.exists() else module.with_suffix("")).relative_to(ROOT).as_posix())
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
    missing = {file for file in imported if suite in unchanged([file])}
    assert missing == set()


@pytest.mark.parametrize("suite", NIGHTLY, ids=lambda suite: suite.subject)
def test_a_change_in_any_room_of_a_suite_runs_it_and_one_elsewhere_does_not(suite: Suite) -> None:
    assert suite in unchanged(["tests/unit/index/test_keys.py", "index/keys/no_such_file.py"])
    for room in (*COMMON, *suite.rooms, *(f"tests/{test.partition('::')[0]}" for test in suite.tests)):
        assert suite not in unchanged([room]), room
        assert suite not in unchanged(["elsewhere", f"{room}/deeper/file.py"]), room
        assert suite in unchanged([f"{room}x"]) or any(f"{room}x".startswith(r) for r in suite.rooms), room


def test_nothing_is_left_out_where_it_is_unknown_what_has_changed(tmp_path: Path) -> None:
    assert unchanged(None) == []
    assert changed_files("0123456", tmp_path) is None
    assert changed_files(None) is None
    assert proven_commit(tmp_path / "no such page") is None


def git(folder: Path, *arguments: str) -> str:
    identity = {
        f"GIT_{who}_{what}": "t@e.st" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    command = ["git", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=os.environ | identity, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_what_differs_from_a_commit_is_what_was_committed_changed_or_added_since(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    for name in ("old", "committed", "edited"):
        (tmp_path / name).write_text("1")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "proven")
    proven = git(tmp_path, "rev-parse", "HEAD")
    (tmp_path / "committed").write_text("2")
    git(tmp_path, "commit", "-qam", "later")
    (tmp_path / "edited").write_text("2")
    (tmp_path / "added").write_text("1")
    assert changed_files(proven, tmp_path) == ["committed", "edited", "added"]
    assert changed_files(proven[::-1], tmp_path) is None


@pytest.mark.parametrize(
    ("row", "commit"),
    [
        ("| 2026-11-28 | 1 | `c154f7ef` | 9,000 | 0 | 43 |", "c154f7ef"),
        ("| 2026-11-28 | 1 | `c154f7ef` | 9,000 | 2 | 43 |", None),
        ("| 2026-11-28 | 1 | 9,000 | 0 | 43 |", None),
    ],
)
def test_only_a_commit_of_which_no_test_failed_is_proven(
    tmp_path: Path, row: str, commit: str | None
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"a\n<!-- proof: begin -->\n\n| date |\n|---|\n{row}\n\n<!-- proof: end -->\n")
    assert proven_commit(page) == commit


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
        assert sum(map(len, turns)) == count


def test_a_commit_has_the_next_number_and_a_folder_without_a_repository_none(tmp_path: Path) -> None:
    assert commit_number(tmp_path) == 0
    numbers = list[int]()
    for command in (["init", "-q"], ["commit", "-q"], ["commit", "-q"]):
        committing = ["--allow-empty", "-m", "x"] if command[0] == "commit" else []
        author = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *author, *command, *committing], cwd=tmp_path, check=True)
        numbers.append(commit_number(tmp_path))
    assert numbers == [0, 1, 2]
