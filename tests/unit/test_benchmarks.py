"""`make bench` knows every benchmark, and says of a figure what its target says."""

from __future__ import annotations

import ast
import importlib
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS / "running"))
    for name in ("catalogue", "report"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_every_script_that_runs_is_in_the_catalogue() -> None:
    import catalogue

    paths = (BENCHMARKS / "workloads").glob("*.py")
    scripts = {path.stem for path in paths if '__name__ == "__main__"' in path.read_text()}
    assert scripts - {"asked"} == {benchmark.script for benchmark in catalogue.BENCHMARKS}


def test_a_figure_is_judged_by_its_bound_or_by_that_of_its_own_line() -> None:
    from catalogue import Benchmark, Target
    from report import Verdict, verdicts

    targets = (
        Target("ms", most=5, of={"kind": "a"}, quick=50),
        Target("ratio", least="wanted"),
    )
    benchmark = Benchmark("x", "", ("case", "kind"), targets)
    lines = [
        {"case": 1, "kind": "a", "ms": 7, "ratio": 3, "wanted": 2},
        {"case": 2, "kind": "b", "ms": 7, "ratio": 1.5, "wanted": 2},
    ]
    assert list(verdicts(benchmark, lines)) == [
        Verdict("1, a", "ms", 7.0, "≤ 5", kept=False),
        Verdict("1, a", "ratio", 3.0, "≥ 2", kept=True),
        Verdict("2, b", "ratio", 1.5, "≥ 2", kept=False),
    ]
    assert list(verdicts(benchmark, lines, quick=True)) == [Verdict("1, a", "ms", 7.0, "≤ 50", kept=True)]


def test_the_page_shows_every_line_and_names_what_is_missed(tmp_path: Path) -> None:
    import report

    lines = [{"file": "wide", "peak MB": 1500}, {"file": "narrow", "peak MB": 300}]
    result = {"date": "2026-01-02", "machine": "m", "seconds": 1.0, "load": [0, 0], "lines": lines}
    report.write(tmp_path, {"memory": result})
    page = (tmp_path / "README.md").read_text()
    assert "| wide | 1,500 |" in page
    assert "| narrow | 300 |" in page
    assert "**Missed**: peak MB of wide is 1500, to be ≤ 1000." in page
    assert report.load(tmp_path) == {"memory": result}


def test_the_operations_page_shows_how_all_grows_as_it_was_measured(tmp_path: Path) -> None:
    import report

    shown = BENCHMARKS.parent / "docs" / "operations.md"
    page = tmp_path / "operations.md"
    page.write_bytes(shown.read_bytes())
    report.write_growth(page, report.load(BENCHMARKS / "results"))
    assert page.read_text() == shown.read_text()
    assert "commits of the index | 1, 10,000" in page.read_text()


@pytest.mark.parametrize("path", sorted(BENCHMARKS.rglob("*.py")), ids=lambda path: path.stem)
def test_what_a_benchmark_takes_from_the_product_is_there(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tailbit"):
            module = importlib.import_module(str(node.module))
            absent = {alias.name for alias in node.names if not hasattr(module, alias.name)}
            assert {name for name in absent if find_spec(f"{node.module}.{name}") is None} == set()
