"""pyiceberg at work on tables of a catalog, and `tailbit run` that follows them and is killed at random."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tailbit
from demo.processes import Child
from support.contents import contents_of
from support.drive import Drive
from support.iceberg import counted
from support.iceberg_catalog import TABLES, Sales
from support.waiting import wait_until
from tailbit.tables.open import open_table
from tailbit.tables.storage import StorageOptions

COMMITS = int(os.environ.get("TAILBIT_LIVE_COMMITS", "30"))
SEED = int(os.environ.get("TAILBIT_LIVE_SEED", "1"))
COLUMNS = ("k", "city", "qty")
CONFIGURATION = """\
[application]
name = "iceberg-live"
checkpoint = "{folder}/checkpoint"
metrics = "off"
ui = false

[defaults]
idle_poll = "200ms"
storage_options = {{ "catalog.uri" = "sqlite:///{folder}/lake/catalog.db" }}

[[table]]
path = "iceberg://prod/sales.orders"
columns = ["k", "city", "qty"]

[[table]]
path = "iceberg://prod/sales.returns"
columns = ["k", "city", "qty"]
"""


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The writer, which says after each commit which table has it."""
    command = [sys.executable, "-W", "ignore", "-m", "support.iceberg_catalog", "--folder", tmp_path / "lake"]
    numbers = ["--commits", str(COMMITS), "--seed", str(SEED)]
    with (tmp_path / "writer.log").open("w") as log:
        process = subprocess.Popen(
            [*command, *numbers], cwd=Path(__file__).parents[1], stdout=log, stderr=log, text=True
        )
    yield process
    process.kill()
    process.wait()


def test_an_index_that_follows_pyiceberg_and_is_killed_at_random_equals_one_built_in_one_go(
    tmp_path: Path, writer: subprocess.Popen[str]
) -> None:
    rng, kills = random.Random(SEED), 0
    options = {"catalog.uri": f"sqlite:///{tmp_path}/lake/catalog.db"}
    paths = {name: f"iceberg://prod/sales.{name}" for name in TABLES}

    def ended() -> str | None:
        wrong = writer.poll() not in (None, 0)
        return (tmp_path / "writer.log").read_text()[-2000:] if wrong else None

    def all_covered() -> bool:
        answers = [tailbit.open(path, storage_options=options).where() for path in paths.values()]
        return all(answer.covered_version == answer.version for answer in answers)

    wait_until(lambda: (tmp_path / "writer.log").read_text().count("returns"), ended)
    file = tmp_path / "tailbit.toml"
    file.write_text(CONFIGURATION.format(folder=tmp_path))
    while True:
        with Child(
            "indexer", tmp_path / "indexer.log", ["tailbit.cli", "run", "--config", str(file)]
        ) as indexer:
            wait_until(lambda: all_covered() or writer.poll() is not None, indexer.check)
            if writer.poll() is not None:
                assert writer.returncode == 0, ended()
                wait_until(all_covered, indexer.check)
                break
            time.sleep(rng.uniform(0, 8))
            indexer.check()
            kills += 1
    assert kills > 0
    for name, path in paths.items():
        check(Sales(tmp_path / "lake"), name, path, tmp_path / f"whole-{name}")


def check(sales: Sales, name: str, path: str, whole: Path) -> None:
    """Compare an index with one built in one go, and all answers with what pyiceberg reads."""
    options = StorageOptions.of(sales.options)
    Drive(path, whole, COLUMNS, options=options).drain()
    assert contents_of(f"{open_table(path, options).root}/_tailbit") == contents_of(str(whole))
    opened, table = (
        tailbit.open(path, storage_options=sales.options),
        sales.catalog.load_table(f"sales.{name}"),
    )
    assert opened.verify().sound
    assert opened.where("city = 'Lima'").files_scanned == 0
    for snapshot in table.snapshots():
        truth = table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
        version = str(snapshot.snapshot_id)
        answer = opened.where("city = 'Lima' AND NOT qty = 1", version=version)
        assert answer.count() == sum(r["city"] == "Lima" and r["qty"] != 1 for r in truth.to_pylist())
        assert counted(opened.where(version=version).read()) == counted(truth)
