"""COPY_ON_WRITE tables whose files Hudi moved, took away or took back."""

from __future__ import annotations

from cow_kinds import partitioned
from made_table import MadeTable
from writers import failed, held, two_writers


def clustered(made: MadeTable) -> None:
    """Cluster many small files into few sorted ones, also one plan that completes after a later commit."""
    partitioned(made, hive_style=False)
    made.set(parquet__small__file__limit=0, clustering__plan__strategy__sort__columns="city,id")
    for first in (0, 10, 20):
        made.write(made.orders(range(first, first + 10), 1), "insert")
    made.sql("CALL run_clustering(table => '{t}', op => 'scheduleAndExecute')")
    made.write(made.orders([*range(5), 50, 53], 2), "upsert")
    made.ask("CALL run_clustering(table => '{t}', op => 'schedule')")
    made.write(made.orders(range(60, 64), 3), "insert")
    made.sql("CALL run_clustering(table => '{t}', op => 'execute')")
    made.write(made.orders([0, 60, 90], 4), "upsert")


def cow_v9_clustered(made: MadeTable) -> None:
    """Cluster a table of version 9, once by a plan that completes after a later commit."""
    clustered(made)


def cow_v6_clustered(made: MadeTable) -> None:
    """Cluster a table of version 6, once by a plan that completes after a later commit."""
    clustered(made)


def late(made: MadeTable) -> None:
    """Complete a commit after one that was requested later, with rows of both orders."""
    partitioned(made, hive_style=False)
    two_writers(made)
    made.write(made.orders(range(30), 1), "insert")
    with held(made, made.orders([0, 3, 6, 30], 2)):
        made.write(made.orders([1, 4, 7, 31], 3), "upsert")
        made.write(made.orders([2, 5, 8, 32], 4), "upsert")
    with held(made, made.orders(range(100, 109, 3), 5), "insert_overwrite"):
        made.write(made.orders([2, 5, 35], 6), "upsert")
    made.write(made.orders(range(9), 7), "upsert")


def cow_v9_late(made: MadeTable) -> None:
    """Complete commits of a table of version 9 in another order than they were requested in."""
    late(made)


def cow_v6_late(made: MadeTable) -> None:
    """Complete commits of a table of version 6 in another order than they were requested in."""
    late(made)


def cow_v9_conflict(made: MadeTable) -> None:
    """Leave the data files of a write that lost against another: its instant never completes."""
    partitioned(made, hive_style=False)
    two_writers(made)
    made.write(made.orders(range(20), 1), "insert")
    with failed(made, made.orders([0, 3, 6, 21], 2)):
        made.write(made.orders([0, 3, 9], 3), "upsert")
    made.write(made.orders([1, 22], 4), "upsert")


def undo_newest(made: MadeTable) -> None:
    """Roll back the newest completed commit."""
    newest = [i for i in made.instants if i.action == "commit"][-1]
    made.sql(f"CALL rollback_to_instant(table => '{{t}}', instant_time => '{newest.requested}')")


def cow_v9_rolled_back(made: MadeTable) -> None:
    """Roll back completed commits, one of them of inserts into files of their own."""
    partitioned(made, hive_style=False)
    made.write(made.orders(range(20), 1), "insert")
    made.write(made.orders([0, 1, 2, 20], 2), "upsert")
    undo_newest(made)
    made.write(made.orders([0, 4, 5, 23], 3), "upsert")
    made.write(made.orders(range(40, 44), 4), "insert", parquet__small__file__limit=0)
    undo_newest(made)


def restored(made: MadeTable) -> None:
    """Go back to a savepoint over several commits."""
    partitioned(made, hive_style=True)
    made.write(made.orders(range(20), 1), "insert")
    made.write(made.orders([0, 1, 2, 20], 2), "upsert")
    point = made.instants[-1].requested
    made.sql(f"CALL create_savepoint(table => '{{t}}', commit_time => '{point}')")
    made.write(made.orders([0, 3, 4, 21], 3), "upsert")
    made.write(made.orders(range(60, 63), 4), "insert_overwrite")
    made.sql(f"CALL rollback_to_savepoint(table => '{{t}}', instant_time => '{point}')")
    made.write(made.orders([0, 5, 6, 24], 5), "upsert")


