"""The doors between a table format and the house stay closed: what is Delta's stays below.

Above `tables`, no module counts with versions, which need not be contiguous, and none speaks of Delta but
those that are named here. The index lies in a Delta table of its own, which `index/store` keeps.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ABOVE = ("tailbit", "index", "checkpoints", "streaming")
OF_DELTA = re.compile(
    r"\bDelta(?!s)|[a-z]Delta[A-Z]|_delta_log|\bVACUUM\b|\bRESTORE\b|\bFSCK\b|\bREORG\b|DeletionVector"
)

SPEAKS = {
    "streaming/config/check.py": "refuses jars of Delta of another Spark",
    "tailbit/answer.py": "to_delta, which writes for readers of Delta",
    "tailbit/outputs/__init__.py": "the same",
    "tailbit/outputs/delta_view.py": "the same",
    "tailbit/spark/__init__.py": "compares its views with those of Delta",
    "tailbit/spark/acceleration.py": "Spark reads Delta tables, whose scans the index accelerates",
    "tailbit/spark/request.py": "the same",
    "tailbit/spark/compiled.py": "the same",
    "tailbit/spark/locating.py": "names plain SQL on Delta tables in place of functions that are gone",
    "tailbit/spark/jar.py": "compiles against Delta's jar",
    "tailbit/spark/session.py": "Spark's reader of Delta removes the same metadata",
    "tailbit/spark/writing/__init__.py": "writes Delta tables, in transactions of Delta's own",
    "tailbit/spark/writing/deletion.py": "the same",
    "tailbit/spark/writing/target.py": "the same",
    "tailbit/spark/writing/upsert.py": "the same",
    "tailbit/cli/keys.py": "the same",
    "streaming/java/session.py": "the settings of a session that writes Delta tables",
    "tailbit/cli/questions.py": "to_delta, as a command",
    "tailbit/cli/main.py": "the command line's own page, which says what tailbit is for",
    "tailbit/base/errors.py": "DeletionVectorError, the HiddenRowsError of Delta",
    "tailbit/vacuumed.py": "names VACUUM as an example",
    "index/sql/generated.py": "the protocol in which generated columns are described",
    "index/sql/ddl/refusals.py": "statements of Spark that are refused",
    "index/sql/ddl/pieces.py": "delta.`path` is how Spark's SQL names a path",
    "index/kinds/kind.py": "the index's own table",
    "index/index_files.py": "the same",
}
"""Modules that may speak of Delta, and why."""

OF_ICEBERG = re.compile(r"iceberg", re.IGNORECASE)

NAMES_ICEBERG = {
    "tailbit/base/errors.py": "CatalogError",
    "tailbit/cli/main.py": "the command line's own page, which says what tailbit is for",
    "tailbit/upkeep/statements.py": "pyiceberg knows the catalogs that statements may name",
}
"""Modules that may name Iceberg, and why; none knows more of it than its name."""

COUNTS = {
    "checkpoints/offset.py": "an offset's version bounds what is read",
    "index/maintenance/alter.py": "the version of the settings",
    "index/maintenance/create.py": "the same",
    "index/maintenance/vacuum.py": "the index's own table, which is a Delta table",
}
"""Modules that may add to a version, and why."""

VERSIONS = re.compile(r"version|\bhead\b|covered|stands_at|earliest|\btarget\b")
"""Names of numbers that are versions."""

ELSEWHERE = ("index/store/", "index/roaring/")
"""The index's own table, and bitmaps, whose heads and targets are no versions."""


def modules() -> Iterator[tuple[str, str]]:
    """The modules above the formats, with their text."""
    for folder in ABOVE:
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(ELSEWHERE):
                yield name, path.read_text(encoding="utf-8")


def counts(text: str) -> list[str]:
    """The expressions of a module that add to a version or count through versions."""
    return [ast.unparse(node) for node in ast.walk(ast.parse(text)) if _counts(node)]


def _counts(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        sides = (node.left, node.right)
        constant = any(isinstance(side, ast.Constant) and side.value == 1 for side in sides)
        return constant and any(VERSIONS.search(_last_name(side)) for side in sides)
    ranges = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range"
    return ranges and any(VERSIONS.search(_last_name(argument)) for argument in node.args)


def _last_name(node: ast.expr) -> str:
    """The name of a variable, attribute or called function; empty for any other expression."""
    if isinstance(node, ast.Call):
        return _last_name(node.func)
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def test_only_named_modules_above_the_formats_speak_of_delta() -> None:
    speaking = {name for name, text in modules() if OF_DELTA.search(text)}
    assert speaking == set(SPEAKS)


def test_above_the_formats_iceberg_is_a_name_alone() -> None:
    assert {name for name, text in modules() if OF_ICEBERG.search(text)} == set(NAMES_ICEBERG)
    assert not [name for name, text in modules() if "tables.iceberg" in text]


def test_only_named_modules_above_the_formats_count_with_versions() -> None:
    counting = {name: sums for name, text in modules() if (sums := counts(text))}
    assert counting.keys() == COUNTS.keys(), counting
