"""Chromium without a window: what a page holds once it is drawn, and a picture of it."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

from support.waiting import HANG_S

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")

PICTURES = "TAILBIT_PICTURES"
"""The folder for pictures that are kept: `make pictures` sets it to that of the documentation."""

_FRAME = 200
"""Pixels of a window, at most, that are not of the page."""

_FOLDERS = re.compile(r"(?<=[\s>])/\S*/(?=\w+/\w+/\w+\.py:)|(?<=[\s>])/\S*/(?=\w+/\w+\.py:)")
"""Folders of this machine before the name of a Python file."""


def installed() -> str | None:
    """The browser of this machine, by its path."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


def drawn(url: str, picture: Path, width: int = 1280, height: int = 760) -> str:
    """The HTML of a page after it is drawn; a picture of that HTML is kept if the environment says where.

    In the picture no folder of this machine stands before a Python file.
    """
    html = asked("--dump-dom", url, picture, width, height).decode()
    page = picture.with_suffix(".html")
    page.write_text(_FOLDERS.sub("", html).replace("<head>", f'<head><base href="{url}">', 1))
    asked(f"--screenshot={picture}", page.as_uri(), picture, width, height)
    picture.write_bytes(cut(picture.read_bytes(), height))
    kept = os.environ.get(PICTURES)
    if kept:
        shutil.copy(picture, Path(kept, picture.name))
    return html


def asked(
    what: str, url: str, picture: Path, width: int, height: int, budget_ms: int = 4000, *more: str
) -> bytes:
    """What the browser says. One of root has no sandbox: it loads pages of this machine alone.

    `budget_ms`: how long the page's own clock may go on. `more`: further options of the browser.
    """
    program = installed()
    assert program is not None
    options = [
        "--headless",
        "--disable-gpu",
        "--no-first-run",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
    ]
    options += [f"--window-size={width},{height + _FRAME}", f"--virtual-time-budget={budget_ms}", *more]
    options += [f"--user-data-dir={picture.parent}/profile", *(["--no-sandbox"] * (os.geteuid() == 0))]
    command = [program, *options, what, url]
    return subprocess.run(command, capture_output=True, check=True, timeout=HANG_S).stdout


def cut(png: bytes, height: int) -> bytes:
    """The upper lines of a picture, since the browser leaves the lowest ones blank."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    parts, at = [], 8
    while at < len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        parts.append((png[at + 4 : at + 8], png[at + 8 : at + 8 + size]))
        at += size + 12
    header = parts[0][1]
    width, _, depth, color = struct.unpack(">IIBB", header[:10])
    line = 1 + width * depth * {0: 1, 2: 3, 3: 1, 6: 4}[color] // 8
    lines = zlib.decompress(b"".join(data for kind, data in parts if kind == b"IDAT"))[: height * line]
    other = [part for part in parts[1:] if part[0] in (b"PLTE", b"tRNS")]
    new = [(b"IHDR", struct.pack(">II", width, len(lines) // line) + header[8:]), *other]
    new += [(b"IDAT", zlib.compress(lines, 9)), (b"IEND", b"")]
    return png[:8] + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in new
    )
