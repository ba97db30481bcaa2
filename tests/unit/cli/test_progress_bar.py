"""The bar of an index build on a real terminal, as whoever waits for the build sees it."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from rich.console import Console

from support.tables import index_of
from tailbit.checkpoints.builds import Builds
from tailbit.cli.building import bars
from tailbit.index.maintenance.rebuild import BuildExtent, Extent


def on_a_terminal(width: int, *arguments: str) -> str:
    """What the command writes to a terminal of this width, colours left out; the command must succeed."""
    ours, commands = pty.openpty()
    fcntl.ioctl(commands, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    # Variables of another terminal would overrule the width of this one.
    others = ("COLUMNS", "LINES")
    environment = {name: value for name, value in os.environ.items() if name not in others}
    environment["TERM"] = "xterm-256color"
    process = subprocess.Popen(
        [sys.executable, "-m", "tailbit.cli", *arguments],
        stdin=commands,
        stdout=commands,
        stderr=commands,
        env=environment,
    )
    os.close(commands)
    written = b""
    try:
        while part := os.read(ours, 1 << 16):
            written += part
    except OSError:
        # Linux ends a terminal whose other side is closed so.
        pass
    finally:
        os.close(ours)
    assert process.wait() == 0, written.decode()
    return re.sub(r"\x1b\[[0-9;]*m", "", written.decode())


def states(output: str, name: str) -> list[str]:
    """The states of the bar of an index, each once and in order."""
    drawn = re.findall(rf"\x1b\[2K(t +━+ {name}[^\r\n\x1b]*)", output)
    return list(dict.fromkeys(line.rstrip() for line in drawn))


@pytest.fixture
def path(tmp_path: Path) -> str:
    table = str(tmp_path / "t")
    for first in range(0, 40, 10):
        write_deltalake(table, pa.table({"k": range(first, first + 10)}), mode="append")
    index_of(table, ["k"])
    return table


def test_a_build_draws_one_line_with_files_and_rows_done_and_leaves_only_the_result(path: str) -> None:
    name = "remainders_of_seven"
    output = on_a_terminal(80, "sql", f"CREATE INDEX {name} ON '{path}' (k % 7)")
    drawn = states(output, name)
    # How many states between are drawn depends on how quick the build is.
    shown = r"━+ remainders_of_seven \d+ %(, some \d+ s left)?: \d+ of 4 files, \d+ of"
    assert all(re.search(shown, line) for line in drawn), drawn
    assert "100 %: 4 of 4 files, 40 of 40" in drawn[-1]
    assert max(map(len, drawn)) <= 80
    # The last line of the bar is cleared, and what follows stands where it was.
    assert re.search(rf"\x1b\[2K(\x1b\[\?25h)?\rname +{name}", output)


def test_a_narrow_terminal_cuts_the_line_off_and_never_wraps_it(path: str) -> None:
    output = on_a_terminal(40, "sql", f"CREATE INDEX remainders_of_seven ON '{path}' (k % 7)")
    drawn = re.findall(r"\x1b\[2K([^\r\n\x1b]*━+[^\r\n\x1b]*)", output)
    assert drawn
    assert max(map(len, drawn)) <= 40
    assert output.count("\x1b[1A") <= 2


@pytest.mark.parametrize("rows", [40, 4_000, 4_000_000_000])
@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_line_that_is_too_long_keeps_the_name_and_the_bar(width: int, rows: int) -> None:
    builds = Builds()
    for table in ("t", "orders_of_the_whole_company"):
        extent = Extent(20, rows, 800), Extent(5, rows // 4, 200), True, ("by_day_of_month",)
        builds.build(table, "snapshot", table).begin(1, partial(BuildExtent, *extent))
    console = Console(width=width, file=io.StringIO())
    with console.capture() as capture:
        console.print(bars(builds, 0.0))
    short, long = capture.get().splitlines()
    assert re.match(r"t +━+ +by_", short)
    assert re.match(r"orders_of_the_whole… ━+ +by_?", long)
    assert len(short.rstrip()) <= width
