"""Iceberg tables of a catalog by name, which pyiceberg writes: snapshots equal its scan; what is refused."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, LessThan
from pyiceberg.table import Table
from pyiceberg.types import DoubleType, LongType

import tailbit
from support.drive import Drive
from support.forked import command
from support.iceberg import counted
from support.iceberg_catalog import Sales, rest_server, rows
from support.waiting import wait_until
from tailbit.errors import (
    CatalogError,
    NotATableError,
    RequirementError,
    StatementError,
    StorageError,
    UnusableStorageError,
    UsageError,
)
from tailbit.tables import open_table
from tailbit.tables.iceberg import catalogs
from tailbit.tables.storage import StorageOptions, one_look
from tailbit.tables.storage.locations import credentials_in

ORDERS = "iceberg://prod/sales.orders"


@pytest.fixture
def sales(tmp_path: Path) -> Sales:
    return Sales(tmp_path / "lake")


def opened(sales: Sales, **given: Any) -> tailbit.IndexedTable:
    return tailbit.open(ORDERS, storage_options=sales.options, **given)


def history(orders: Table) -> Iterator[str]:
    """Commits of every kind that pyiceberg has; their names."""
    orders.append(rows(0, 40))
    yield "append"
    orders.append(rows(40, 60))
    yield "append"
    orders.delete(LessThan("k", 7))
    yield "delete"
    orders.overwrite(rows(100, 110), And(GreaterThanOrEqual("k", 20), LessThan("k", 30)))
    yield "overwrite"
    with orders.update_schema() as update:
        update.add_column("price", DoubleType())
        update.rename_column("city", "town")
        update.update_column("qty", LongType())
    yield "schema"
    orders.append(orders.scan(EqualTo("k", 50)).to_arrow())
    yield "append"
    snapshots = orders.snapshots()
    with orders.manage_snapshots() as manage:
        manage.create_branch(snapshots[1].snapshot_id, "audit")
        manage.create_tag(snapshots[2].snapshot_id, "before")
    yield "refs"
    orders.append(rows(200, 205).rename_columns(["k", "town", "qty"]), branch="audit")
    yield "append to a branch"
    with orders.manage_snapshots() as manage:
        manage.rollback_to_snapshot(snapshots[2].snapshot_id)
    yield "rollback"
    orders.append(rows(300, 310).rename_columns(["k", "town", "qty"]))
    yield "append"
    orders.delete(EqualTo("town", "Lima"))
    yield "delete"


def check(sales: Sales, orders: Table, **given: Any) -> None:
    """Compare every snapshot, the branch, the tag and the head with pyiceberg's own scan."""
    table = opened(sales, **given)
    assert counted(table.where().read()) == counted(orders.scan().to_arrow())
    for snapshot in orders.snapshots():
        truth = orders.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
        answer = table.where(version=str(snapshot.snapshot_id))
        assert counted(answer.read()) == counted(truth), snapshot
        town = "town" if "town" in truth.column_names else "city"
        lima = table.where(f"{town} = 'Lima' AND qty >= 2", version=str(snapshot.snapshot_id)).count()
        found = [row for row in truth.to_pylist() if row[town] == "Lima" and row["qty"] >= 2]
        assert lima == len(found), snapshot


@pytest.mark.supports_iceberg("Tables", "tables of a catalog by name, through pyiceberg", "exact")
@pytest.mark.by_thirds
@pytest.mark.parametrize("version", ["1", "2"])
def test_an_index_of_a_table_of_a_catalog_follows_it_and_equals_pyicebergs_scan_at_every_snapshot(
    sales: Sales, tmp_path: Path, version: str
) -> None:
    orders = sales.create("orders", **{"format-version": version})
    orders.append(rows(400, 402))
    index = str(tmp_path / "index")
    drive = Drive(ORDERS, index, ["city", "qty"], options=StorageOptions.of(sales.options))
    for commit in history(orders):
        drive.drain()
        check(sales, orders, index=index)
        assert opened(sales, index=index).where().covered_version == drive.table.head(), commit
    answer = opened(sales, index=index)
    assert answer.verify(samples=50).problems == []
    assert answer.where("town = 'Oslo'").files_scanned == 0


