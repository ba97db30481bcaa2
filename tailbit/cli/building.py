"""The builds of this process are shown: as bars on a terminal, else as a line each half minute."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tailbit.base.wording import visible
from tailbit.checkpoints.builds import SHOWN_S, BuildProgress, Builds, build_text
from tailbit.cli.render import now_text, write_line

if TYPE_CHECKING:
    from rich.table import Table

LINE_S = 30.0
"""Seconds between two lines about a build, in a log."""

_NAME = 20
_WIDTH = 12
_BARS = 10
"""Most bars at once: an application may build many tables."""


@contextmanager
def builds_shown(*, hidden: bool) -> Iterator[Builds]:
    """Yield the builds of a command, and show them on stderr while the block runs.

    `hidden`: no bar is drawn.
    """
    if hidden or not sys.stderr.isatty():
        builds = Builds()
        lines = BuildLines(builds, as_json=False)
        lines.start()
        try:
            yield builds
        finally:
            lines.stop()
        return
    from rich.console import Console
    from rich.live import Live

    builds = Builds(lambda _: live.refresh())
    live = Live(console=Console(stderr=True), get_renderable=lambda: bars(builds, 0.0), transient=True)
    with live:
        yield builds


def bars(builds: Builds, shown_s: float = SHOWN_S) -> Table:
    """Return a line with a bar for each build at work; a narrow terminal cuts the line off."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    # The words take what the name and the bar leave of the line, and are what is cut.
    grid = Table.grid(padding=(0, 1), expand=True)
    grid.add_column(no_wrap=True, max_width=_NAME)
    grid.add_column(no_wrap=True, width=_WIDTH)
    grid.add_column(no_wrap=True, ratio=1)
    for progress in builds.at_work(shown_s)[:_BARS]:
        bar = ProgressBar(total=1.0, completed=progress.part, width=_WIDTH)
        grid.add_row(Text(visible(progress.table)), bar, Text(_words(progress)))
    return grid


def _words(progress: BuildProgress) -> str:
    return visible(build_text(progress.account()))


class BuildLines:
    """A thread that writes a line about each build at work, every half minute."""

    def __init__(self, builds: Builds, *, as_json: bool, every_s: float = LINE_S) -> None:
        self._builds, self._as_json, self._every_s = builds, as_json, every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="tailbit-build-lines", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Let the thread write no more lines."""
        self._stop.set()

    def _keep(self) -> None:
        while not self._stop.wait(self._every_s):
            for progress in self._builds.at_work():
                self._write(progress)

    def _write(self, progress: BuildProgress) -> None:
        if not self._as_json:
            write_line(sys.stderr, f"{visible(progress.table)}: {_words(progress)}")
            return
        record: dict[str, Any] = {"name": progress.table, "build": progress.account(), "time": now_text()}
        write_line(sys.stdout, json.dumps(record))
