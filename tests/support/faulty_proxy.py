"""A loopback proxy before a store: it counts requests, and some of them fail as they do in networks."""

from __future__ import annotations

import http.client
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

from support.waiting import HANG_S


class Fault(Enum):
    """What happens to a request."""

    BUSY = "503 SlowDown; the store never saw it"
    RESET = "the connection is reset before the store saw it"
    SLOW = "the answer comes later than the client waits"
    REPLY_LOST = "the store did it; the connection is reset before the answer"
    BUSY_AFTER = "the store did it, and the answer is 503"
    DENIED = "403 AccessDenied; the store never saw it"
    CUT = "the answer breaks off half way"


@dataclass(frozen=True)
class Request:
    """A request as the proxy saw it; `path` is decoded, `query` is not."""

    method: str
    path: str
    query: str
    conditional: bool

    def __str__(self) -> str:
        return f"{self.method} {self.path}{'?' + self.query if self.query else ''}"


Rule = Callable[[Request], Fault | None]


@dataclass
class Proxy:
    """The proxy at work: `seen` are the requests so far, `rule` says what happens to the next.

    `behind_s`: how far the clock of the store seems to be behind. `delay_s`: how long each answer takes.
    """

    port: int
    upstream: int
    seen: list[Request] = field(default_factory=list)
    rule: Rule = lambda request: None
    slow_s: float = 1.5
    behind_s: float = 0.0
    delay_s: float = 0.0
    spans: list[tuple[float, float]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    handled: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def since(self, mark: int) -> list[str]:
        """The requests since `len(seen)` was `mark`."""
        return [str(request) for request in self.seen[mark:]]

    def rounds(self) -> int:
        """The longest chain of requests of which each began after the answer to the one before."""
        longest: list[tuple[float, int]] = []
        for begin, end in sorted(self.spans):
            longest.append((end, 1 + max((n for other, n in longest if other <= begin), default=0)))
        return max((n for _, n in longest), default=0)

    def most_at_once(self) -> int:
        """Of how many requests the answers were awaited at the same time, at most."""
        return max(sum(b <= begin < e for b, e in self.spans) for begin, _ in self.spans)

    @contextmanager
    def slow(self, delay_s: float) -> Iterator[None]:
        """Each answer takes this long; `spans` are those of the context."""
        self.spans.clear()
        self.delay_s = delay_s
        try:
            yield
        finally:
            self.delay_s = 0.0

    @contextmanager
    def failing(self, fault: Fault, times: int, wanted: Callable[[Request], bool]) -> Iterator[list[Request]]:
        """The next `times` requests that are wanted meet a fault; those that have met it.

        In the end all of them are handled: what they do in the store is done.
        """
        met: list[Request] = []

        def rule(request: Request) -> Fault | None:
            with self.lock:
                if len(met) >= times or not wanted(request):
                    return None
                met.append(request)
                return fault

        self.rule = rule
        try:
            yield met
        finally:
            with self.lock:
                self.rule = lambda request: None
            for _ in met:
                assert self.handled.acquire(timeout=HANG_S)


class _Server(ThreadingHTTPServer):
    """Many connections may be opened at once."""

    daemon_threads = True
    request_queue_size = 256


@contextmanager
def proxy_to(upstream: int) -> Iterator[Proxy]:
    """A proxy to a port of this machine, for the context."""
    server = _Server(("127.0.0.1", 0), _Handler)
    proxy = server.proxy = Proxy(server.server_address[1], upstream)  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


_LISTED = re.compile(rb"<LastModified>([^<]*)</LastModified>")


def _shifted_iso(text: str, behind_s: float) -> bytes:
    shifted = datetime.fromisoformat(text.replace("Z", "+00:00")) - timedelta(seconds=behind_s)
    return f"<LastModified>{shifted.strftime('%Y-%m-%dT%H:%M:%SZ')}</LastModified>".encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged."""

    def _handle(self) -> None:
        proxy: Proxy = self.server.proxy  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, _, query = self.path.partition("?")
        request = Request(self.command, unquote(path), query, "If-None-Match" in self.headers)
        proxy.seen.append(request)
        begin = time.monotonic()
        time.sleep(proxy.delay_s)
        fault = proxy.rule(request)
        try:
            self._meet(fault, proxy, body)
        finally:
            proxy.spans.append((begin, time.monotonic()))
            if fault is not None:
                proxy.handled.release()

    def _meet(self, fault: Fault | None, proxy: Proxy, body: bytes) -> None:
        if fault is Fault.SLOW:
            time.sleep(proxy.slow_s)
        if fault is Fault.RESET:
            self._reset()
        elif fault is Fault.BUSY:
            self._answer(503, b"<Error><Code>SlowDown</Code></Error>")
        elif fault is Fault.DENIED:
            self._answer(403, b"<Error><Code>AccessDenied</Code></Error>")
        else:
            self._forward(proxy, body, fault)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _handle

    def _forward(self, proxy: Proxy, body: bytes, fault: Fault | None) -> None:
        upstream = http.client.HTTPConnection("127.0.0.1", proxy.upstream, timeout=60)
        try:
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in ("connection", "expect"):
                    upstream.putheader(name, value)
            upstream.endheaders(body or None)
            found = upstream.getresponse()
            data = found.read()
        finally:
            upstream.close()
        if fault is Fault.REPLY_LOST:
            self._reset()
        elif fault is Fault.BUSY_AFTER:
            self._answer(503, b"<Error><Code>InternalError</Code></Error>")
        else:
            self._pass_on(found, data, proxy.behind_s, cut=fault is Fault.CUT)

    def _pass_on(self, found: http.client.HTTPResponse, data: bytes, behind_s: float, *, cut: bool) -> None:
        if behind_s:
            data = _LISTED.sub(lambda time: _shifted_iso(time[1].decode(), behind_s), data)
        self.send_response_only(found.status, found.reason)
        dropped = ("connection", "transfer-encoding", "content-length")
        for name, value in found.getheaders():
            if name.lower() == "last-modified" and behind_s:
                value = format_datetime(parsedate_to_datetime(value) - timedelta(seconds=behind_s), True)
            if name.lower() not in dropped:
                self.send_header(name, value)
        length = found.getheader("Content-Length") if self.command == "HEAD" else str(len(data))
        self.send_header("Content-Length", length or "0")
        self.end_headers()
        self.wfile.write(data[: len(data) // 2] if cut else data)
        if cut:
            self._reset()

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response_only(status)
        self.send_header("Content-Length", "0" if self.command == "HEAD" else str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _reset(self) -> None:
        """End the connection so that the other side sees a reset, not an end."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()
