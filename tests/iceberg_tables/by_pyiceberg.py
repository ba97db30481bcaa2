"""Write the packed tables of pyiceberg, and what pyiceberg reads in them; its catalog is an SQLite database.

Run in an environment with `pyiceberg[sql-sqlite,pyarrow]`, which the tests do not need.
"""

from __future__ import annotations

import argparse
import datetime
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import BucketTransform, DayTransform, TruncateTransform, YearTransform
from pyiceberg.types import DoubleType, IntegerType, StringType

sys.path.insert(0, str(Path(__file__).parents[1]))
from hudi_tables.packing import pack

PACKED = Path(__file__).parent / "packed"
CODECS = ("zstd", "snappy")
SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("s", pa.string()),
        ("i", pa.int32()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("b", pa.bool_()),
        ("p", pa.decimal128(9, 2)),
        ("x", pa.binary()),
        ("day", pa.date32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("tn", pa.timestamp("us")),
        ("st", pa.struct([("a", pa.int64()), ("z", pa.string())])),
        ("l", pa.list_(pa.int64())),
    ]
)


def rows(first: int, end: int) -> pa.Table:
    """Rows of all types, with NULLs and NaN."""
    start = datetime.datetime(1969, 12, 20)  # noqa: DTZ001
    made: list[dict[str, Any]] = [
        {
            "k": n,
            "s": None if n % 4 == 0 else f"{'y' * (n % 20)}ä{n % 7}",
            "i": n * 3,
            "f": float("nan") if n % 5 == 0 else n / 2,
            "d": None if n % 3 == 0 else float(n),
            "b": n % 2 == 0,
            "p": None if n % 6 == 0 else n,
            "x": f"b{n}".encode(),
            "day": (start + datetime.timedelta(days=n)).date(),
            "ts": (start + datetime.timedelta(hours=7 * n)).replace(tzinfo=datetime.timezone.utc),
            "tn": start + datetime.timedelta(hours=5 * n),
            "st": None if n % 5 == 1 else {"a": n, "z": str(n)},
            "l": None if n % 4 == 1 else [n, None],
        }
        for n in range(first, end)
    ]
    return pa.Table.from_pylist(made, schema=SCHEMA)


def plain(table: Any, folder: Path) -> None:
    """Appends, deletes by rewriting, overwrites, and a schema that changes."""
    table.append(rows(0, 20))
    table.append(rows(20, 30))
    table.delete("k < 5")
    with table.update_schema() as update:
        update.add_column("n", IntegerType())
        update.rename_column("s", "text")
        update.update_column("f", DoubleType())
        update.delete_column("x")
    table.append(table.scan().to_arrow().slice(0, 3).set_column(0, "k", pa.array([90, 91, 92], pa.int64())))
    table.overwrite(table.scan(row_filter="k = 90").to_arrow(), overwrite_filter="k >= 25")
    with table.update_schema() as update:
        update.add_column("s", StringType())


def parted(table: Any, folder: Path) -> None:
    """Partitions of several transforms, and the spec changed."""
    with table.update_spec() as update:
        update.add_field("s", TruncateTransform(2), "part_s")
        update.add_field("day", YearTransform(), "part_y")
    table.append(rows(0, 12))
    with table.update_spec() as update:
        update.remove_field("part_s")
        update.add_field("ts", DayTransform(), "part_d")
        update.add_field("k", BucketTransform(4), "part_k")
        update.add_identity("b")
    table.append(rows(12, 24))
    table.delete("b = true and k > 6")


def imported(table: Any, folder: Path) -> None:
    """Files that were written without Iceberg."""
    files = []
    for first in (0, 10):
        file = folder / "data" / f"own-{first}.parquet"
        file.parent.mkdir(exist_ok=True)
        pq.write_table(rows(first, first + 10), file)
        files.append(str(file))
    table.add_files(files)
    table.append(rows(20, 25))
    with table.update_schema() as update:
        update.rename_column("s", "text")


def few(table: Any, folder: Path) -> None:
    """A few rows: the table is about how its manifests are compressed."""
    table.append(rows(0, 4))
    table.append(rows(4, 6))
    table.delete("k = 1")


TABLES: dict[str, tuple[Callable[[Any, Path], None], str]] = {
    **{f"pyiceberg_{codec}": (few, "2") for codec in CODECS},
    **{f"pyiceberg_plain_v{n}": (plain, n) for n in ("1", "2")},
    **{f"pyiceberg_parted_v{n}": (parted, n) for n in ("1", "2")},
    "pyiceberg_imported": (imported, "2"),
}


def main() -> None:
    """Make all tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--packed", type=Path, default=PACKED)
    given = parser.parse_args()
    shutil.rmtree(given.folder, ignore_errors=True)
    given.folder.mkdir(parents=True)
    warehouse = f"file://{given.folder}"
    catalog = SqlCatalog("c", uri=f"sqlite:///{given.folder}/c.db", warehouse=warehouse)
    catalog.create_namespace("d")
    for name, (make, version) in TABLES.items():
        folder = given.folder / name
        codec = name.partition("_")[2]
        properties = {"write.avro.compression-codec": codec} if codec in CODECS else {}
        properties["format-version"] = version
        table = catalog.create_table(f"d.{name}", SCHEMA, location=f"file://{folder}", properties=properties)
        make(table, folder)
        truth = folder / "truth"
        truth.mkdir()
        ids = [snapshot.snapshot_id for snapshot in table.snapshots()]
        states = {"head": table.scan(), **{str(id_): table.scan(snapshot_id=id_) for id_ in ids}}
        for number, scan in enumerate(states.values()):
            pq.write_table(scan.to_arrow(), truth / f"{number}.parquet")
        (truth / "names.json").write_text(json.dumps([*states]))
        (truth / "open.txt").write_text("metadata/" + table.metadata_location.rpartition("/")[2])
        pack(folder, given.packed / f"{name}.tar.gz")
        print(name, len(ids), "snapshots")


if __name__ == "__main__":
    main()
