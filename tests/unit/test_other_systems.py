"""Questions are answered on every system; what writes an index or accelerates Spark is refused elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tailbit
import tailbit.spark
from support.golden import unpack
from support.other_system import LACKING, answers
from support.pages import ROOT
from tailbit.errors import RequirementError
from tailbit.streaming import job
from tailbit.streaming.java.session import check_requirements


@pytest.mark.by_thirds
@pytest.mark.parametrize("system", LACKING)
def test_questions_need_neither_fork_nor_locks_nor_slashes_of_unix(system: str, tmp_path: Path) -> None:
    path = unpack(9, tmp_path)
    asked = [sys.executable, "-m", "support.other_system", system, path]
    done = subprocess.run(asked, cwd=ROOT / "tests", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads(json.dumps(answers(path)))


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_what_writes_an_index_or_accelerates_is_refused_by_name_on_another_system(
    system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = unpack(9, tmp_path)
    session: Any = None
    monkeypatch.setattr(sys, "platform", system)
    for refused in (
        check_requirements,
        lambda: job.run(path, once=True),
        lambda: tailbit.open(path).create_index("another", "upper(v)"),
        lambda: tailbit.open(path).drop_index("bounds"),
        lambda: tailbit.open(path).where().to_delta(str(tmp_path / "view")),
        lambda: tailbit.spark.accelerate(session),
        lambda: tailbit.spark.delete("t", "k = 1", spark=session),
        lambda: tailbit.spark.upsert("t", session, on=["k"]),
    ):
        with pytest.raises(RequirementError, match=f"on Linux; this is {system}") as told:
            refused()
        assert "deploy/README.md" in told.value.hint
    assert tailbit.open(path).where("k = -120").count() == 1
