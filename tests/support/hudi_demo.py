"""The demo with tables of Hudi: real ones of both types, which are put back to their first instants.

Their instants are shown one after the other while `tailbit run` follows both tables, is killed with SIGKILL
right after one, and started again. At the end the index and the rows that Hudi's own Spark read at each
instant, which DuckDB counts, answer the same questions. Nothing of Hudi is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

import pyarrow as pa

import tailbit
from support.followed_demo import Demo, main
from support.hudi import unpack
from support.hudi_states import changes, replayed

TABLES = {"cow": "cow_v9_clustered", "mor": "mor_v9"}
"""The name of each table in the demo, and of its pack."""

CONFIGURATION = """\
[application]
name = "hudi-demo"
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
columns = ["city", "qty", "part"]
"""


class HudiDemo(Demo):
    """Tables whose instants are shown in turn."""

    questions = (
        "city = 'Lima' AND qty >= 2",
        "NOT part = 'p1' AND city IS NULL",
        "city IN ('Oslo', 'Kyiv') AND id % 3 = 1",
    )
    writer, versions, truth, pause_s = "hudi", "instant", "Hudi's own rows", 0.5

    def make(self) -> Sequence[str]:
        self.tables = {name: unpack(pack, self.folder / name) for name, pack in TABLES.items()}
        return list(self.tables)

    def configuration(self) -> str:
        tables = (TABLE.format(name=name, path=table.path) for name, table in self.tables.items())
        return CONFIGURATION.format(folder=self.folder) + "".join(tables)

    def steps(self) -> Iterator[Sequence[str]]:
        for instants in zip_longest(*map(replayed, self.tables.values())):
            for name, instant in zip(self.names, instants, strict=True):
                if instant is not None:
                    yield [f"{name}: {instant.action} {instant.requested}"]

    def opened(self, name: str) -> tailbit.IndexedTable:
        return tailbit.open(self.tables[name].path)

    def rows(self, name: str) -> Iterator[tuple[str, pa.Table]]:
        table = self.tables[name]
        return ((instant.requested, table.rows(instant)) for instant in changes(table))


if __name__ == "__main__":
    main(HudiDemo, __doc__)
