"""A catalog of Iceberg tables in SQLite, whose tables pyiceberg writes, also served as a REST catalog.

As a command it writes two tables, of format versions 1 and 2, with a random commit every half second.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.types import LongType

Json = dict[str, Any]
ROWS = pa.schema([("k", pa.int64()), ("city", pa.string()), ("qty", pa.int32())])
TABLES = {"orders": "2", "returns": "1"}
"""The names of the tables that the command writes, and their format versions."""
CITIES = ("Oslo", "Lima", "Kyiv", None)


def rows(first: int, end: int) -> pa.Table:
    """Rows of keys from `first` on, below `end`."""
    keys = range(first, end)
    columns = [[*keys], [CITIES[key % 4] for key in keys], [key % 7 for key in keys]]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, ROWS, strict=True)], schema=ROWS)


class Sales:
    """The catalog `prod` with the namespace `sales`; `options`: what opens its tables by name.

    `warehouse`: the place of the tables; by default a folder beside the database. `properties`: more of the
    catalog, such as how pyiceberg reaches a store.
    """

    def __init__(self, folder: Path, warehouse: str = "", **properties: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.uri = f"sqlite:///{folder}/catalog.db"
        warehouse = warehouse or f"file://{folder}/warehouse"
        self.catalog = SqlCatalog("prod", uri=self.uri, warehouse=warehouse, **properties)
        self.catalog.create_namespace_if_not_exists("sales")
        self.options = {"catalog.uri": self.uri}

    def create(self, name: str, **properties: str) -> Table:
        """Create a table of the schema ROWS."""
        return self.catalog.create_table(f"sales.{name}", ROWS, properties=properties)


@contextmanager
def rest_server(
    sales: Sales, port: int = 0, lent: Callable[[], Json] = dict
) -> Iterator[tuple[str, list[str]]]:
    """Serve the tables of a catalog by the REST protocol; yield the URI, and what is asked.

    `lent`: returns what an answer for a table says beside its metadata, such as credentials.
    """
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path.partition("?")[0])
            status: int = 200
            answer: Any = {"defaults": {}, "overrides": {}}
            if "/tables/" in self.path:
                status, answer = loaded(sales, asked[-1].rpartition("/")[2])
                answer = {**answer, **lent()}
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

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
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


KEYS_A_COMMIT = 40


def change(orders: Table, rng: random.Random, number: int) -> str:
    """Make a commit of a random kind, the `number`-th of its table; its kind."""
    first = number * KEYS_A_COMMIT
    older = rng.randrange(first + 1)
    few = f"k >= {older} AND k < {older + 25}"
    line = [snapshot.snapshot_id for snapshot in orders.snapshots()]
    kind = rng.choice(("append", "append", "append", "delete", "delete", "overwrite", "column", "line"))
    if number < 3 or kind == "append":
        orders.append(rows(first, first + rng.randint(1, KEYS_A_COMMIT)))
        return "append"
    if kind == "delete":
        orders.delete(few if rng.random() < 0.7 else f"qty = {rng.randrange(7)}")
    elif kind == "overwrite":
        orders.overwrite(rows(first, first + 10), few)
    elif kind == "column":
        with orders.update_schema() as update:
            update.add_column(f"c{number}", LongType())
        orders.append(rows(first, first + 5))
    elif head := orders.current_snapshot():
        kind = rng.choice(("rollback", "branch", "expire"))
        if kind == "rollback":
            parent = head.parent_snapshot_id
            with orders.manage_snapshots() as manage:
                manage.rollback_to_snapshot(parent if parent in line else head.snapshot_id)
        elif kind == "branch":
            with orders.manage_snapshots() as manage:
                manage.create_branch(head.snapshot_id, f"b{number}")
            orders.append(rows(first, first + 5), branch=f"b{number}")
        else:
            refs = {ref.snapshot_id for ref in orders.refs().values()}
            spare = [id_ for id_ in line if id_ not in refs]
            orders.maintenance.expire_snapshots().by_id(rng.choice(spare)).commit()
    return kind


def main() -> None:
    """Write tables beside whoever follows them: a line for each commit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--commits", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause", type=float, default=0.5, help="seconds between two commits")
    given = parser.parse_args()
    rng, sales = random.Random(given.seed), Sales(given.folder)
    tables = [sales.create(name, **{"format-version": version}) for name, version in TABLES.items()]
    for number in range(given.commits):
        for name, table in zip(TABLES, tables, strict=True):
            print(name, change(table, rng, number), flush=True)
            time.sleep(given.pause)


if __name__ == "__main__":
    main()
