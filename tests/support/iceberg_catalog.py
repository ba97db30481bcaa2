"""A catalog of Iceberg tables in SQLite, whose tables pyiceberg writes, also served as a REST catalog."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

ROWS = pa.schema([("k", pa.int64()), ("city", pa.string()), ("qty", pa.int32())])
CITIES = ("Oslo", "Lima", "Kyiv", None)


def rows(first: int, end: int) -> pa.Table:
    """Rows of keys from `first` on, below `end`."""
    keys = range(first, end)
    columns = [[*keys], [CITIES[key % 4] for key in keys], [key % 7 for key in keys]]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, ROWS, strict=True)], schema=ROWS)


class Sales:
    """The catalog `prod` with the namespace `sales`; `options`: what opens its tables by name."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.uri = f"sqlite:///{folder}/catalog.db"
        self.warehouse = f"file://{folder}/warehouse"
        self.catalog = SqlCatalog("prod", uri=self.uri, warehouse=self.warehouse)
        self.catalog.create_namespace_if_not_exists("sales")
        self.options = {"catalog.uri": self.uri}

    def create(self, name: str, **properties: str) -> Table:
        """Create a table of the schema ROWS."""
        return self.catalog.create_table(f"sales.{name}", ROWS, properties=properties)


@contextmanager
def rest_server(sales: Sales) -> Iterator[tuple[str, list[str]]]:
    """Serve the tables of a catalog by the REST protocol; yield the URI, and what is asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path.partition("?")[0])
            status: int = 200
            answer: Any = {"defaults": {}, "overrides": {}}
            if "/tables/" in self.path:
                status, answer = loaded(sales, asked[-1].rpartition("/")[2])
            elif "/config" not in self.path:
                status, answer = 404, error("NoSuchNamespaceException")
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def loaded(sales: Sales, name: str) -> tuple[int, Any]:
    """The answer to a request for a table."""
    try:
        table = sales.catalog.load_table(f"sales.{name}")
    except NoSuchTableError:
        return 404, error("NoSuchTableException")
    metadata = json.loads(table.metadata.model_dump_json())
    return 200, {"metadata-location": table.metadata_location, "metadata": metadata, "config": {}}


def error(kind: str) -> dict[str, Any]:
    """The body of an answer that refuses."""
    return {"error": {"message": "it is not there", "type": kind, "code": 404}}