def test_a_reader_sees_each_commit_and_asks_once_a_look(sales: Sales) -> None:
    orders = sales.create("orders")
    orders.append(rows(0, 5))
    with rest_server(sales) as (uri, asked):
        table = tailbit.open(ORDERS, storage_options={"catalog.type": "rest", "catalog.uri": uri})
        assert table.where("k >= 0").count() == 5
        orders.append(rows(5, 8))
        asked.clear()
        assert table.where("k >= 0").count() == 8
    assert asked == ["/v1/namespaces/sales/tables/orders"]


def test_metadata_is_read_once_however_often_the_catalog_is_asked(sales: Sales) -> None:
    orders = sales.create("orders")
    orders.append(rows(0, 5))
    table = open_table(ORDERS, StorageOptions.of(sales.options))
    before = table.snapshot()
    for file in Path(table.root, "metadata").glob("*.metadata.json"):
        file.unlink()
    with one_look():
        assert table.snapshot() is before


def test_a_table_of_a_catalog_is_named_by_its_catalog_in_scripts_of_its_indexes(sales: Sales) -> None:
    sales.create("orders").append(rows(0, 5))
    made = f"CREATE INDEX by_city ON iceberg.`{ORDERS}` USING bitmap (city)"
    assert tailbit.sql(made, storage_options=sales.options)[0]["state"] == "complete"
    given = ["--storage-option", f"catalog.uri={sales.uri}"]
    script = command("index", "export", ORDERS, *given, check=True).stdout
    assert f"ON iceberg.`{ORDERS}`" in script


def test_statements_name_tables_by_catalog_namespace_and_name(
    sales: Sales, monkeypatch: pytest.MonkeyPatch
) -> None:
    sales.create("orders").append(rows(0, 8))
    config = Path(sales.uri.removeprefix("sqlite:///")).parent / ".pyiceberg.yaml"
    config.write_text(f"catalog:\n  prod:\n    type: sql\n    uri: {sales.uri}\n")
    script = (
        "import tailbit; tailbit.sql('CREATE INDEX by_city ON prod.sales.orders USING bitmap (city)');"
        f"print(tailbit.open('{ORDERS}').where(\"city = 'Lima'\").count(),"
        "tailbit.sql('SHOW INDEXES FROM prod.sales.orders')[0]['name'])"
    )
    said = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYICEBERG_HOME": str(config.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.stdout == "2 by_city\n", said.stderr
    with pytest.raises(StatementError, match="is a name of a catalog"):
        tailbit.sql("SHOW INDEXES FROM other.sales.orders")


@pytest.mark.supports_iceberg("Tables", "a name that the catalog does not have", "refused")
def test_a_name_that_the_catalog_does_not_have_is_refused_with_the_nearest(sales: Sales) -> None:
    sales.create("orders").append(rows(0, 5))
    with pytest.raises(NotATableError, match="no table of that name") as refused:
        tailbit.open("iceberg://prod/sales.order", storage_options=sales.options)
    assert "Did you mean sales.orders?" in refused.value.hint
    table = opened(sales)
    sales.catalog.drop_table("sales.orders")
    with pytest.raises(NotATableError, match="no table of that name"):
        table.where("k >= 0").count()


@pytest.mark.parametrize(
    "uri", ["iceberg://prod", "iceberg:///sales.orders", "iceberg://prod/orders", "iceberg://p/a..b"]
)
def test_a_uri_without_catalog_namespace_and_table_is_refused(uri: str) -> None:
    with pytest.raises(UsageError, match="names no table of a catalog"):
        tailbit.open(uri)


