"""A run that was stopped early leaves no archive of classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tailbit.errors import RequirementError
from tailbit.streaming import archive_classes as module
from tailbit.streaming.archive_classes import archive_classes


def test_a_run_that_a_signal_ended_leaves_no_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A signal ends a run with 0, whether Spark has started or not.
    def stopped(*_: Any, **__: Any) -> int:
        return 0

    monkeypatch.setenv(module.SETTING, str(tmp_path / "classes"))
    monkeypatch.setattr(module, "run", stopped)
    with pytest.raises(RequirementError, match="stopped before the classes were known"):
        archive_classes()
    assert list((tmp_path / "classes").iterdir()) == []
