"""Real Spark over Iceberg tables of a catalog, which pyiceberg writes, and tables in object stores."""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

import tailbit
from demo.processes import Child
from support.drive import Drive
from support.forked import command
from support.iceberg import counted, unpack
from support.iceberg_catalog import Sales, rest_server, rows
from support.stored import put_into
from support.waiting import wait_until
from tailbit.streaming.query import launch
from tailbit.streaming.settings import StreamSettings
from tailbit.tables import open_table
from tailbit.tables.storage import StorageOptions
from tailbit.upkeep.status import status_of

ORDERS = "iceberg://prod/sales.orders"
CONFIGURATION = """\
[application]
name = "iceberg"
checkpoint = "{folder}/checkpoint"
metrics = "off"
ui = false

[defaults]
idle_poll = "200ms"
storage_options = {{ "catalog.type" = "rest", "catalog.uri" = "{uri}" }}

[[table]]
path = "iceberg://prod/sales.orders"
columns = ["city", "qty"]

[[table]]
id = "returns"
path = "iceberg://prod/sales.returns"
columns = ["city"]
"""


@pytest.mark.supports_iceberg("Ways to ask", "`tailbit run`, which follows each commit", "exact")
def test_the_stream_follows_a_table_of_a_catalog_on_the_workers(
    spark: Any, tmp_path: Path, started: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "StreamSettings", lambda **given: StreamSettings(**given, inline_bytes=0))
    sales = Sales(tmp_path / "lake")
    orders = sales.create("orders")
    orders.append(rows(0, 40))
    started(ORDERS, ["city", "qty"], storage_options=sales.options)
    for first in (100, 200, 300):
        orders.append(rows(first, first + 20))
        orders.delete(f"k >= {first} AND k < {first + 5}")
        head = str(orders.current_snapshot().snapshot_id)
        wait_until(
            lambda head=head: status_of(ORDERS, storage_options=sales.options)["covered_version"] == head
        )
        opened = tailbit.open(ORDERS, storage_options=sales.options)
        answer = opened.where("city = 'Lima' AND qty >= 2")
        assert answer.files_scanned == 0
        assert counted(answer.read()) == counted(orders.scan("city = 'Lima' AND qty >= 2").to_arrow())
    assert opened.verify().sound


def test_an_application_follows_tables_of_a_rest_catalog_by_name_and_goes_on_after_it_failed(
    tmp_path: Path,
) -> None:
    sales = Sales(tmp_path / "lake")
    tables = [sales.create(name) for name in ("orders", "returns")]
    for table in tables:
        table.append(rows(0, 40))
    file, log = tmp_path / "tailbit.toml", tmp_path / "indexer.log"

    def covers(name: str) -> bool:
        answer = tailbit.open(f"iceberg://prod/sales.{name}", storage_options=sales.options).where()
        return answer.covered_version == answer.version

    with ExitStack() as at_work:
        with rest_server(sales) as (uri, _):
            file.write_text(CONFIGURATION.format(folder=tmp_path, uri=uri))
            indexer = at_work.enter_context(
                Child("indexer", log, ["tailbit.cli", "run", "--config", str(file)])
            )
            wait_until(lambda: covers("orders") and covers("returns"), indexer.check)
        for table in tables:
            table.append(rows(100, 120))
        port = int(uri.rpartition(":")[2])
        with socket.create_server(("127.0.0.1", port)) as broken:
            broken.setblocking(False)

            def is_told() -> bool:
                with suppress(BlockingIOError):
                    broken.accept()[0].close()
                return "CatalogError" in log.read_text()

            wait_until(is_told, indexer.check)
        with rest_server(sales, port):
            wait_until(lambda: covers("orders") and covers("returns"), indexer.check)
            said = command("status", "--config", file, "--json", check=True)
            indexer.check()
    accounts = [json.loads(line) for line in said.stdout.splitlines()]
    assert {account["id"]: account["state"] for account in accounts} == {
        "sales.orders": "complete",
        "returns": "complete",
    }
    heads = {str(table.refresh().current_snapshot().snapshot_id) for table in tables}
    assert {account["covered_version"] for account in accounts} == heads


