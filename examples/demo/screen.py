"""The screen of the demo: events, the versions of table and index, and the lag.

A live display on a terminal; elsewhere plain lines, one per event and one whenever the lag has changed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tailbit.checkpoints.lag import Lag

_PLAIN_S, _PLAIN_UNCHANGED_S = 2.0, 15.0
"""Least seconds between two plain lines of lag: if a version changed, and if only time passed."""


class Screen:
    """The display of a run. Enter it to start the clock; events and lag may come in any order."""

    def __init__(self, console: Console, versions: int) -> None:
        self.console, self.versions = console, versions
        self.started = time.monotonic()
        self.events: list[str] = []
        self.indexer = "not started"
        self.lag: Lag | None = None
        self._last_line: tuple[float, object] = (0.0, None)
        self._live = Live(console=console, refresh_per_second=8, get_renderable=self._draw, transient=True)

    def __enter__(self) -> Screen:
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live.is_started:
            self._live.stop()
            self.console.print("\n".join(self.events), highlight=False, markup=False)

    def event(self, who: str, text: str) -> None:
        """Show an event."""
        line = f"{time.monotonic() - self.started:6.1f} s  {who:<8} {text}"
        self.events.append(line)
        if not self._live.is_started:
            self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def show(self, lag: Lag | None, indexer: str) -> None:
        """Show the newest lag and the state of the indexer."""
        self.lag, self.indexer = lag, indexer
        now, state = time.monotonic(), (lag and (lag.head, lag.covered), indexer)
        since = now - self._last_line[0]
        due = since >= _PLAIN_S if state != self._last_line[1] else since >= _PLAIN_UNCHANGED_S
        if not self._live.is_started and due:
            self._last_line = (now, state)
            self.event("lag", self._lag_text())

    def _lag_text(self) -> str:
        if self.lag is None:
            return f"indexer {self.indexer}"
        return (
            f"table at version {self.lag.head}, index at {self.lag.covered}: {self.lag.text}; {self.indexer}"
        )

    def _draw(self) -> Group:
        bars = Table.grid(padding=(0, 2))
        head, covered = (self.lag.head, self.lag.covered) if self.lag else (-1, -1)
        for name, version in (("table", head), ("index", covered)):
            done = ProgressBar(total=self.versions, completed=version + 1, width=40)
            bars.add_row(name, done, f"version {version}" if version >= 0 else "-")
        behind = self.lag is not None and self.lag.versions > 0
        state = Text(f"indexer {self.indexer}", style="bold")
        lag = Text(self.lag.text if self.lag else "no index yet", style="yellow" if behind else "green")
        return Group(Text("\n".join(self.events[-12:])), Text(), bars, state, lag)


def comparison(header: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 1) -> Table:
    """Return a table of results; all columns but the first `texts` are numbers."""
    table = Table()
    for n, name in enumerate(header):
        table.add_column(name, justify="left" if n < texts else "right", no_wrap=n >= texts)
    for row in rows:
        table.add_row(*row)
    return table
