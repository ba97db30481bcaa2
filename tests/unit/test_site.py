"""The pages are a site: every page in its place, every link good, and nothing loaded from elsewhere."""

from __future__ import annotations

import json
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from support.pages import ROOT
from support.site_pages import in_repository, in_site, linked, piped
from support.site_versions import NEXT, build


class _Page(HTMLParser):
    """What a page links to, what it loads, and the places in it that may be linked to."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") in ("stylesheet", "preconnect", "icon"):
            self.loads.append(given["href"])
        elif "src" in given:
            self.loads.append(given["src"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make site` builds it, where every warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    build(folder)
    return folder / NEXT


def _pages(site: Path) -> dict[Path, _Page]:
    return {file.resolve(): _Page(file) for file in site.rglob("*.html") if file.name != "404.html"}


def test_every_link_of_the_site_leads_somewhere(site: Path) -> None:
    pages = _pages(site)
    lost = []
    for file, page in pages.items():
        for link in page.links:
            target, anchor = urldefrag(link)
            there = (file.parent / unquote(target)).resolve() if target else file
            if "://" in link or there == site.resolve():
                continue
            if not there.exists() or (
                anchor and there in pages and unquote(anchor) not in pages[there].anchors
            ):
                lost.append((file.name, link))
    assert lost == []
    assert len(pages) > 15


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    loads = {load for page in _pages(site).values() for load in page.loads}
    assert loads
    assert [load for load in loads if "//" in load] == []


def test_every_page_of_the_documentation_can_be_found_by_its_words(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    pages = {f"{path.stem}.html" for path in (ROOT / "docs").glob("*.md")}
    assert pages | {"index.html", "examples/index.html"} <= found


def test_each_release_has_a_folder_of_its_newest_pages_and_the_first_page_leads_to_the_newest(
    tmp_path: Path,
) -> None:
    tree = tmp_path / "tree"
    (tree / "docs").mkdir(parents=True)
    (tree / "mkdocs.yml").write_text("site_name: tree\n")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run(["git", "init", "--quiet"], cwd=tree, check=True)
    for version in ("0.9.0", "0.10.0", "0.10.1"):
        (tree / "pyproject.toml").write_text(f'[project]\nversion = "{version}"\n')
        (tree / "docs" / "index.md").write_text(f"# Of {version}\n")
        subprocess.run([*git, "add", "."], cwd=tree, check=True)
        subprocess.run([*git, "commit", "--quiet", "-m", version], cwd=tree, check=True)
        subprocess.run(["git", "tag", f"v{version}"], cwd=tree, check=True)
    (tree / "docs" / "index.md").write_text("# Of the checkout\n")
    built = tmp_path / "site"
    build(built, tree)
    known = json.loads((built / "versions.json").read_text())
    assert [(one["version"], one["title"], one["aliases"]) for one in known] == [
        ("0.10", "0.10.1", ["latest"]),
        ("0.9", "0.9.0", []),
        (NEXT, f"0.10.1 ({NEXT})", []),
    ]
    shown = [(built / one["version"] / "index.html").read_text() for one in known]
    told = ["Of 0.10.1", "Of 0.9.0", "Of the checkout"]
    assert all(text in page for text, page in zip(told, shown, strict=True))
    assert "url=0.10/index.html" in (built / "index.html").read_text()


def test_a_link_of_a_page_follows_it_into_the_site() -> None:
    assert in_site("README.md") == "index.md"
    assert in_repository("guide.md") == "docs/guide.md"
    assert linked("[a](docs/guide.md#spark)", "index.md") == "[a](guide.md#spark)"
    assert linked("[a](../README.md), [b](cli.md)", "guide.md") == "[a](index.md), [b](cli.md)"
    assert linked("[a](../docs/decisions.md)", "benchmarks/README.md") == "[a](../decisions.md)"
    assert linked("`x[0](a.md)` [a](https://a.b)", "guide.md") == "`x[0](a.md)` [a](https://a.b)"


def test_a_bar_in_code_of_a_table_is_shown_without_its_backslash(site: Path) -> None:
    assert piped("| `a \\| b` \\| | c |\n`d \\| e`") == "| `a | b` \\| | c |\n`d \\| e`"
    shown = (site / "functions.html").read_text(encoding="utf-8")
    assert "<code>&amp; | ^ ~</code>" in shown
