"""A hook of mkdocs: pages that stand outside of `docs/` become pages of the site, and links follow them.

Pages keep the links by which they are read in the repository. In the site README.md is the first page, and
what stands in `docs/` lies beside it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDERS = ("benchmarks", "benchmarks/results", "deploy", "examples", "examples/reader")
SUFFIXES = (".md", ".svg", ".py", ".ipynb", ".java")
_LINK = re.compile(r"(\]\()(?!\w+:|#|/)([^)#\s]+)(#[^)\s]*)?(\))")


def outside() -> list[str]:
    """Return the files outside of `docs/` that the site shows or that its pages link to."""
    lessons = [path.relative_to(ROOT) for folder in FOLDERS for path in sorted((ROOT / folder).glob("*"))]
    shown = [path for path in lessons if path.suffix in SUFFIXES and path.parts[0] != "benchmarks"]
    figures = [path for path in lessons if path.suffix in (".md", ".svg") and path.parts[0] == "benchmarks"]
    return ["README.md", "SECURITY.md", "CHANGELOG.md", *(path.as_posix() for path in [*shown, *figures])]


def in_site(path: str) -> str:
    """Return the place in the site of a file of the repository."""
    return "index.md" if path == "README.md" else path.removeprefix("docs/")


def in_repository(place: str) -> str:
    """Return the file of the repository that a place in the site shows."""
    return place if place in outside() else "README.md" if place == "index.md" else f"docs/{place}"


def linked(text: str, place: str) -> str:
    """Return a page with its links as they are in the site."""
    page = in_repository(place)

    def follow(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page), match[2]))
        there = posixpath.relpath(in_site(target), posixpath.dirname(place) or ".")
        return f"{match[1]}{there}{match[3] or ''}{match[4]}"

    # Code is left as it is: `a[0](b)` is no link.
    pieces = re.split(r"(^```.*?^```|`[^`\n]+`)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(piece if piece.startswith("`") else _LINK.sub(follow, piece) for piece in pieces)


def piped(text: str) -> str:
    """Return a page whose tables have a plain `|` in code: GitHub wants a backslash, which mkdocs shows."""
    in_tables = re.compile(r"^\|.*$", re.MULTILINE)
    plain = re.compile(r"`[^`\n]+`")
    return in_tables.sub(
        lambda line: plain.sub(lambda code: code[0].replace("\\|", "|"), line[0]),
        text,
    )


def on_files(files: Any, config: Any) -> Any:
    """Add the files from outside of `docs/`; mkdocs calls it."""
    from mkdocs.structure.files import File

    for path in outside():
        files.append(File.generated(config, in_site(path), abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return a page as the site shows it; mkdocs calls it."""
    return piped(linked(markdown, page.file.src_uri))
