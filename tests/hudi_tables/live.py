"""Write a COPY_ON_WRITE and a MERGE_ON_READ table without a pause, with Spark's rows after each instant.

It runs in the environment of Hudi (`make hudi-env`) and prints a line after each instant: the folder of the
table. Table services and rollbacks of completed commits come in between.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from pathlib import Path

from cow_kinds import partitioned
from cow_services import undo_newest
from made_table import MadeTable
from mor_kinds import compact
from session import hudi_session


def main() -> None:
    """Write as many instants to each table as were asked for, in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--instants", type=int, default=16, help="how many of each table")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    folder: Path = arguments.folder.resolve()
    spark = hudi_session(str(folder / "warehouse"))
    written = []
    for kind in ("cow", "mor"):
        made = MadeTable(spark, folder / kind, f"live_{kind}", kind, 9, "written while it is followed")
        partitioned(made, hive_style=False)
        written.append((made, random.Random(f"{kind} {arguments.seed}")))
    for number in range(arguments.instants):
        for made, rng in written:
            act(made, rng, number)
            print(made.table.parent.name, flush=True)
    for made, _ in written:
        made.finish()
    spark.stop()


def act(made: MadeTable, rng: random.Random, number: int) -> None:
    """Write rows, or let a service of the table run."""
    if number == 0:
        made.write(made.orders(range(40), 1), "insert")
    elif number % 5 == 4:
        rng.choice(SERVICES[made.kind])(made)
    elif rng.random() < 0.25:
        made.write(made.orders(rng.sample(range(60), 5), number + 1), "delete")
    else:
        made.write(made.orders(rng.sample(range(60), 8), number + 1), "upsert")


def cluster(made: MadeTable) -> None:
    """Write the rows of all file groups into new ones."""
    made.sql("CALL run_clustering(table => '{t}', op => 'scheduleAndExecute')")


def clean(made: MadeTable) -> None:
    """Delete the files of all but the newest commits."""
    made.ask("CALL run_clean(table => '{t}', retain_commits => 6)")
    made.write(made.orders([70], 1), "upsert")


SERVICES: dict[str, tuple[Callable[[MadeTable], None], ...]] = {
    "cow": (cluster, undo_newest, clean),
    "mor": (compact, clean),
}


if __name__ == "__main__":
    main()
