"""Writers of Hudi and of Iceberg at work, and `tailbit run` that follows them and is killed at random.

Hudi's own writer runs in an environment of its own (`make hudi-live` makes it); without that its test is left
out. pyiceberg writes tables of a catalog.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

import tailbit
from demo.processes import Child
from support.contents import contents_of
from support.drive import Drive
from support.hudi import HudiInstant, HudiTable
from support.hudi_states import changes
from support.iceberg import counted
from support.iceberg_catalog import TABLES, Sales
from support.waiting import wait_until
from tailbit.tables.open import open_table
from tailbit.tables.storage import StorageOptions

TESTS = Path(__file__).parents[1]
HUDI = TESTS.parent / "build" / "hudi-env" / "bin" / "python"
INSTANTS = int(os.environ.get("TAILBIT_LIVE_INSTANTS", "12"))
COMMITS = int(os.environ.get("TAILBIT_LIVE_COMMITS", "30"))
SEED = int(os.environ.get("TAILBIT_LIVE_SEED", "1"))
CONFIGURATION = """\
[application]
checkpoint = "{folder}/checkpoint"
metrics = "off"
ui = false

[defaults]
idle_poll = "200ms"
"""
TABLE = """
[[table]]
id = "{name}"
path = "{path}"
columns = {columns}
storage_options = {{ {options} }}
"""


@dataclass
class Followed:
    """Tables that a process writes, by name, and the columns that are indexed of each."""

    folder: Path
    writer: subprocess.Popen[str]
    paths: Mapping[str, str]
    columns: Sequence[str]
    options: Mapping[str, str] = field(default_factory=dict)

    def death(self) -> str | None:
        """What the writer said last if it failed."""
        failed = self.writer.poll() not in (None, 0)
        return (self.folder / "writer.log").read_text()[-2000:] if failed else None

    def is_covered(self) -> bool:
        """Whether each index covers the head of its table."""
        opened = [tailbit.open(path, storage_options=self.options) for path in self.paths.values()]
        return all(answer.covered_version == answer.version for answer in (each.where() for each in opened))

    def kill_until_written(self) -> None:
        """Kill the indexer at random, again and again, until the writer has ended and all is covered."""
        wait_until(lambda: (self.folder / "writer.log").read_text().count([*self.paths][-1]), self.death)
        file, options = (
            self.folder / "tailbit.toml",
            ", ".join(f'"{n}" = "{v}"' for n, v in self.options.items()),
        )
        sections = [
            TABLE.format(name=name, path=path, columns=json.dumps(self.columns), options=options)
            for name, path in self.paths.items()
        ]
        file.write_text(CONFIGURATION.format(folder=self.folder) + "".join(sections))
        command, rng, kills = ["tailbit.cli", "run", "--config", str(file)], random.Random(SEED), 0
        while True:
            with Child("indexer", self.folder / "indexer.log", command) as indexer:
                wait_until(lambda: self.is_covered() or self.writer.poll() is not None, self.death)
                indexer.check()
                if self.writer.poll() is not None:
                    assert self.writer.returncode == 0, self.death()
                    wait_until(self.is_covered, indexer.check)
                    break
                time.sleep(rng.uniform(0, 8))
                indexer.check()
                kills += 1
        assert kills > 0

    def check(self, name: str, truths: Iterator[tuple[str, pa.Table]]) -> None:
        """Compare an index with one built in one go, and answers with the rows of each version."""
        path, options = self.paths[name], StorageOptions.of(self.options)
        whole = self.folder / f"whole-{name}"
        Drive(path, whole, self.columns, options=options).drain()
        assert contents_of(f"{open_table(path, options).root}/_tailbit") == contents_of(str(whole))
        opened = tailbit.open(path, storage_options=self.options)
        assert opened.verify().sound
        assert opened.where("city = 'Lima'").files_scanned == 0
        for version, rows in truths:
            answer = opened.where("city = 'Lima' AND NOT qty = 1", version=version)
            lima = [row["qty"] for row in rows.to_pylist() if row["city"] == "Lima"]
            assert answer.count() == sum(qty not in (None, 1) for qty in lima)
            assert counted(opened.where(version=version).read()) == counted(rows)


@contextmanager
def writing(folder: Path, *command: object) -> Iterator[subprocess.Popen[str]]:
    """A writer, which says after each commit which table has it."""
    with (folder / "writer.log").open("w") as log:
        process = subprocess.Popen(
            [str(word) for word in command],
            cwd=TESTS,
            stdout=log,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def finished(folder: Path, kind: str) -> HudiTable:
    """A table as its writer left it."""
    described = json.loads((folder / kind / "truth" / "manifest.json").read_text())
    instants = tuple(
        HudiInstant(i["requested"], i["completed"], i["action"], i["rows"], i["readable_at_end"])
        for i in described["instants"]
    )
    return HudiTable(kind, kind, 9, instants, described["notes"], folder / kind)


@pytest.mark.skipif(not HUDI.exists(), reason="there is no environment of Hudi: make hudi-env")
def test_an_index_that_follows_hudis_writer_and_is_killed_at_random_equals_one_built_in_one_go(
    tmp_path: Path,
) -> None:
    maker = TESTS / "hudi_tables" / "live.py"
    numbers = ("--instants", INSTANTS, "--seed", SEED)
    with writing(tmp_path, HUDI, maker, "--folder", tmp_path, *numbers) as writer:
        paths = {kind: str(tmp_path / kind / "table") for kind in ("cow", "mor")}
        followed = Followed(tmp_path, writer, paths, ("id", "city", "qty", "part"))
        followed.kill_until_written()
    for kind, path in paths.items():
        table = finished(tmp_path, kind)
        assert open_table(path).name_of(open_table(path).head()) == changes(table)[-1].requested
        followed.check(kind, ((instant.requested, table.rows(instant)) for instant in changes(table)))


def test_an_index_that_follows_pyiceberg_and_is_killed_at_random_equals_one_built_in_one_go(
    tmp_path: Path,
) -> None:
    numbers = ("--commits", COMMITS, "--seed", SEED)
    module = (sys.executable, "-W", "ignore", "-m", "support.iceberg_catalog")
    with writing(tmp_path, *module, "--folder", tmp_path / "lake", *numbers) as writer:
        paths = {name: f"iceberg://prod/sales.{name}" for name in TABLES}
        options = {"catalog.uri": f"sqlite:///{tmp_path}/lake/catalog.db"}
        followed = Followed(tmp_path, writer, paths, ("k", "city", "qty"), options)
        followed.kill_until_written()
    catalog = Sales(tmp_path / "lake").catalog
    for name in TABLES:
        table = catalog.load_table(f"sales.{name}")
        followed.check(
            name,
            (
                (str(each.snapshot_id), table.scan(snapshot_id=each.snapshot_id).to_arrow())
                for each in table.snapshots()
            ),
        )
