"""docs/delta-support.md says what the tests prove, no more and no less."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "delta-support.md"


def test_the_support_page_is_what_the_tests_prove(tmp_path: Path) -> None:
    made = tmp_path / "page.md"
    collect = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", "tests"]
    subprocess.run(
        [*collect, "--support-page", str(made)], cwd=ROOT, check=True, capture_output=True, timeout=120
    )
    assert made.read_text() == PAGE.read_text(), "run: make support-page"
