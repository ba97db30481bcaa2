"""The lines of a run: with ids and times, and lost where nothing can be written, since the run must go on."""

from __future__ import annotations

import errno
import fcntl
import io
import json
import os
import pty
import re
import signal
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
from rich.text import Text

from support.tables import index_of
from support.waiting import wait_until
from tailbit.checkpoints.builds import Builds
from tailbit.checkpoints.lag import Lag
from tailbit.cli import AGAIN, CONFIGURATION
from tailbit.cli.building import BuildLines, bars
from tailbit.cli.render import notice_lines, progress_lines
from tailbit.index.maintenance.rebuild import BuildExtent, Extent
from tailbit.streaming.metrics import Progress


class FullDisk(io.StringIO):
    """A stream to a disk without space."""

    def write(self, _: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def progress(id_: str) -> Progress:
    lag = Lag(4, 4, versions=0, files=0, seconds=0.0)
    return Progress("/lake/visits", 4, 3, 4, 4, 1, 100, lag, batch_ms=12.0, id=id_)


@pytest.mark.parametrize("as_json", [True, False])
def test_a_line_that_cannot_be_written_is_lost(as_json: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, FullDisk())
    notice_lines(as_json)("a notice")
    progress_lines(as_json, Text)(progress("partner_visits"))


def test_lines_begin_with_the_id_of_the_table_or_the_last_part_of_its_path(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for id_ in ("partner_visits", ""):
        progress_lines(False, Text)(progress(id_))
    assert [line.partition(":")[0] for line in capsys.readouterr().err.splitlines()] == [
        "partner_visits",
        "visits",
    ]


def test_lines_of_json_have_id_and_time(capsys: pytest.CaptureFixture[str]) -> None:
    progress_lines(True, Text)(progress("partner_visits"))
    progress_lines(True, Text)(progress(""))
    notice_lines(True)("a notice")
    batch, single, notice = map(json.loads, capsys.readouterr().out.splitlines())
    assert (batch["id"], batch["table"], "id" in single) == ("partner_visits", "/lake/visits", False)
    assert notice["notice"] == "a notice"
    for line in (batch, single, notice):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])


@pytest.mark.parametrize("as_json", [True, False])
def test_a_build_has_a_line_again_and_again_until_it_ends(
    as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    builds, out = Builds(), list[str]()
    build = builds.build("id", "batches", "visits")
    build.begin(1, lambda: BuildExtent(Extent(10, 1000, 5000), Extent(4, 400, 2000)))
    lines = BuildLines(builds, as_json=as_json, every_s=0.02)
    lines.start()

    def two_lines() -> bool:
        out.extend("".join(capsys.readouterr()).splitlines())
        return len(out) > 1

    wait_until(two_lines)
    build.end()
    lines.stop()
    if as_json:
        line = json.loads(out[0])
        assert (line["name"], line["build"]["files_done"], line["build"]["rows"]) == ("visits", 4, 1000)
    else:
        assert out[0].startswith("visits: 40 %: 4 of 10 files, 400 of 1,000 rows")


_SIGNALLED = """
import os, signal, sys
class AtTheFirstOf:
    def find_spec(self, name, path=None, target=None):
        if name == "click":
            os.kill(os.getpid(), {number})
sys.meta_path.insert(0, AtTheFirstOf())
signal.signal({number}, {before})
sys.argv = ["tailbit", "{command}", "nowhere"]
from tailbit.cli.entry import main
main()
"""


def ended(number: int, command: str, before: str = "signal.SIG_DFL") -> subprocess.CompletedProcess[str]:
    """The command, which gets a signal before the first heavy import."""
    code = _SIGNALLED.format(number=int(number), command=command, before=before)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda s: s.name)
def test_a_run_that_has_not_imported_anything_yet_ends_with_0_on_a_signal(number: signal.Signals) -> None:
    done = ended(number, "run")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_run_of_a_configuration_reads_it_after_a_sighup_that_comes_first() -> None:
    done = ended(signal.SIGHUP, 'run", "--config')
    assert done.returncode == CONFIGURATION
    assert "nowhere: the configuration cannot be read: No such file or directory" in done.stderr
    assert ended(signal.SIGTERM, 'run", "--config').returncode == 0


def test_a_question_ends_by_the_signal_and_an_ignored_signal_stays_ignored() -> None:
    assert ended(signal.SIGTERM, "count").returncode == -signal.SIGTERM
    assert ended(signal.SIGHUP, "run", "signal.SIG_IGN").returncode == AGAIN


@pytest.mark.parametrize(("given", "expected"), [(None, "1"), ("3", "3")])
def test_a_command_makes_no_threads_for_linear_algebra_unless_told_to(
    given: str | None, expected: str
) -> None:
    """Such threads spin for 0.1 s of CPU time, as much as importing numpy takes."""
    name = "OPENBLAS_NUM_THREADS"
    environment = {key: value for key, value in os.environ.items() if key != name}
    environment |= {} if given is None else {name: given}
    code = "import os, sys, tailbit.cli.main as m; from tailbit.cli import entry; "
    code += (
        "assert 'numpy' not in sys.modules; m.main = lambda: print(os.environ[entry._THREADS]); entry.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == expected


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
