"""A Python as on another system, for a process that asks: `python -m support.other_system windows TABLE`.

What Windows lacks is taken away: fork, locks of files, users, signals and sockets of Unix. Paths are joined
and taken apart by Windows' rules, with backslashes; the system calls below, which are Linux's after all, take
these again. It prints the answers of a table of `support.golden` as JSON.
"""

from __future__ import annotations

import builtins
import json
import ntpath
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

LACKING = {
    "windows": ("fcntl", "resource", "pwd", "grp", "termios", "tty"),
    "darwin": (),
}
"""Modules of the standard library that a system has not."""

_NO_CALLS = ("fork", "forkpty", "sched_getaffinity", "statvfs", "getuid", "geteuid", "killpg", "getpgid")
_NO_SIGNALS = ("SIGHUP", "SIGKILL", "SIGPIPE", "SIGALRM", "SIGUSR1", "SIGUSR2")
_BY_RULE = ("join", "split", "dirname", "basename", "normpath", "isabs", "commonpath", "splitdrive")
_OF_FILES = ("open", "stat", "lstat", "scandir", "listdir", "access", "readlink")
_TESTS = ("exists", "isfile", "isdir", "islink", "realpath", "abspath", "getsize", "lexists")


def become(system: str) -> None:
    """Take from this process what a system has not; before the first import of tailbit."""
    import pyarrow as pa

    for name in LACKING[system]:
        sys.modules[name] = None  # type: ignore[assignment]
    if system != "windows":
        return
    for name in _NO_CALLS:
        if hasattr(os, name):
            delattr(os, name)
    for name in _NO_SIGNALS:
        delattr(signal, name)
    del socket.AF_UNIX
    for name in _OF_FILES:
        setattr(os, name, _unixlike(getattr(os, name)))
    for name in _TESTS:
        setattr(os.path, name, _unixlike(getattr(os.path, name)))
    for name in _BY_RULE:
        setattr(os.path, name, getattr(ntpath, name))
    builtins.open = _unixlike(builtins.open)
    pa.OSFile = _unixlike(pa.OSFile)
    os.sep, os.altsep = "\\", "/"


def _unixlike(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a call that takes a path with backslashes."""

    def called(path: Any = ".", *arguments: Any, **named: Any) -> Any:
        return call(path.replace("\\", "/") if isinstance(path, str) else path, *arguments, **named)

    return called


COMMANDS = (
    ("count", "k = -120"),
    ("facets", "flag", "--where", "k > 0"),
    ("read", "k = -120", "--columns", "n,u"),
    ("crosstab", "flag", "k IS NULL"),
    ("summary", "k"),
    ("verify",),
)
"""Commands that only ask; the table follows the first word."""


def answers(path: str) -> list[Any]:
    """Return what a golden table answers: positions, then facets, then rows, then what commands print."""
    from click.testing import CliRunner

    import tailbit
    import tailbit.cli.entry  # The command begins here.
    from support.golden import CONDITIONS, FACETS
    from tailbit.cli.main import cli

    table = tailbit.open(path)
    told: list[Any] = [
        {file: rows.tolist() for file, rows in table.where(condition).positions().items()}
        for condition in CONDITIONS
    ]
    for term, condition in FACETS:
        told.append(sorted((str(key), count) for key, count in table.where(condition).facets(term).items()))
    told.append(table.where("k = -120").to_arrow(["n"]).to_pylist())
    for words in COMMANDS:
        done = CliRunner().invoke(cli, [words[0], path, *words[1:]])
        assert done.exit_code == 0, done.output
        told.append(done.output)
    return told


if __name__ == "__main__":
    become(sys.argv[1])
    json.dump(answers(sys.argv[2]), sys.stdout)
