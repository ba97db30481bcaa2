"""The socket by which the driver answers Spark's planner process: which offset comes next. A line each way.

Tables and indexes are open once, in the driver; Spark's planner process holds nothing and only asks. The
socket is in a folder of the run, which is private to this user.
"""

from __future__ import annotations

import shutil
import socket
import socketserver
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from tailbit.base.errors import StorageError

SOCKET = "planner.sock"

Answer = Callable[[str, "list[Any]"], Any]
"""A function that answers a question, given its name and its arguments; all are JSON."""

_SHORT = (
    "Make space there, or set TMPDIR to a folder whose path is short: that of a socket has 107 bytes at most."
)


def make_folder() -> Path:
    """Return a new folder for a run on this machine, private to this user."""
    try:
        return Path(tempfile.mkdtemp(prefix="tailbit-run-"))
    except OSError as refused:
        reason = f"no folder for the run: {refused.strerror or refused}"
        raise StorageError(path=tempfile.gettempdir(), reason=reason) from refused


class PlannerSocket:
    """The socket of one run of a query, in a folder of its own, open until `close`.

    A question whose answer fails ends the query of Spark with the text of the error.
    """

    def __init__(self, answer: Answer) -> None:
        """Open the socket."""

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                # A planner that has ended, as with its Java, needs no answer.
                with suppress(ConnectionError):
                    for line in self.rfile:
                        self.wfile.write(orjson.dumps(_reply(answer, orjson.loads(line))) + b"\n")

        class Server(socketserver.ThreadingUnixStreamServer):
            daemon_threads = True

        self.folder = make_folder()
        try:
            self._server = Server(str(self.folder / SOCKET), Handler)
        except OSError as refused:
            shutil.rmtree(self.folder, ignore_errors=True)
            reason = f"no socket there: {refused}"
            raise StorageError(path=str(self.folder), reason=reason, hint=_SHORT) from refused
        threading.Thread(
            target=self._server.serve_forever,
            name="tailbit-answers",
            kwargs={"poll_interval": 0.1},
            daemon=True,
        ).start()

    def close(self) -> None:
        """Stop answering, and remove the folder."""
        self._server.shutdown()
        self._server.server_close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _reply(answer: Answer, question: list[Any]) -> dict[str, Any]:
    try:
        return {"answer": answer(question[0], question[1:])}
    except Exception as error:
        # The boundary of the process: the planner's side raises it.
        return {"error": f"{type(error).__name__}: {error}"}


class Driver:
    """The planner's side: one connection, opened at the first question."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: Any = None

    def ask(self, *question: Any) -> Any:
        """Return the driver's answer to a question: its name, and its arguments.

        Raises:
            ConnectionError: the driver has ended, or answers no more.
            RuntimeError: the driver met an error, which it knows by name.
        """
        if self._file is None:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.connect(str(self._folder / SOCKET))
            self._file = connection.makefile("rwb")
        self._file.write(orjson.dumps(question) + b"\n")
        self._file.flush()
        line = self._file.readline()
        if not line:
            raise ConnectionError("the driver answers no more")
        reply = orjson.loads(line)
        if "error" in reply:
            raise RuntimeError(reply["error"])
        return reply["answer"]
