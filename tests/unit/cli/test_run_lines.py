"""The lines of a run: with ids and times, and lost where nothing can be written, since the run must go on."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import signal
import subprocess
import sys

import pytest
from rich.text import Text

from support.waiting import wait_until
from tailbit.checkpoints.builds import Builds
from tailbit.checkpoints.lag import Lag
from tailbit.cli import AGAIN, CONFIGURATION
from tailbit.cli.building import BuildLines
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
