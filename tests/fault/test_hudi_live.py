"""Hudi's own writer at work, and `tailbit run` that follows both types of table and is killed at random.

The writer runs in the environment of Hudi (`make hudi-live` makes it); without that the test is left out.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import tailbit
from demo.processes import Child
from support.contents import contents_of
from support.drive import Drive
from support.hudi import HudiInstant, HudiTable
from support.hudi_states import changes
from support.waiting import wait_until
from tailbit.tables.open import open_table

MAKER = Path(__file__).parents[1] / "hudi_tables"
PYTHON = Path(__file__).parents[2] / "build" / "hudi-env" / "bin" / "python"
INSTANTS = int(os.environ.get("TAILBIT_LIVE_INSTANTS", "12"))
SEED = int(os.environ.get("TAILBIT_LIVE_SEED", "1"))
COLUMNS = ("id", "city", "qty", "part")
CONFIGURATION = """\
[application]
name = "hudi-live"
checkpoint = "{folder}/checkpoint"
metrics = "off"
ui = false

[defaults]
idle_poll = "200ms"

[[table]]
id = "cow"
path = "{folder}/cow/table"
columns = ["id", "city", "qty", "part"]

[[table]]
id = "mor"
path = "{folder}/mor/table"
columns = ["id", "city", "qty", "part"]
"""

pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="there is no environment of Hudi: make hudi-env")


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The writer, which says after each instant which table has it."""
    command = [
        PYTHON,
        MAKER / "live.py",
        "--folder",
        tmp_path,
        "--instants",
        str(INSTANTS),
        "--seed",
        str(SEED),
    ]
    with (tmp_path / "writer.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, text=True, start_new_session=True)
    yield process
    process.kill()
    process.wait()


def started(folder: Path) -> Child:
    return Child(
        "indexer", folder / "indexer.log", ["tailbit.cli", "run", "--config", f"{folder}/tailbit.toml"]
    )


def covers(table: str) -> bool:
    """Whether an index covers the head of its table."""
    answer = tailbit.open(table).where()
    return answer.covered_version == answer.version


def finished(folder: Path, kind: str) -> HudiTable:
    """A table as its writer left it."""
    described = json.loads((folder / kind / "truth" / "manifest.json").read_text())
    instants = tuple(
        HudiInstant(i["requested"], i["completed"], i["action"], i["rows"], i["readable_at_end"])
        for i in described["instants"]
    )
    return HudiTable(kind, kind, 9, instants, described["notes"], folder / kind)


def counted(rows: pa.Table) -> Counter[str]:
    return Counter(repr(row) for row in rows.select(sorted(rows.column_names)).to_pylist())


def test_an_index_that_follows_hudis_writer_and_is_killed_at_random_equals_one_built_in_one_go(
    tmp_path: Path, writer: subprocess.Popen[str]
) -> None:
    rng, kills = random.Random(SEED), 0

    def ended() -> str | None:
        wrong = writer.poll() not in (None, 0)
        return (tmp_path / "writer.log").read_text()[-2000:] if wrong else None

    paths = [str(tmp_path / kind / "table") for kind in ("cow", "mor")]
    wait_until(lambda: (tmp_path / "writer.log").read_text().count("mor\n"), ended)
    (tmp_path / "tailbit.toml").write_text(CONFIGURATION.format(folder=tmp_path))
    while True:
        with started(tmp_path) as indexer:
            wait_until(lambda: all(map(covers, paths)) or writer.poll() is not None, ended)
            if writer.poll() is not None:
                assert writer.returncode == 0, ended()
                wait_until(lambda: all(map(covers, paths)))
                break
            time.sleep(rng.uniform(0, 8))
            indexer.check()
            kills += 1
    assert kills > 0
    for kind, path in zip(("cow", "mor"), paths, strict=True):
        check(finished(tmp_path, kind), path, tmp_path / f"whole-{kind}")


def check(table: HudiTable, path: str, whole: Path) -> None:
    """Compare an index with one built in one go, and all answers with the rows that Hudi's Spark read."""
    Drive(path, whole, COLUMNS).drain()
    assert contents_of(f"{path}/_tailbit") == contents_of(str(whole))
    opened = tailbit.open(path)
    assert opened.verify().sound
    assert open_table(path).name_of(open_table(path).head()) == changes(table)[-1].requested
    for instant in changes(table):
        truth = table.rows(instant)
        answer = opened.where("city = 'Lima' AND NOT qty = 1", version=instant.requested)
        expected = [row for row in truth.to_pylist() if row["city"] == "Lima" and row["qty"] in (0, 2, 3)]
        assert answer.count() == len(expected)
        assert counted(opened.where(version=instant.requested).read()) == counted(truth)
    assert opened.where("city = 'Lima'").files_scanned == 0
