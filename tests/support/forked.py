"""Processes of Python as copies of one that has imported the product: it takes them no second to start.

`Forked` is `subprocess.Popen`, but for the interpreter's start. Each worker of a run has one server, which
imports and forks, and does nothing else. What a test says about the start itself (imports, PYTHONPATH,
libraries to preload, an installation) needs `subprocess`.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from support.product import ROOMS
from support.suites import ROOT

LIBRARIES = (
    *("deltalake", "pandas", "psutil", "pyarrow.compute", "pyarrow.dataset", "pyarrow.parquet"),
    *("rich.progress", "pyspark.sql", "pyspark.sql.datasource", "delta"),
)
"""What most processes import besides the product."""

OF_THE_START = ("PYTHONPATH", "PYTHONIOENCODING", "PYTHONWARNINGS", "LD_PRELOAD")
"""Variables that a copy would be too late for."""

_STARTING = threading.Lock()

_DIGITS = 12
"""Bytes of a number that is told: the pid of a process that has all that it was given, and its status."""


class Forked(subprocess.Popen[Any]):
    """A Python with the words `-m MODULE ...` or `-c PROGRAM ...`, a copy of one that has imported much."""

    _status: socket.socket

    def _execute_child(
        self,
        args: Any,
        executable: Any,
        preexec_fn: Any,
        close_fds: Any,
        pass_fds: Any,
        cwd: Any,
        env: Any,
        startupinfo: Any,
        creationflags: Any,
        shell: Any,
        *pipes: Any,
    ) -> None:
        """Let the server fork; as `subprocess` calls it."""
        environment = dict(os.environ if env is None else env)
        late = [name for name in OF_THE_START if environment.get(name) != os.environ.get(name)]
        assert not late, f"{late} need an interpreter that starts"
        ends, (*_, new_session) = pipes[:6], pipes[6:12]
        given, self._status = socket.socketpair()
        files = [own if file == -1 else file for own, file in enumerate((ends[0], ends[3], ends[5]))]
        words = [os.fspath(word) for word in args]
        request = [words, os.path.abspath(cwd or "."), environment, new_session]
        with given, _STARTING:
            _send(_server(), json.dumps(request).encode(), [*files, given.fileno()])
        self._close_pipe_fds(*ends)  # type: ignore[attr-defined]
        self.pid = int(self._told() or 0)
        assert self.pid, "the server of processes has ended"

    def _told(self) -> str:
        return self._status.recv(_DIGITS).decode()

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        return self._ended(0)

    def _wait(self, timeout: float | None) -> int:
        if self._ended(timeout) is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        assert self.returncode is not None
        return self.returncode

    def _ended(self, timeout: float | None) -> int | None:
        """Return the status, which the server tells once, after so many seconds at most."""
        with self._waitpid_lock:  # type: ignore[attr-defined]
            if self.returncode is None:
                self._status.settimeout(timeout)
                try:
                    told = self._told()
                except (BlockingIOError, TimeoutError):
                    return None
                self.returncode = int(told) if told else -signal.SIGKILL
                self._status.close()
        return self.returncode


def forked(
    *words: str | os.PathLike[str], check: bool = False, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run such a process to its end, and return what it said, as text.

    Raises:
        CalledProcessError: its status is not 0, with `check`.
    """
    with Forked(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options) as process:
        out, err = process.communicate()
    done = subprocess.CompletedProcess(words, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def command(*words: str | os.PathLike[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command `tailbit` to its end, and return what it said, as text."""
    return forked("-m", "tailbit.cli", *words, **options)


@cache
def _server() -> socket.socket:
    ours, its = socket.socketpair()
    with its:
        server = subprocess.Popen(
            [sys.executable, "-m", "support.forked", str(its.fileno())],
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
            cwd=Path(__file__).parents[1],
            stdin=subprocess.DEVNULL,
            pass_fds=[its.fileno()],
        )
    # The last first: it ends once nobody can ask it any more.
    atexit.register(server.wait)
    atexit.register(ours.close)
    return ours


def _send(to: socket.socket, content: bytes, files: list[int]) -> None:
    socket.send_fds(to, [len(content).to_bytes(4, "big")], files)
    to.sendall(content)


def _received(requests: socket.socket) -> tuple[list[Any], list[int]]:
    """Return the next request with its files; the server ends where there is none."""
    length, files, _, _ = socket.recv_fds(requests, 4, 4)
    content = b""
    size = int.from_bytes(length, "big")
    while len(content) < size:
        content += requests.recv(size - len(content))
    return (json.loads(content) if content else []), files


def _imported() -> None:
    for library in LIBRARIES:
        import_module(library)
    rooms = {"tailbit.": ROOT / "tailbit"} | {f"tailbit.{room}.": ROOT / room for room in ROOMS}
    for prefix, folder in rooms.items():
        for module in pkgutil.walk_packages([str(folder)], prefix):
            if not module.name.endswith("__main__"):
                import_module(module.name)
    gc.freeze()


def _serve(requests: socket.socket) -> list[str] | None:
    """Fork at each request, and tell how the processes end; return in each of them, with its words."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    living: dict[int, int] = {}
    # A selector with a file of its own would close another's in the copy.
    selector = selectors.SelectSelector()
    selector.register(requests, selectors.EVENT_READ)
    selector.register(reading, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fd == reading:
                os.read(reading, 4096)
                _tell_the_ended(living)
                continue
            request, files = _received(requests)
            if not request:
                return None
            process = os.fork()
            if process == 0:
                requests.detach()
                return _become(request, files)
            living[process] = files.pop()
            for file in files:
                os.close(file)


def _tell_the_ended(living: dict[int, int]) -> None:
    for process, status in list(living.items()):
        ended, code = os.waitpid(process, os.WNOHANG)
        if ended:
            # Nobody may listen any more.
            with suppress(BrokenPipeError):
                os.write(status, f"{os.waitstatus_to_exitcode(code):{_DIGITS}}".encode())
            os.close(living.pop(process))


def _become(request: list[Any], files: list[int]) -> list[str]:
    """Take the files, the folder and the environment that a process was asked with; return its words."""
    words, folder, environment, new_session = request
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if new_session:
        os.setsid()
    for own, file in enumerate(files[:3]):
        os.dup2(file, own)
    os.write(files[3], f"{os.getpid():{_DIGITS}}".encode())
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(folder)
    sys.path[0] = folder
    sys.stdin = open(0, closefd=False)
    sys.stdout = open(1, "w", closefd=False)
    sys.stderr = open(2, "w", errors="backslashreplace", buffering=1, closefd=False)
    return list(words)


def _execute(words: list[str]) -> None:
    """Do what Python does with such words, but for taking modules apart in the end."""
    how, what, *arguments = words
    sys.argv[:] = [what if how == "-m" else "-c", *arguments]
    status: Any = None
    try:
        if how == "-m":
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        else:
            program = sys.modules["__main__"] = ModuleType("__main__")
            exec(compile(what, "<string>", "exec"), vars(program))
    except SystemExit as end:
        status = end.code
        if not isinstance(status, int | None):
            raise
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    with suppress(ValueError):
        sys.stdout.flush()
    os._exit((status or 0) & 0xFF)


def main() -> None:
    """Serve until the test run closes its end, and be in each copy what it was asked for."""
    requests = socket.socket(fileno=int(sys.argv[1]))
    _imported()
    words = _serve(requests)
    if words is not None:
        _execute(words)


if __name__ == "__main__":
    main()
