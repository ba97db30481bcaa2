"""Iceberg tables of Glue (moto) and of a real Hive metastore, which pyiceberg writes, as one follows them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

import tailbit
from support.catalog_servers import clients, glue, hive
from support.drive import Drive
from support.iceberg import counted
from support.iceberg_catalog import ROWS, rows
from tailbit.errors import CatalogError, NotATableError
from tailbit.tables.storage import StorageOptions

ORDERS = "iceberg://prod/sales.orders"
Served = Callable[[Path], AbstractContextManager[dict[str, str]]]


@pytest.fixture(
    params=[
        pytest.param(serve, id=serve.__name__, marks=pytest.mark.supports_iceberg("Tables", what, "exact"))
        for serve, what in (
            (glue, "tables of a catalog by name: AWS Glue (played by moto)"),
            (hive, "tables of a catalog by name: a Hive metastore"),
        )
    ]
)
def catalog(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Table, dict[str, str], ExitStack]]:
    """A table, the storage options that name its catalog, and what ends the catalog."""
    monkeypatch.setattr(sys, "path", [*sys.path, clients()])
    with ExitStack() as ends:
        properties = ends.enter_context(request.param(tmp_path))
        prod = load_catalog("prod", warehouse=f"file://{tmp_path}/warehouse", **properties)
        prod.create_namespace("sales", {"location": f"file://{tmp_path}/warehouse/sales"})
        orders = prod.create_table("sales.orders", ROWS, location=f"file://{tmp_path}/warehouse/orders")
        yield orders, {f"catalog.{name}": value for name, value in properties.items()}, ends


def changed(orders: Table) -> Iterator[str]:
    """Commits of several kinds; their names."""
    orders.append(rows(0, 40))
    yield "append"
    orders.delete("k < 7")
    yield "delete"
    with orders.update_schema() as update:
        update.rename_column("city", "town")
    yield "schema"
    orders.overwrite(orders.scan("k = 20").to_arrow(), "k >= 20 AND k < 30")
    yield "overwrite"
    with orders.manage_snapshots() as manage:
        manage.rollback_to_snapshot(orders.snapshots()[1].snapshot_id)
    yield "rollback"


def test_a_table_of_the_catalog_is_followed_by_name_and_equals_pyicebergs_scan(
    catalog: tuple[Table, dict[str, str], ExitStack], tmp_path: Path
) -> None:
    orders, options, _ = catalog
    index = str(tmp_path / "index")
    orders.append(rows(400, 402))
    drive = Drive(ORDERS, index, ["city", "qty"], options=StorageOptions.of(options))
    for commit in changed(orders):
        drive.drain()
        table = tailbit.open(ORDERS, index=index, storage_options=options)
        assert table.where().covered_version == drive.table.head(), commit
        assert table.where("qty = 3").files_scanned == 0, commit
        scans: dict[str, Any] = {str(s.snapshot_id): s.snapshot_id for s in orders.snapshots()}
        for name, id_ in scans.items():
            truth = orders.scan(snapshot_id=id_).to_arrow()
            assert counted(table.where(version=name).read()) == counted(truth), (commit, name)
        assert counted(table.where().read()) == counted(orders.scan().to_arrow()), commit


def test_a_name_that_the_catalog_lacks_and_a_catalog_that_is_gone_are_refused_by_name(
    catalog: tuple[Table, dict[str, str], ExitStack],
) -> None:
    orders, options, ends = catalog
    orders.append(rows(0, 5))
    table = tailbit.open(ORDERS, storage_options=options)
    with pytest.raises(NotATableError, match="no table of that name") as missing:
        tailbit.open("iceberg://prod/sales.order", storage_options=options)
    assert "Did you mean sales.orders?" in missing.value.hint
    ends.close()
    with pytest.raises(CatalogError) as gone:
        table.where("k >= 0").count()
    assert gone.value.retryable


def test_glue_without_region_or_credentials_says_what_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, clients()])
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for given in ({}, {"catalog.glue.region": "us-east-1"}):
        with pytest.raises(CatalogError) as refused:
            tailbit.open(ORDERS, storage_options={"catalog.type": "glue", **given})
        assert not refused.value.retryable
        assert "Give credentials" in refused.value.hint
