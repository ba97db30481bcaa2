"""The lessons in `examples/` run, and print what stands beside them."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support import notebook
from support.pages import ROOT, text_of

EXAMPLES = ROOT / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))
APART = sorted([*EXAMPLES.glob("02_*.py"), *EXAMPLES.glob("06_*.py")])
"""Lessons that do not ask the table of lesson 1."""

NOTEBOOK = EXAMPLES / "05_answers_in_a_notebook.ipynb"
LESSONS = text_of("examples/README.md")
PRINTED = dict(re.findall(r"^\$ python examples/(\S+)\n(.*?)^```$", LESSONS, re.MULTILINE | re.DOTALL))


def run(script: str, folder: Path) -> str:
    """Run a lesson as a person does, and return what it prints."""
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / script)],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def lessons(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A folder in which lessons 1, 3 and 4 have been run in turn, and what each printed."""
    folder = tmp_path_factory.mktemp("lessons")
    return folder, {script.name: run(script.name, folder) for script in SCRIPTS if script not in APART}


@pytest.mark.parametrize("script", [script.name for script in SCRIPTS if script not in APART])
def test_a_lesson_prints_what_stands_beside_it(lessons: tuple[Path, dict[str, str]], script: str) -> None:
    _, printed = lessons
    assert printed[script] == PRINTED[script]


@pytest.mark.parametrize("script", [script.name for script in APART])
def test_a_lesson_in_a_session_of_its_own_prints_what_stands_beside_it(tmp_path: Path, script: str) -> None:
    assert run(script, tmp_path) == PRINTED[script]


def test_the_notebook_shows_what_is_kept_in_it(lessons: tuple[Path, dict[str, str]]) -> None:
    folder, _ = lessons
    pytest.importorskip("matplotlib")
    kept = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    shown, before = notebook.outputs(kept, folder), [cell["outputs"] for cell in notebook.code_cells(kept)]
    pictures = [[_picture(output) for cell in cells for output in cell] for cells in (shown, before)]
    assert shown == before
    # Letters are drawn a little differently by other releases of Matplotlib.
    plots = [(new, old) for new, old in zip(*pictures, strict=True) if old is not None]
    assert len(plots) == 1
    for new, old in plots:
        assert new is not None
        assert new.shape == old.shape
        assert abs(new - old).mean() < 0.02
        assert (old.min(axis=2) < 0.9).mean() > 0.1


def _picture(output: dict[str, Any]) -> Any:
    """Take the picture out of what a cell shows; return its points, or None where there is no picture."""
    from matplotlib.image import imread

    coded = output.get("data", {}).pop("image/png", None)
    return None if coded is None else imread(io.BytesIO(base64.b64decode(coded)))


def test_a_lesson_is_short_and_stands_on_the_page_of_lessons() -> None:
    lengths = {script.name: len(script.read_text(encoding="utf-8").splitlines()) for script in SCRIPTS}
    assert {name: length for name, length in lengths.items() if length > 60} == {}
    assert sorted(PRINTED) == [script.name for script in SCRIPTS]
    assert f"]({NOTEBOOK.name})" in LESSONS