def cow_v8_restored(made: MadeTable) -> None:
    """Restore a table of version 8 to a savepoint."""
    restored(made)


def cow_v6_restored(made: MadeTable) -> None:
    """Restore a table of version 6 to a savepoint."""
    restored(made)


def cleaned(made: MadeTable) -> None:
    """Take away files that two commits and more have superseded, some of them overwritten."""
    partitioned(made, hive_style=False)
    made.write(made.orders(range(30), 1), "insert")
    made.write(made.orders([0, 1, 2, 30], 2), "upsert")
    made.write(made.orders([60, 63], 3), "insert_overwrite")
    made.write(made.orders([1, 4, 31], 4), "upsert")
    made.sql("CALL run_clean(table => '{t}', retain_commits => 1)")
    made.write(made.orders([2, 5, 32], 5), "upsert")
    made.write(made.orders([60, 4, 5], 6), "upsert")
    made.sql("CALL run_clean(table => '{t}', retain_commits => 2)")
    made.write(made.orders([63, 7, 8], 7), "upsert")


def cow_v9_cleaned(made: MadeTable) -> None:
    """Clean a table of version 9."""
    cleaned(made)


def cow_v6_cleaned(made: MadeTable) -> None:
    """Clean a table of version 6."""
    cleaned(made)


def archived(made: MadeTable) -> None:
    """Move instants to the history, in two goes; most of their files are there still."""
    made.write(made.orders(range(20), 1), "insert")
    for ts in range(2, 6):
        made.write(made.orders([ts, ts + 1, 20 + ts], ts), "upsert")
    archive(made)
    for ts in range(6, 10):
        made.write(made.orders([ts, ts + 1, 20 + ts], ts), "upsert")
    made.sql("CALL run_clean(table => '{t}', retain_commits => 5)")
    archive(made)
    made.write(made.orders([1, 2, 40], 10), "upsert")


def archive(made: MadeTable) -> None:
    """Move all instants but the newest ones to the history."""
    before = len(made.completed())
    made.ask("CALL archive_commits(table => '{t}', min_commits => 2, max_commits => 3, retain_commits => 1)")
    assert len(made.completed()) < before, f"{made.name}: no instant was archived"


def cow_v9_archived(made: MadeTable) -> None:
    """Archive instants of a table of version 9."""
    archived(made)


def cow_v8_archived(made: MadeTable) -> None:
    """Archive instants of a table of version 8."""
    archived(made)


def cow_v6_archived(made: MadeTable) -> None:
    """Archive instants of a table of version 6."""
    archived(made)


def cow_v9_upgraded(made: MadeTable) -> None:
    """Upgrade a table of version 6: its instants are written anew, under names with completion times."""
    partitioned(made, hive_style=False)
    made.version = 6
    made.set(write__table__version=6)
    made.write(made.orders(range(20), 1), "insert")
    made.write(made.orders([0, 1, 2, 20], 2), "upsert")
    made.write(made.orders([60, 63], 3), "insert_overwrite")
    made.upgrade(9)
    made.write(made.orders([0, 1, 60, 64], 4), "upsert")
    made.write(made.orders([2, 5], 5), "delete")


SERVICES = (
    cow_v9_clustered,
    cow_v6_clustered,
    cow_v9_late,
    cow_v6_late,
    cow_v9_upgraded,
    cow_v9_conflict,
    cow_v9_rolled_back,
    cow_v8_restored,
    cow_v6_restored,
    cow_v9_cleaned,
    cow_v6_cleaned,
    cow_v9_archived,
    cow_v8_archived,
    cow_v6_archived,
)
