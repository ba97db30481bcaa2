"""A REST catalog that writers commit to: it applies the updates of a commit to the table's metadata as JSON.

Metadata files have the names of a Hadoop catalog, so a table is opened by its folder. Requirements of commits
are not checked: there is one writer. Source: Iceberg's open-api/rest-catalog-open-api.yaml.
"""

from __future__ import annotations

import copy
import json
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote

Json = dict[str, Any]


def greatest_id(schema: Any) -> int:
    """The greatest id of a field in a schema, at any depth."""
    if isinstance(schema, list):
        return max(map(greatest_id, schema), default=0)
    if not isinstance(schema, dict):
        return 0
    own = [value for key, value in schema.items() if key in ("id", "element-id", "key-id", "value-id")]
    return max([0, *own, *map(greatest_id, schema.values())])


class RestCatalog:
    """The tables of the namespace `d`, each in a folder of its name below `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tables: dict[str, list[Json]] = {}
        """The metadata after each commit, by table."""

    def created(self, request: Json) -> Json:
        """The metadata of a new table."""
        version = int((request.get("properties") or {}).get("format-version", 2))
        spec = request.get("partition-spec") or {"fields": []}
        metadata: Json = {
            "format-version": version,
            "table-uuid": str(uuid.uuid4()),
            "location": f"file://{self.folder / request['name']}",
            "last-sequence-number": 0,
            "last-updated-ms": int(time.time() * 1000),
            "last-column-id": greatest_id(request["schema"]),
            "last-partition-id": 999,
            "current-schema-id": 0,
            "schemas": [{**request["schema"], "schema-id": 0}],
            "default-spec-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": spec["fields"]}],
            "default-sort-order-id": 0,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "properties": {},
            "current-snapshot-id": -1,
            "snapshots": [],
            "snapshot-log": [],
            "refs": {},
        }
        return metadata | ({"next-row-id": 0} if version > 2 else {})

    def commit(self, name: str, updates: list[Json]) -> None:
        """Apply updates, and write the next metadata file."""
        commits = self.tables.setdefault(name, [])
        metadata = copy.deepcopy(commits[-1]) if commits else {}
        metadata = metadata or self.created({"name": name, "schema": {"fields": []}})
        for update in updates:
            self._apply(metadata, update)
        commits.append(metadata)
        self.write(name)

    def _apply(self, metadata: Json, update: Json) -> None:
        action = update["action"]
        lists = {
            "schema": ("schemas", "schema-id", "current-schema-id"),
            "spec": ("partition-specs", "spec-id", "default-spec-id"),
            "sort-order": ("sort-orders", "order-id", "default-sort-order-id"),
        }
        kind = action.removeprefix("add-").removeprefix("set-current-").removeprefix("set-default-")
        if kind in lists:
            listed, id_, current = lists[kind]
            if action.startswith("add-"):
                new = update[kind]
                if kind == "schema":
                    metadata["last-column-id"] = max(metadata["last-column-id"], greatest_id(new))
                metadata[listed] = [old for old in metadata[listed] if old[id_] != new[id_]] + [new]
            else:
                given = update.get(id_, update.get("sort-order-id", -1))
                metadata[current] = metadata[listed][-1][id_] if given == -1 else given
        elif action == "upgrade-format-version":
            metadata["format-version"] = update["format-version"]
            if update["format-version"] > 2:
                metadata.setdefault("next-row-id", 0)
        elif action == "assign-uuid":
            metadata["table-uuid"] = update["uuid"]
        elif action == "set-location":
            metadata["location"] = update["location"]
        elif action == "set-properties":
            metadata["properties"] |= update["updates"]
        elif action == "add-snapshot":
            snapshot = update["snapshot"]
            metadata["snapshots"].append(snapshot)
            metadata["last-sequence-number"] = snapshot["sequence-number"]
            if "next-row-id" in metadata:
                metadata["next-row-id"] += snapshot.get("added-rows", 0)
        elif action == "set-snapshot-ref":
            ref = {"snapshot-id": update["snapshot-id"], "type": update["type"]}
            metadata["refs"][update["ref-name"]] = ref
            if update["ref-name"] == "main":
                metadata["current-snapshot-id"] = update["snapshot-id"]
                entry = {"timestamp-ms": int(time.time() * 1000), "snapshot-id": update["snapshot-id"]}
                metadata["snapshot-log"].append(entry)
        else:
            raise ValueError(f"no update is called {action}")

    def location(self, name: str) -> Path:
        """The newest metadata file of a table."""
        return self.folder / name / "metadata" / f"v{len(self.tables[name])}.metadata.json"

    def write(self, name: str) -> None:
        """Write the newest metadata of a table."""
        file = self.location(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(self.tables[name][-1]))
        (file.parent / "version-hint.text").write_text(str(len(self.tables[name])))

    def answer(self, method: str, path: list[str], request: Json) -> tuple[int, Json]:
        """The status and body of an answer."""
        if path == ["config"]:
            return 200, {"defaults": {}, "overrides": {}}
        if path == ["transactions", "commit"]:
            for change in request["table-changes"]:
                self.commit(change["identifier"]["name"], change["updates"])
            return 204, {}
        if path == ["namespaces"]:
            return 200, {"namespaces": [["d"]]}
        if path == ["namespaces", "d"]:
            return 200, {"namespace": ["d"], "properties": {}}
        if path == ["namespaces", "d", "tables"] and method == "GET":
            return 200, {"identifiers": [{"namespace": ["d"], "name": name} for name in self.tables]}
        if path == ["namespaces", "d", "tables"]:
            return 200, {"metadata": self.created(request), "config": {}}
        name = path[-1]
        if method == "POST":
            self.commit(name, request["updates"])
        if name not in self.tables:
            return 404, {"error": {"message": name, "type": "NoSuchTableException", "code": 404}}
        loaded = {"metadata-location": f"file://{self.location(name)}", "metadata": self.tables[name][-1]}
        return 200, {**loaded, "config": {}}


@contextmanager
def served(catalog: RestCatalog) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            request = json.loads(self.rfile.read(size)) if size else {}
            path = unquote(self.path.partition("?")[0]).strip("/").split("/")[1:]
            status, answer = catalog.answer(self.command, path, request)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_HEAD = do_DELETE = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
