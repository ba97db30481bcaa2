"""A browser opens every page of the site, wide and as on a telephone, light and dark."""

from __future__ import annotations

import html
import json
import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support.browser import asked, installed
from support.site_versions import NEXT, build

pytestmark = pytest.mark.skipif(
    installed() is None, reason="no browser: neither Chromium nor Chrome is installed"
)

WIDTHS = (1280, 360)
_LOOK = "_look"
_LISTENER = """<script>
window.told = [];
const lost = e => e.message || e.target.src || e.target.href;
window.addEventListener("error", e => told.push("error: " + lost(e)), true);
window.addEventListener("unhandledrejection", e => told.push("rejected: " + e.reason));
const before = console.error;
console.error = (...what) => { told.push("console: " + what.join(" ")); before(...what); };
const asked = window.fetch;
window.fetch = (...what) => asked(...what).then(answer => {
  if (!answer.ok) told.push("fetch: " + answer.status + " " + answer.url);
  return answer;
});
</script>"""
"""What a page does first: it remembers each error."""

_LOOKER = """<!doctype html><meta charset="utf-8"><pre id="seen"></pre><script>
const pages = %s, width = %d, seen = {};
async function look(page) {
  const frame = document.createElement("iframe");
  frame.style.cssText = `width: ${width}px; height: 800px; border: 0`;
  frame.src = page;
  await new Promise(done => { frame.onload = done; document.body.append(frame); });
  await new Promise(done => setTimeout(done, 300));
  const root = frame.contentDocument.documentElement, body = frame.contentDocument.body;
  const wide = [...body.querySelectorAll("*")].filter(
    e => e.getBoundingClientRect().right > width + 1 && !hides(e, body)).map(e => e.outerHTML.slice(0, 80));
  seen[page] = {
    told: frame.contentWindow.told, overflow: root.scrollWidth - root.clientWidth, wide: wide.slice(0, 3),
    scheme: body.getAttribute("data-md-color-scheme"),
    background: frame.contentWindow.getComputedStyle(body).backgroundColor,
    versions: [...body.querySelectorAll(".md-version__link")].map(e => e.textContent.trim()),
  };
  frame.remove();
}
function hides(element, body) {
  for (let e = element; e && e !== body; e = e.parentElement) {
    const style = getComputedStyle(e);
    if (style.overflowX !== "visible" || style.position === "fixed") return true;
  }
  return false;
}
(async () => {
  for (const page of pages) await look(page);
  document.getElementById("seen").textContent = JSON.stringify(seen);
})();
</script>"""


class Seen(NamedTuple):
    """What a browser says of the pages, and which paths it asked for and did not get."""

    pages: dict[str, dict[str, Any]]
    missing: list[str]


class _Site(SimpleHTTPRequestHandler):
    """Serves the site, in whose pages errors are remembered."""

    missing: list[str]
    looker: str

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path.strip("/") == _LOOK:
            self._answer(self.looker)
        elif path.endswith(".html") and Path(self.translate_path(path)).is_file():
            text = Path(self.translate_path(path)).read_text(encoding="utf-8")
            self._answer(text.replace("<head>", f"<head>{_LISTENER}", 1))
        else:
            super().do_GET()

    def _answer(self, text: str) -> None:
        data = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        self.missing.append(f"{code} {self.path}")
        super().send_error(code, message, explain)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build(folder)
    return folder


@pytest.fixture
def look(site: Path, tmp_path: Path) -> Iterator[Any]:
    """Open pages at a width: `look(pages, width, *options of the browser)`."""
    missing: list[str] = []
    handler = type("Site", (_Site,), {"missing": missing, "looker": ""})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def opened(pages: list[str], width: int, *options: str) -> Seen:
        handler.looker = _LOOKER % (json.dumps(pages), width)  # type: ignore[attr-defined]
        url = f"http://127.0.0.1:{server.server_port}/{_LOOK}"
        # The site remembers in the profile of a browser what its reader chose.
        profile = tmp_path / "-".join(("browser", *options)) / "page"
        profile.parent.mkdir(exist_ok=True)
        drawn = asked("--dump-dom", url, profile, WIDTHS[0] + 40, 900, 120_000, *options).decode()
        [text] = re.findall(r'<pre id="seen">(.*?)</pre>', drawn, re.DOTALL)
        assert text, "the browser did not come to the end of the pages"
        return Seen(json.loads(html.unescape(text)), [one for one in missing if "favicon" not in one])

    yield opened
    server.shutdown()
    server.server_close()


def pages_of(site: Path) -> list[str]:
    """The pages; that of a lost link names its files as from the root of a server."""
    found = sorted(page for page in (site / NEXT).rglob("*.html") if page.name != "404.html")
    return [f"/{page.relative_to(site).as_posix()}" for page in found]


@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_has_an_error_or_a_lost_file_or_is_wider_than_the_window(
    site: Path, look: Any, width: int
) -> None:
    pages = pages_of(site)
    seen = look(pages, width)
    assert len(pages) > 25
    assert sorted(seen.pages) == pages
    assert {page: one["told"] for page, one in seen.pages.items() if one["told"]} == {}
    assert {page: one["wide"] for page, one in seen.pages.items() if one["overflow"] > 1 or one["wide"]} == {}
    assert seen.missing == []


def test_a_page_is_dark_where_the_reader_wants_it_so_and_names_the_versions(look: Any) -> None:
    page = f"/{NEXT}/guide.html"
    light = look([page], WIDTHS[0]).pages[page]
    dark = look([page], WIDTHS[0], "--force-dark-mode").pages[page]
    assert (light["scheme"], dark["scheme"]) == ("default", "slate")
    brightness = [sum(map(int, re.findall(r"\d+", one["background"])[:3])) for one in (light, dark)]
    assert brightness[0] > 600
    assert brightness[1] < 200
    assert [version for version in light["versions"] if NEXT in version]


def test_a_page_that_errs_or_is_too_wide_is_seen(site: Path, look: Any) -> None:
    wrong = {
        "error.html": "<script>undefined.x</script>",
        "lost.html": '<img src="lost.png">',
        "wide.html": '<div style="width: 2000px">x</div>',
        "console.html": '<script>console.error("told")</script>',
    }
    for name, body in wrong.items():
        (site / name).write_text(f"<!doctype html><html><head></head><body>{body}</body></html>")
    seen = look([f"/{name}" for name in wrong], WIDTHS[1])
    for name in wrong:
        (site / name).unlink()
    told = {page: one["told"] for page, one in seen.pages.items()}
    assert told["/console.html"] == ["console: told"]
    assert "TypeError" in told["/error.html"][0]
    assert "lost.png" in told["/lost.html"][0]
    assert seen.missing == ["404 /lost.png"]
    assert seen.pages["/wide.html"]["overflow"] > 1000
