"""The socket by which the driver answers Spark's planner process: which offset comes next. A line each way.

Tables and indexes are open once, in the driver; Spark's planner process holds nothing and only asks. The
socket is in the control folder of the run, which is private to this user.
"""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

SOCKET = "planner.sock"

Answer = Callable[[dict[str, Any]], Mapping[str, Any]]


class Door:
    """The socket of one run. `answer`: returns the reply to a question; both are JSON objects."""

    def __init__(self, folder: Path, answer: Answer) -> None:
        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                # A planner that has ended, as with its Java, needs no answer.
                with suppress(ConnectionError):
                    for line in self.rfile:
                        self.wfile.write(orjson.dumps(answer(orjson.loads(line))) + b"\n")

        class Server(socketserver.ThreadingUnixStreamServer):
            daemon_threads = True

        self._server = Server(str(folder / SOCKET), Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="tailbit-door", kwargs={"poll_interval": 0.5}, daemon=True
        )

    def open(self) -> None:
        """Start to answer questions."""
        self._thread.start()

    def close(self) -> None:
        """Stop answering, and close the socket."""
        self._server.shutdown()
        self._server.server_close()


class Asking:
    """The planner's side: one connection, opened at the first question."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: Any = None

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Return the driver's reply.

        Raises:
            ConnectionError: the driver has ended, or answers no more.
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
        reply: dict[str, Any] = orjson.loads(line)
        return reply
