"""The pages of an application: `/`, `/metrics`, `/livez`, `/readyz` and `/status.json`, by HTTP, read only.

A port that is in use is told, and the pages are at the next free one until it is free.
"""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.request import OpenerDirector, ProxyHandler, build_opener

import orjson

from tailbit.base.wording import Tell
from tailbit.streaming.watch.page import POLICY, status_page
from tailbit.streaming.watch.view import View

OFF = "off"

PORTS = 4
"""Ports that are tried, the configured one first."""

AGAIN_S = 2.0
"""Seconds between two looks at whether the configured port is free."""

_SILENT_S = 10.0
"""Seconds after which a connection that sends nothing is closed."""

_TEXT, _JSON, _HTML = "text/plain; charset=utf-8", "application/json", "text/html; charset=utf-8"

Page = Callable[[View, str], tuple[int, str, bytes]]
"""A function that returns status, content type and body of a page, given the view and the URL's query."""


def _metrics(view: View, _: str) -> tuple[int, str, bytes]:
    # Imported late: an application without pages needs no prometheus_client.
    try:
        from prometheus_client import (
            CONTENT_TYPE_LATEST,
            CollectorRegistry,
            ProcessCollector,
            generate_latest,
        )
    except ImportError:
        return 503, _TEXT, b"prometheus-client is not installed: pip install prometheus-client\n"

    from tailbit.streaming.watch.collector import ApplicationCollector

    registry = CollectorRegistry()
    registry.register(ApplicationCollector(view))
    ProcessCollector(registry=registry)
    return 200, CONTENT_TYPE_LATEST, generate_latest(registry)


def _livez(view: View, _: str) -> tuple[int, str, bytes]:
    why = view.why_dead()
    return (503, _TEXT, f"{why}\n".encode()) if why else (200, _TEXT, b"alive\n")


def _readyz(view: View, query: str) -> tuple[int, str, bytes]:
    lines = view.why_not_ready(with_tables="tables=no" not in query.split("&"))
    if lines:
        return 503, _TEXT, "".join(f"{line}\n" for line in lines).encode()
    return 200, _TEXT, b"ready\n" if view.is_leading else b"standing by\n"


def _status(view: View, _: str) -> tuple[int, str, bytes]:
    return 200, _JSON, orjson.dumps(view.status())


def _tables(view: View, query: str) -> tuple[int, str, bytes]:
    return 200, _HTML, status_page(view, query).encode()


PAGES: dict[str, Page] = {
    "/": _tables,
    "/metrics": _metrics,
    "/livez": _livez,
    "/readyz": _readyz,
    "/status.json": _status,
}
"""The pages by their paths."""


class Pages:
    """The server of one application's pages. `address`: host and port; port 0 takes any that is free."""

    def __init__(self, address: str, view: View) -> None:
        host, _, port = address.rpartition(":")

        class PageHandler(BaseHTTPRequestHandler):
            timeout = _SILENT_S

            def do_GET(self) -> None:
                path, _, query = self.path.partition("?")
                page = PAGES.get(path)
                status, kind, body = (404, _TEXT, b"no such page\n") if page is None else page(view, query)
                # The client may have gone.
                with suppress(ConnectionError):
                    self.send_response(status)
                    self.send_header("Content-Type", kind)
                    self.send_header("Content-Length", str(len(body)))
                    self.send_header("Content-Security-Policy", POLICY)
                    self.send_header("X-Content-Type-Options", "nosniff")
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                return

        class PageServer(ThreadingHTTPServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
            daemon_threads = True

        self._server = PageServer((host.strip("[]"), int(port)), PageHandler)
        self.url = f"http://{host}:{self._server.server_port}"
        serve = partial(self._server.serve_forever, poll_interval=0.5)
        threading.Thread(target=serve, name="tailbit-pages", daemon=True).start()

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()


def addresses(configured: str) -> list[str]:
    """Return where the pages of an application may be: the configured address, and the next ports.

    >>> addresses("127.0.0.1:9464")[:2], addresses("off"), addresses("[::1]:0")
    (['127.0.0.1:9464', '127.0.0.1:9465'], [], ['[::1]:0'])
    """
    if configured == OFF:
        return []
    host, _, port = configured.rpartition(":")
    first = int(port)
    return [f"{host}:{first + n}" for n in range(PORTS if first else 1) if first + n < 1 << 16]


class SeenApplication:
    """A context manager that serves the pages of an application; it serves none if the address is `off`.

    While the configured port is in use, as by an application of this machine for which this one stands by or
    from which it took over, the pages are at the next port that is free; a thread moves them to the
    configured port once that is free.
    """

    def __init__(self, address: str, view: View, announce: Tell, tell: Tell, place: str = "") -> None:
        """Prepare the pages. `place`: file and line that name the address, for people."""
        self.view, self._announce, self._tell = view, announce, tell
        self._addresses = addresses(address)
        self._place = f"{place}: " if place else ""
        self._pages: Pages | None = None
        self._port = len(self._addresses)
        self._is_told = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="tailbit-show-pages", daemon=True)

    def show(self) -> None:
        """Serve the pages at the first address that is free, unless they are served there already."""
        refused: OSError | None = None
        for number, address in enumerate(self._addresses[: self._port]):
            try:
                pages = Pages(address, self.view)
            except OSError as error:
                refused = refused or error
                if error.errno == errno.EADDRINUSE:
                    continue
                break
            if refused is not None:
                self._tell_once(
                    f"{_why(self._addresses[0], refused)}; the pages are at {pages.url}/ until it is free"
                )
            self._announce(f"status page: {pages.url}/; metrics: {pages.url}/metrics")
            before, self._pages, self._port = self._pages, pages, number
            if before is not None:
                before.close()
            return
        if refused is not None and self._pages is None:
            reason = _why(self._addresses[0], refused)
            self._tell_once(f"no metrics: {reason}; name another address: [application] metrics")

    def _tell_once(self, line: str) -> None:
        if not self._is_told:
            self._is_told = True
            self._tell(f"{self._place}{line}")

    def _keep(self) -> None:
        while self._port and not self._ended.wait(AGAIN_S):
            self.show()

    def __enter__(self) -> SeenApplication:
        """Serve the pages."""
        self.show()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop serving the pages."""
        self._ended.set()
        self._thread.join()
        if self._pages is not None:
            self._pages.close()


def _why(address: str, refused: OSError) -> str:
    return f"{address}: {refused.strerror or refused}"


def direct() -> OpenerDirector:
    """Return an opener of URLs that takes no notice of the proxies that the environment names."""
    return build_opener(ProxyHandler({}))
