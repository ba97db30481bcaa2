"""The demo with tables of Iceberg: pyiceberg writes them, and its own scan answers beside the index.

Two tables of an SQL catalog get a random commit each, one after the other: appends, deletes, overwrites, new
columns, rollbacks, branches, expired snapshots. `tailbit run` follows both by their names in the catalog, is
killed with SIGKILL right after a commit, and started again. At the end the index and what pyiceberg reads at
each snapshot, which DuckDB counts, answer the same questions. No second Spark is needed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyiceberg.table import Table

import tailbit
from support.followed_demo import Demo, main
from support.iceberg_catalog import TABLES, Sales, change

COMMITS, SEED = 14, 3
"""Commits of each table, and the seed of their kinds."""
CONFIGURATION = """\
[application]
name = "iceberg-demo"
checkpoint = "{folder}/checkpoint"
metrics = "off"
ui = false

[defaults]
idle_poll = "200ms"
storage_options = {{ "catalog.uri" = "{uri}" }}
"""
TABLE = """
[[table]]
id = "{name}"
path = "iceberg://prod/sales.{name}"
columns = ["city", "qty"]
"""


class IcebergDemo(Demo):
    """Tables of a catalog, of which each gets a commit in a step."""

    questions = (
        "city = 'Lima' AND qty >= 2",
        "NOT qty = 3 AND city IS NULL",
        "city IN ('Oslo', 'Kyiv') AND k % 3 = 1",
    )
    writer, versions, truth, pause_s = "pyiceberg", "snapshot", "pyiceberg's own scan", 0.2

    def make(self) -> Sequence[str]:
        self.sales = Sales(self.folder / "lake")
        self.tables = {
            name: self.sales.create(name, **{"format-version": version}) for name, version in TABLES.items()
        }
        return list(self.tables)

    def configuration(self) -> str:
        tables = (TABLE.format(name=name) for name in self.names)
        return CONFIGURATION.format(folder=self.folder, uri=self.sales.uri) + "".join(tables)

    def steps(self) -> Iterator[Sequence[str]]:
        rng = random.Random(SEED)
        for number in range(COMMITS):
            yield [
                f"{name}: {change(table, rng, number)}, {head_of(table)}"
                for name, table in self.tables.items()
            ]

    def opened(self, name: str) -> tailbit.IndexedTable:
        return tailbit.open(f"iceberg://prod/sales.{name}", storage_options=self.sales.options)

    def rows(self, name: str) -> Iterator[tuple[str, pa.Table]]:
        table = self.tables[name]
        for snapshot in table.snapshots():
            yield str(snapshot.snapshot_id), table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()


def head_of(table: Table) -> str:
    """Return the id of the current snapshot."""
    snapshot = table.current_snapshot()
    return "no snapshot" if snapshot is None else f"snapshot {snapshot.snapshot_id}"


if __name__ == "__main__":
    main(IcebergDemo, __doc__)
