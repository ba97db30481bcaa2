"""The pages of what is supported of each format say what the tests prove, no more and no less."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from support.waiting import HANG_S
from tailbit.index.keys import KEY_TYPES
from tailbit.tables.delta.protocol import READ_ELSEWHERE, READABLE
from tailbit.tables.hudi.gate import READ

UNTRIED = {"geospatial", "variantShredding", "redirectReaderWriter", "redirectWriterOnly", "catalogOwned"}
"""Spark here writes no table with the first two; the others stand on the page under their common name."""

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "delta-support.md"
HUDI = ROOT / "docs" / "hudi-support.md"
PAGES = {
    "--support-page": PAGE,
    "--hudi-support-page": HUDI,
    "--iceberg-support-page": ROOT / "docs" / "iceberg-support.md",
}
MARKED = re.compile(r"supports(_hudi|_iceberg)?\(|\bclaimed\(")


def test_the_support_pages_are_what_the_tests_prove(tmp_path: Path) -> None:
    made = {option: tmp_path / page.name for option, page in PAGES.items()}
    collect = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider"]
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    marked = [str(file) for file in files if MARKED.search(file.read_text())]
    subprocess.run(
        [*collect, *marked, *(text for option, page in made.items() for text in (option, str(page)))],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=HANG_S,
    )
    for option, page in PAGES.items():
        assert made[option].read_text() == page.read_text(), "run: make support-page"


def section(title: str) -> str:
    found = PAGE.read_text().split(f"\n## {title}\n")[1]
    return found.split("\n## ")[0]


def test_every_feature_that_the_gate_knows_has_a_row() -> None:
    features = section("Table features")
    known = {name.removesuffix("-preview") for name in READABLE | READ_ELSEWHERE.keys()}
    assert [name for name in sorted(known - UNTRIED) if name not in features] == []


def test_every_type_that_has_keys_has_a_row() -> None:
    spelled = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
    types = section("Types") + section("Schema")
    names = [spelled.get(name, name) for name in (*KEY_TYPES, "decimal", "array", "map", "struct")]
    assert [name for name in names if name not in types] == []


def test_every_property_that_the_gate_of_hudi_knows_has_a_row() -> None:
    page = HUDI.read_text()
    assert [name for name in (*READ, "hoodie.table.keygenerator.class") if f"`{name}`" not in page] == []
