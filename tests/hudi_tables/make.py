"""Make real Hudi tables of every kind, with Spark's rows after each of their instants, and pack them.

It runs in an environment of its own (`make hudi-tables`). A table that is made anew has other file ids and
instants, and the same kinds of instants: where these differ from those of the pack that was there, the status
is 1.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import time
import traceback
from pathlib import Path

from cow_contents import CONTENTS
from cow_kinds import COW
from cow_services import SERVICES
from made_table import Kind, MadeTable
from mor_kinds import MOR
from mor_merging import MERGING
from packing import kinds_of, pack
from promotions import PROMOTED
from pyspark.sql import SparkSession
from session import hudi_session

VERSION = re.compile(r"[a-z]+_v(\d)")
"""A name begins with the kind of table and its version."""
PACKED = Path(__file__).parent / "packed"


def main() -> int:
    """Make the tables that were named, also after one that failed; return the status of the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="kinds to make; all unless named")
    parser.add_argument("--folder", type=Path, required=True, help="where the tables are made; emptied first")
    parser.add_argument("--packed", type=Path, default=PACKED, help="where the packs go")
    arguments = parser.parse_args()
    kinds = {kind.__name__: kind for kind in COW + SERVICES + CONTENTS + MOR + MERGING + PROMOTED}
    names = arguments.names or list(kinds)
    spark = hudi_session(str(arguments.folder.resolve() / "warehouse"))
    arguments.packed.mkdir(parents=True, exist_ok=True)
    failures = []
    for name in names:
        started = time.monotonic()
        try:
            made = make(spark, arguments.folder.resolve() / name, name, kinds[name])
        except Exception:
            failures.append(name)
            print(f"{name}: {traceback.format_exc()}", flush=True)
            continue
        target = arguments.packed / f"{name}.tar.gz"
        before = kinds_of(target) if target.exists() else None
        pack(made.table.parent, target)
        if before not in (None, kinds_of(target)):
            failures.append(name)
            print(f"{name}: its instants were of other kinds before: {before}", flush=True)
        size, took = target.stat().st_size, time.monotonic() - started
        print(f"{name}: {len(made.instants)} instants, {size} bytes, {took:.0f} s", flush=True)
    spark.stop()
    return 1 if failures else 0


def make(spark: SparkSession, folder: Path, name: str, kind: Kind) -> MadeTable:
    """Make a table of a kind in an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    version = VERSION.match(name)
    assert version is not None, name
    made = MadeTable(spark, folder, name, name[:3], int(version[1]), kind.__doc__ or "")
    kind(made)
    made.finish()
    return made


if __name__ == "__main__":
    sys.exit(main())
