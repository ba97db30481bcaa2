"""What the rules of the house count: circles of folders, names that say nothing, and lines of modules.

`python -m support.house` writes the record anew (`tests/unit/house.json`): after names were mended or a room
was moved. It refuses where something has become more.
"""

from __future__ import annotations

import ast
import json
import sys
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "tests" / "unit" / "house.json"
FOLDERS = ("tailbit", "tables", "index", "checkpoints", "streaming")

EMPTY = frozenset(
    "at part parts known wanted left kept held believed together places crew door mine "
    "found its asked told picked sought taken made one each way what it them they".split()
)
"""Names that do not say what they hold or do: particles, participles, pronouns."""


@lru_cache
def modules() -> dict[str, str]:
    """Return the text of every module of the product by its path in the repository."""
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
    }


def names(text: str) -> Iterator[str]:
    """Yield the names that a module gives: to variables, attributes, arguments, functions and classes."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name


def empty_names() -> Counter[str]:
    """Count per folder the names that say nothing, the names of its modules included."""
    counts: Counter[str] = Counter()
    for path, text in modules().items():
        given = [PurePosixPath(path).stem, *names(text)]
        counts[_folder(path)] += sum(name.strip("_").lower() in EMPTY for name in given)
    return +counts


def circles() -> set[str]:
    """Return the folders that import themselves by way of others that are neither above nor below them."""
    imported: dict[str, set[str]] = {_folder(path): set() for path in modules()}
    for path, text in modules().items():
        importer = _folder(path)
        others = {_folder(file) for name in _imports(text) if (file := _file(name))}
        imported[importer] |= {other for other in others if not _related(importer, other)}
    reachable = {folder: _reached(folder, imported) for folder in imported}
    return {folder for folder, reached in reachable.items() if folder in reached}


def _reached(start: str, imported: dict[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    ahead = [*imported[start]]
    while ahead:
        folder = ahead.pop()
        if folder not in reached:
            reached.add(folder)
            ahead += imported[folder]
    return reached


def _related(one_folder: str, other: str) -> bool:
    """Return whether folders are the same, or one is below the other."""
    return f"{one_folder}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one_folder}/")


def _imports(text: str) -> Iterator[str]:
    """Yield the modules of the product that a module imports: at once, in a function, lazily, for types."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("tailbit."))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "tailbit":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "lazy":
            yield from (str(name.value) for name in node.args if isinstance(name, ast.Constant))


def _file(name: str) -> str | None:
    """Return the path of the module that an imported name is, or is of; None if it is none of the product."""
    parts = name.split(".")
    if parts[0] != "tailbit":
        return None
    inner = parts[1:] if len(parts) > 1 and parts[1] in FOLDERS[1:] else parts
    for end in range(len(inner), 0, -1):
        path = "/".join(inner[:end])
        for file in (f"{path}.py", f"{path}/__init__.py"):
            if file in modules():
                return file
    return None


def _folder(path: str) -> str:
    return PurePosixPath(path).parent.as_posix()


def record() -> dict[str, object]:
    return {"circles": sorted(circles()), "empty names": dict(sorted(empty_names().items()))}


def main() -> int:
    before = json.loads(RECORD.read_text(encoding="utf-8"))
    names_before, names_now = sum(before["empty names"].values()), sum(empty_names().values())
    circles_before, circles_now = len(before["circles"]), len(circles())
    if names_now > names_before or circles_now > circles_before:
        print(f"names that say nothing: {names_before} before, {names_now} now")
        print(f"folders in circles: {circles_before} before, {circles_now} now")
        return 1
    RECORD.write_text(json.dumps(record(), indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