@pytest.mark.supports_iceberg("Tables", "a catalog that is not described, or gives no answer", "refused")
def test_a_catalog_that_nothing_describes_is_refused_with_where_to_describe_it() -> None:
    with pytest.raises(CatalogError, match="URI missing") as refused:
        tailbit.open("iceberg://nowhere/sales.orders")
    assert not refused.value.retryable
    assert "PYICEBERG_CATALOG__NOWHERE__URI" in refused.value.hint


def test_a_catalog_that_refuses_connections_may_be_asked_again_and_its_token_is_hidden() -> None:
    options = {"catalog.uri": "http://127.0.0.1:9", "catalog.token": "open-sesame"}
    with pytest.raises(CatalogError, match="ConnectionError") as refused:
        tailbit.open(ORDERS, storage_options=options)
    assert refused.value.retryable
    assert "open-sesame" not in str(refused.value)


def test_a_silent_catalog_is_given_up_and_gets_no_second_request_before_it_answers(
    sales: Sales, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogs, "ANSWER_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        table = catalogs.CatalogTable(ORDERS, StorageOptions.of({"catalog.uri": uri}))
        for _ in range(3):
            with pytest.raises(CatalogError, match="no answer within") as refused:
                table.location()
            assert refused.value.retryable
        silent.settimeout(0)
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):
            silent.accept()


def test_a_table_that_moved_is_refused_by_a_reader_that_was_opened_before(
    sales: Sales, tmp_path: Path
) -> None:
    sales.create("orders").append(rows(0, 5))
    table = opened(sales)
    sales.catalog.drop_table("sales.orders")
    elsewhere = sales.catalog.create_table(
        "sales.orders", rows(0, 1).schema, location=f"file://{tmp_path}/other"
    )
    elsewhere.append(rows(0, 3))
    with pytest.raises(NotATableError, match="it now lies in"):
        table.where("k >= 0").count()
    assert opened(sales).where("k >= 0").count() == 3


