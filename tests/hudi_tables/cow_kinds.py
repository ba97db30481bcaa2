"""COPY_ON_WRITE tables: the kinds that a reader meets, each with a short history."""

from __future__ import annotations

from made_table import MadeTable


def partitioned(made: MadeTable, *, hive_style: bool) -> None:
    """Partition the table by the column `part`."""
    made.set(
        datasource__write__partitionpath__field="part",
        datasource__write__hive_style_partitioning=str(hive_style).lower(),
    )


def delete_partition(made: MadeTable, folder: str) -> None:
    """Delete a partition by the name of its folder."""
    made.write(made.orders([0], 0), "delete_partition", datasource__write__partitions__to__delete=folder)


def life(made: MadeTable) -> None:
    """Write every row operation once: insert, upsert, delete, overwrite of partitions and of the table."""
    made.write(made.orders(range(30), 1), "insert")
    made.write(made.orders([*range(12), *range(30, 36)], 2), "upsert")
    made.write(made.orders([3, 4, 5, 33, 99], 2), "delete")
    made.write(made.orders(range(40, 44), 3), "insert")
    made.write(made.orders(range(60, 64), 4), "insert_overwrite")
    made.write(made.orders([61, 70, 71], 5), "upsert")
    made.write(made.orders(range(80, 90), 6), "insert_overwrite_table")
    made.write(made.orders(range(85, 95), 7), "upsert")


def cow_v9(made: MadeTable) -> None:
    """Keep one folder, found by the simple index, with Hudi's own metadata table beside."""
    made.set(metadata__enable="true", metadata__index__column__stats__enable="false")
    life(made)


def cow_v8_hive(made: MadeTable) -> None:
    """Keep folders like part=p0."""
    partitioned(made, hive_style=True)
    life(made)
    delete_partition(made, "part=p1")


def cow_v6_parts(made: MadeTable) -> None:
    """Keep folders like p0; completion times are the times at which files changed."""
    partitioned(made, hive_style=False)
    life(made)
    delete_partition(made, "p1")


COW = (cow_v9, cow_v8_hive, cow_v6_parts)
