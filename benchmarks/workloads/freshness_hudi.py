"""How long from a commit of a Hudi table to its being covered, beside a commit of a Delta table?

Usage: python workloads/freshness_hudi.py [COMMITS]. One application, a process of its own, keeps the indexes
of the tables; this process writes a commit of 100 rows to each, in random order after random pauses, and
watches the log of its index. (In a fixed order each commit meets the same moment of the looks at its table.)
The Hudi tables are written by hand: COPY_ON_WRITE a file a commit, MERGE_ON_READ a log block a commit, of new
rows as in tables with buckets, and of rows that replace others of a base file, with their positions.
"""

from __future__ import annotations

import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
from freshness import await_index, rows_of, seconds_until_covered
from timing import tell

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests"))
from support.hudi_builder import META, HudiBuilder, avro_fields, avro_schema
from support.hudi_logs import BASE_INSTANT, POSITIONS, avro_block, positions
from tailbit.index.store.table import MetadataTable
from tailbit.tables.open import open_table

Maker = Callable[[pathlib.Path], Callable[[pa.Table], None]]
"""Makes the writer of a table at a path: the writer commits rows."""
LOGS = ("_delta_log/*.json", ".hoodie/timeline/*", "metadata/v*.metadata.json")
"""The files of which the newest is a commit of a table."""
WARM_UP = 5
BLOCKS = 20
"""Log blocks in a file group until rows go to another one. By default Hudi compacts after 5 deltacommits."""
PAUSE_S = 0.3
"""Most seconds before a commit: longer than from one look at a table to the next."""
CONFIGURATION = """\
[application]
name = "fresh"
checkpoint = "{folder}/checkpoint"
metrics = "off"
ui = false

[defaults]
idle_poll = "200ms"
"""


def main(commits: int = 60) -> None:
    makers: dict[str, Maker] = {
        "COPY_ON_WRITE": _copied,
        "MERGE_ON_READ, new rows": _merged,
        "MERGE_ON_READ, updates": partial(_merged, is_updated=True),
    }
    for line in beside_delta(makers, commits):
        tell(line)


def beside_delta(makers: Mapping[str, Maker], commits: int) -> Iterator[dict[str, object]]:
    """Yield the waits of tables of any format beside those of a Delta table; `makers` make their writers."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tailbit-fresh-"))
    paths = {kind: f"t{number}" for number, kind in enumerate(("Delta", *makers))}
    writers = {kind: make(folder / paths[kind]) for kind, make in (("Delta", _delta), *makers.items())}
    for write in writers.values():
        write(rows_of(0))
    text = CONFIGURATION.format(folder=folder)
    for path in paths.values():
        text += f'\n[[table]]\npath = "{folder}/{path}"\ncolumns = ["kind", "site"]\n'
    (folder / "tailbit.toml").write_text(text)
    command = [pathlib.Path(sys.executable).with_name("tailbit"), "run", "--config", folder / "tailbit.toml"]
    indexer = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    waits: dict[str, list[float]] = {kind: [] for kind in writers}
    try:
        indexes = {kind: await_index(folder / path / "_tailbit") for kind, path in paths.items()}
        for commit in range(1, WARM_UP + commits + 1):
            for kind in random.sample(sorted(writers), len(writers)):
                time.sleep(random.uniform(0.0, PAUSE_S))
                seconds = _covered(writers[kind], rows_of(commit), str(folder / paths[kind]), indexes[kind])
                waits[kind] += [seconds] if commit > WARM_UP else []
    finally:
        indexer.send_signal(signal.SIGTERM)
        indexer.wait(60)
        shutil.rmtree(folder)
    of_delta = statistics.mean(waits["Delta"])
    for kind, seconds in waits.items():
        mean, error = statistics.mean(seconds), statistics.stdev(seconds) / len(seconds) ** 0.5
        cells = {"mean s": round(mean, 3), "standard error s": round(error, 3)}
        yield {"table": kind, **cells, "of Delta's": round(mean / of_delta, 2)}


def _covered(write: Callable[[pa.Table], None], rows: pa.Table, path: str, index: MetadataTable) -> float:
    """Commit rows, and return the seconds from their commit to that of the index that covers them.

    The commit is there when its file is: writers return some milliseconds later, delta-rs most of all. (The
    time of change of a file of the Hudi tables made here is that of a clock of their own.)
    """
    write(rows)
    logs = (file for log in LOGS for file in pathlib.Path(path).glob(log))
    age = time.time() - max(file.stat().st_ctime for file in logs)
    return seconds_until_covered(index, time.perf_counter() - age, open_table(path).head())


def _delta(path: pathlib.Path) -> Callable[[pa.Table], None]:
    return lambda rows: deltalake.write_deltalake(str(path), rows, mode="append")


def _copied(path: pathlib.Path) -> Callable[[pa.Table], None]:
    builder = HudiBuilder(str(path), 9, random.Random(1))

    def write(rows: pa.Table) -> None:
        requested = builder.timeline.request()
        file, _ = builder.data_file(rows, requested, builder.new_group(), "")
        builder.commit(requested, [file], rows.schema, "INSERT")

    return write


def _merged(path: pathlib.Path, is_updated: bool = False) -> Callable[[pa.Table], None]:
    """Return a writer of a base file and then of BLOCKS log blocks in its file group, and so on.

    `is_updated`: whether the base file holds the rows of its log blocks already.
    """
    said = {"hoodie.table.type": "MERGE_ON_READ", "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}
    builder = HudiBuilder(str(path), 9, random.Random(2), **said)
    group, base, first, blocks = "", "", 0, BLOCKS

    def write(rows: pa.Table) -> None:
        nonlocal group, base, first, blocks
        requested = builder.timeline.request("deltacommit")
        ids = rows["id"].to_pylist()
        if blocks == BLOCKS:
            group, base, first, blocks = builder.new_group(), requested, ids[0], 0
            commits = range(ids[0] // len(ids), ids[0] // len(ids) + BLOCKS + 1)
            held = pa.concat_tables([rows_of(commit) for commit in commits]) if is_updated else rows
            name = builder.data_file(_keyed(held), requested, group, "")[0].name
        else:
            blocks += 1
            places: dict[str, Any] = {}
            if is_updated:
                rows = rows.set_column(1, "kind", pc.binary_join_element_wise(rows["kind"], "new", ""))
                places = {POSITIONS: positions([id_ - first for id_ in ids]), BASE_INSTANT: base}
            keyed = _keyed(rows)
            schema = {"type": "record", "name": "t_record", "fields": avro_fields(keyed.schema, "t")}
            block = avro_block(requested, schema, keyed.to_pylist(), places)
            name = f".{group}_{requested}.log.1_0-{blocks}-1"
            (path / name).write_bytes(block)
        metadata: dict[str, Any] = {
            "partitionToWriteStats": {"": [{"fileId": group, "path": name, "fileSizeInBytes": 9}]},
            "compacted": False,
            "extraMetadata": {"schema": avro_schema(rows.schema, "t")},
            "operationType": "UPSERT",
        }
        builder.timeline.complete(requested, "deltacommit", metadata)

    return write


def _keyed(rows: pa.Table) -> pa.Table:
    """Return rows with Hudi's column of the record key."""
    return rows.add_column(0, META[2], rows["id"].cast(pa.string()))


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:2]))