def test_without_pyiceberg_a_table_of_a_catalog_says_what_to_install() -> None:
    script = (
        "import sys; sys.modules['pyiceberg'] = None; import tailbit\n"
        f"try: tailbit.open('{ORDERS}')\nexcept tailbit.errors.RequirementError as lacks: print(lacks.hint)"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert "pip install 'tailbit[iceberg-catalogs]'" in said


def test_a_kind_of_catalog_whose_client_is_missing_says_what_to_install() -> None:
    with pytest.raises(RequirementError, match=r"pyiceberg\[hive\]|pyiceberg\[glue\]"):
        tailbit.open(ORDERS, storage_options={"catalog.type": "glue"})


def test_no_question_by_path_nor_name_of_another_catalog_loads_pyiceberg(sales: Sales) -> None:
    orders = sales.create("orders")
    orders.append(rows(0, 8))
    file = orders.metadata_location.removeprefix("file://")
    script = (
        "import sys, tailbit; from tailbit.tables.open import named_in_catalog;"
        f"print(tailbit.open({file!r}).where(\"city = 'Lima'\").count());"
        "named_in_catalog(['sales', 'orders']); named_in_catalog(['unity', 'a', 'b'], 'io.unity.Catalog');"
        "print([name for name in sys.modules if name.startswith(('pyiceberg', 'sqlalchemy'))])"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert said == "2\n[]\n"


def credentials(access: dict[str, str], ends_in_s: float = 3600, **changed: str) -> dict[str, str]:
    """Properties that lend a key of the S3 server."""
    return {
        "s3.access-key-id": access["AWS_ACCESS_KEY_ID"],
        "s3.secret-access-key": access["AWS_SECRET_ACCESS_KEY"],
        "s3.session-token-expires-at-ms": str(int((time.time() + ends_in_s) * 1000)),
        **changed,
    }


@pytest.fixture
def in_store(tmp_path: Path, s3_root: str, s3_server: Any) -> tuple[Sales, dict[str, str], dict[str, str]]:
    """A catalog with its tables in S3, the options of the server, and properties that lead to it."""
    access = s3_server.options()
    reach = {"s3.endpoint": access["AWS_ENDPOINT_URL"], "s3.region": access["AWS_REGION"]}
    return Sales(tmp_path / "lake", s3_root, **reach, **credentials(access)), access, reach


@pytest.mark.supports_iceberg("Tables", "tables whose REST catalog lends credentials for S3", "exact")
@pytest.mark.parametrize("as_list", [False, True], ids=["config", "storage-credentials"])
def test_an_index_is_made_and_asked_with_credentials_that_a_rest_catalog_lends(
    in_store: tuple[Sales, dict[str, str], dict[str, str]], as_list: bool
) -> None:
    sales, access, reach = in_store
    orders = sales.create("orders")
    orders.append(rows(0, 40))
    wrong = credentials(access, **{"s3.secret-access-key": "wrong"})
    listed = [
        {"prefix": prefix, "config": config}
        for prefix, config in (
            ("s3://", wrong),
            (orders.location(), credentials(access)),
            ("s3://elsewhere", wrong),
        )
    ]
    lent = (
        {"config": {**reach, **wrong}, "storage-credentials": listed}
        if as_list
        else {"config": {**reach, **credentials(access)}}
    )
    with rest_server(sales, lent=lambda: lent) as (uri, _):
        given = {"catalog.type": "rest", "catalog.uri": uri}
        drive = Drive(ORDERS, f"{orders.location()}/_tailbit", ["city"], options=StorageOptions.of(given))
        drive.drain()
        orders.append(rows(40, 80))
        drive.drain()
        answer = tailbit.open(ORDERS, storage_options=given).where("city = 'Lima'")
        assert (answer.count(), answer.files_scanned) == (20, 0)


def test_lent_credentials_are_asked_for_anew_before_they_expire(
    in_store: tuple[Sales, dict[str, str], dict[str, str]],
) -> None:
    sales, access, reach = in_store
    sales.create("orders").append(rows(0, 40))
    lent = {"config": {**reach, **credentials(access, ends_in_s=20)}}
    with rest_server(sales, lent=lambda: lent) as (uri, asked):
        table = open_table(ORDERS, StorageOptions.of({"catalog.type": "rest", "catalog.uri": uri}))
        name = next(iter(table.snapshot().files)).path
        asked.clear()
        wait_until(lambda: bool(table.storage.read(name) and asked))
        lent["config"] = reach
        with pytest.raises(StorageError, match="lends no credentials any more"):
            wait_until(lambda: not table.storage.read(name))


def test_credentials_that_are_given_go_before_those_that_a_catalog_lends(
    in_store: tuple[Sales, dict[str, str], dict[str, str]],
) -> None:
    sales, access, reach = in_store
    sales.create("orders").append(rows(0, 40))
    lent = {"config": {**reach, **credentials(access, **{"s3.secret-access-key": "wrong"})}}
    with rest_server(sales, lent=lambda: lent) as (uri, _):
        given = {"catalog.type": "rest", "catalog.uri": uri}
        assert tailbit.open(ORDERS, storage_options={**access, **given}).where().count() == 40
        with pytest.raises(UnusableStorageError) as refused:
            tailbit.open(ORDERS, storage_options=given).where().count()
    assert "wrong" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "lent", "expected"),
    [
        ("gs://bucket", {"gcs.oauth2.token": "t", "gcs.oauth2.token-expires-at": "1000"}, {"token": "t"}),
        (
            "abfss://c@acc.dfs.core.windows.net",
            {"adls.sas-token.acc.dfs.core.windows.net": "s", "adls.sas-token-expires-at-ms.acc": "1000"},
            {"sas_token": "s"},
        ),
        ("az://bucket", {"gcs.oauth2.token": "t"}, {}),
        ("s3://bucket", {"s3.access-key-id": "a"}, {}),
    ],
)
def test_lent_credentials_of_each_cloud_become_those_of_its_store(
    url: str, lent: dict[str, str], expected: dict[str, str]
) -> None:
    found = credentials_in(url, lent)
    assert {name: value for name, value in found.items() if name != "expires_at"} == expected
    assert not found or found["expires_at"].timestamp() == 1