@pytest.mark.supports_iceberg("Ways to ask", "tables in object stores", "exact")
@pytest.mark.parametrize("name", ["deletes_v3", "lines_v2", "schemas_v3"])
def test_a_table_of_a_hadoop_catalog_in_an_object_store_is_indexed_and_answered_there(
    name: str, tmp_path: Path, s3_root: str, s3_options: dict[str, str]
) -> None:
    table = unpack(name, tmp_path)
    options = StorageOptions.of(s3_options)
    put_into(s3_root, options, table.path)
    columns = [column.label for column in open_table(s3_root, options).snapshot().schema.leaves()][:2]
    Drive(s3_root, f"{s3_root}/_tailbit", columns, options=options).drain()
    opened = tailbit.open(s3_root, storage_options=s3_options)
    assert opened.verify().sound
    assert opened.where().covered_version == opened.where().version
    for state in table.states:
        version = {} if state == "head" else {"version": state}
        rows_read = opened.where(**version).read().replace_schema_metadata()
        assert counted(rows_read) == counted(table.rows(state).replace_schema_metadata()), state


def test_a_table_of_a_catalog_in_an_object_store_is_followed_there(
    tmp_path: Path, s3_root: str, s3_options: dict[str, str], s3_server: Any
) -> None:
    access = s3_server.options()
    sales = Sales(
        tmp_path / "lake",
        s3_root,
        **{
            "s3.endpoint": access["AWS_ENDPOINT_URL"],
            "s3.access-key-id": access["AWS_ACCESS_KEY_ID"],
            "s3.secret-access-key": access["AWS_SECRET_ACCESS_KEY"],
            "s3.region": access["AWS_REGION"],
        },
    )
    orders = sales.create("orders")
    orders.append(rows(0, 40))
    given = {**s3_options, **sales.options}
    drive = Drive(
        ORDERS, f"{s3_root}/index", ["city"], StreamSettings(poll_ms=0), options=StorageOptions.of(given)
    )
    for first in (100, 200):
        orders.append(rows(first, first + 10))
        orders.delete(f"k = {first}")
        drive.drain()
        answer = tailbit.open(ORDERS, index=f"{s3_root}/index", storage_options=given).where("city = 'Lima'")
        assert answer.files_scanned == 0
        assert counted(answer.read()) == counted(orders.scan("city = 'Lima'").to_arrow())


def test_workers_ask_the_catalog_for_the_credentials_that_it_lends(
    spark: Any, tmp_path: Path, started: Any, monkeypatch: pytest.MonkeyPatch, s3_root: str, s3_server: Any
) -> None:
    monkeypatch.setattr(launch, "StreamSettings", lambda **given: StreamSettings(**given, inline_bytes=0))
    access = s3_server.options()
    lent = {
        "s3.endpoint": access["AWS_ENDPOINT_URL"],
        "s3.access-key-id": access["AWS_ACCESS_KEY_ID"],
        "s3.secret-access-key": access["AWS_SECRET_ACCESS_KEY"],
        "s3.region": access["AWS_REGION"],
    }
    sales = Sales(tmp_path / "lake", s3_root, **lent)
    orders = sales.create("orders")
    orders.append(rows(0, 40))
    with rest_server(sales, lent=lambda: {"config": lent}) as (uri, _):
        given = {"catalog.type": "rest", "catalog.uri": uri}
        query = started(ORDERS, ["city"], storage_options=given)
        orders.append(rows(100, 120))
        head = str(orders.current_snapshot().snapshot_id)
        wait_until(lambda: status_of(ORDERS, storage_options=given)["covered_version"] == head)
        answer = tailbit.open(ORDERS, storage_options=given).where("city = 'Lima'")
        assert (answer.count(), answer.files_scanned) == (15, 0)
        query.stop()
