"""What does a Hudi table cost by its size? A commit by groups, history and base file; a cold count.

Usage: python workloads/hudi_cost.py [GROUPS]. The tables are written by hand. CPU alone is told, which other
work disturbs least, and of two tables the commits take turns.
"""

from __future__ import annotations

import pathlib
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
from timing import tell

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests"))
from support.drive import Drive
from support.hudi_builder import META, BaseFile, HudiBuilder, avro_fields, avro_schema
from support.hudi_logs import BASE_INSTANT, POSITIONS, avro_block, positions
from tailbit.tables.open import open_table

FEW, COMMITS, KEPT, LONG = 10, 15, 20, 1_000
FOLDERS, ROWS, UPDATED = 10, 100, 1_000
SMALL, LARGE = 20_000, 2_000_000
ASKED = "import tailbit, sys; tailbit.open(sys.argv[1]).count(\"kind = 'k3'\")"


def main(groups: int = 10_000) -> None:
    with tempfile.TemporaryDirectory(prefix="tailbit-hudi-") as name:
        folder = pathlib.Path(name)
        sizes = {f"{count:,} file groups": _grouped(folder / f"g{count}", count) for count in (FEW, groups)}
        tell({"question": "a commit, by file groups"} | _beside(sizes))
        for count in (1_000, 2 * groups):
            table = _grouped(folder / f"cold{count}", count)
            Drive(table.root, table.root / "_tailbit", ["kind", "site"]).drain()
            cpu = statistics.median(_cold(table.root) for _ in range(5))
            tell({"question": f"a cold count, {count:,} file groups", "CPU s": round(cpu, 3)})
        ages = {f"after {count:,} commits": _aged(folder / f"h{count}", count) for count in (FEW, LONG)}
        tell({"question": "a commit, by history"} | _beside(ages))
        for by in ("positions", "keys"):
            logs = {f"{rows:,} rows": _merged(folder / f"{by}{rows}", rows, by) for rows in (SMALL, LARGE)}
            tell({"question": f"{UPDATED:,} updates by {by}, by base file"} | _timed(logs))


def _rows(first: int, count: int = ROWS) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {"id": numbers, "kind": [f"k{n % 7}" for n in numbers], "site": [f"s{n % 400}" for n in numbers]}
    )


def _grouped(path: pathlib.Path, groups: int) -> HudiBuilder:
    """Return a table whose file groups hold copies of one file."""
    builder = HudiBuilder(str(path), 9, random.Random(groups))
    requested, files = builder.timeline.request(), list[BaseFile]()
    first, _ = builder.data_file(_rows(0), requested, builder.new_group(), "p0")
    for number in range(groups):
        group, partition = builder.new_group(), f"p{number % FOLDERS}"
        builder.begin_folder(partition, requested)
        place = f"{partition}/{group}_0-{number}-1_{requested}.parquet"
        shutil.copyfile(path / first.path, path / place)
        files.append(BaseFile(group, partition, place, requested, None, ROWS, first.size))
    builder.commit(requested, files, _rows(0).schema, "INSERT")
    return builder


def _append(builder: HudiBuilder, number: int) -> None:
    requested = builder.timeline.request()
    file, _ = builder.data_file(_rows(number * ROWS), requested, builder.new_group(), "p0")
    builder.commit(requested, [file], _rows(0).schema, "INSERT")


def _aged(path: pathlib.Path, commits: int) -> HudiBuilder:
    """Return a table of one small file a commit, of whose instants the newest are active."""
    builder = HudiBuilder(str(path), 9, random.Random(commits))
    for number in range(commits):
        _append(builder, number)
        if len(builder.timeline.instants) % (2 * KEPT) == 0:
            known = [
                i
                for i in builder.timeline.instants
                if (path / ".hoodie/timeline" / builder.timeline.file_of(i)).exists()
            ]
            if len(known) > KEPT:
                builder.timeline.archive(known[:-KEPT])
    return builder


def _beside(tables: dict[str, HudiBuilder]) -> dict[str, object]:
    """Return the CPU in ms of seeing a commit of one file, of each table."""
    followed = {name: open_table(str(table.root)) for name, table in tables.items()}
    for table in followed.values():
        table.snapshot()
    spent: dict[str, list[float]] = {name: [] for name in tables}
    for commit in range(COMMITS):
        for name, builder in tables.items():
            _append(builder, LONG + commit)
            began = time.process_time()
            head = followed[name].head()
            assert len(followed[name].changes(head, head).slices) == 1
            followed[name].snapshot()
            spent[name].append(1000 * (time.process_time() - began))
    return _told(spent)


def _told(spent: dict[str, list[float]]) -> dict[str, object]:
    small, large = (statistics.median(times) for times in spent.values())
    told: dict[str, object] = {
        f"{name}, CPU ms": round(statistics.median(times), 2) for name, times in spent.items()
    }
    return told | {"ratio": round(large / small, 2)}


def _cold(path: pathlib.Path) -> float:
    """Return the CPU in s of a process that counts once."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", ASKED, str(path)], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _merged(path: pathlib.Path, count: int, by: str) -> Iterator[Callable[[], object]]:
    """Yield, for each deltacommit of updates that was written, what indexes it."""
    said = {"hoodie.table.type": "MERGE_ON_READ", "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}
    builder = HudiBuilder(str(path), 9, random.Random(count), **said)
    group, rows, instant = builder.new_group(), _rows(0, count), builder.timeline.request("deltacommit")
    keyed = rows.add_column(0, META[2], rows["id"].cast(pa.string()))
    _complete(builder, instant, group, builder.data_file(keyed, instant, group, "")[0].name, rows.schema)
    drive = Drive(path, path / "_tailbit", ["kind", "site"])
    drive.drain()
    schema = {"type": "record", "name": "t_record", "fields": avro_fields(keyed.schema, "t")}
    for number in range(COMMITS):
        places = sorted(random.Random(number).sample(range(count), UPDATED))
        more = {POSITIONS: positions(places), BASE_INSTANT: instant} if by == "positions" else {}
        requested = builder.timeline.request("deltacommit")
        log = f".{group}_{requested}.log.1_0-{number}-1"
        (path / log).write_bytes(avro_block(requested, schema, keyed.take(places).to_pylist(), more))
        _complete(builder, requested, group, log, rows.schema)
        yield drive.drain


def _complete(builder: HudiBuilder, requested: str, group: str, name: str, schema: pa.Schema) -> None:
    metadata = {
        "partitionToWriteStats": {"": [{"fileId": group, "path": name, "fileSizeInBytes": 9}]},
        "compacted": False,
        "extraMetadata": {"schema": avro_schema(schema, "t")},
        "operationType": "UPSERT",
    }
    builder.timeline.complete(requested, "deltacommit", metadata)


def _timed(tables: dict[str, Iterator[Callable[[], object]]]) -> dict[str, object]:
    """Return the CPU in ms of indexing the deltacommits of each table."""
    spent: dict[str, list[float]] = {name: [] for name in tables}
    for _ in range(COMMITS):
        for name, commits in tables.items():
            index = next(commits)
            began = time.process_time()
            index()
            spent[name].append(1000 * (time.process_time() - began))
    return _told(spent)


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:2]))
