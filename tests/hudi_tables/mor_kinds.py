"""MERGE_ON_READ tables: log files beside base files, and who wins where both know a key."""

from __future__ import annotations

from cow_contents import write_types
from cow_kinds import delete_partition, partitioned
from cow_services import archive, restored
from made_table import MadeTable
from writers import failed, held, two_writers

DELETABLE = "id bigint, ts bigint, city string, qty int, _hoodie_is_deleted boolean"


def compact(made: MadeTable, step: str = "scheduleAndExecute") -> None:
    """Compact all file groups that have log files; a plan alone changes nothing."""
    statement = f"CALL run_compaction(table => '{{t}}', op => '{step}')"
    made.set(compact__inline__max__delta__commits=1)
    if step == "schedule":
        made.ask(statement)
    else:
        made.sql(statement)
    made.set(compact__inline__max__delta__commits=100)


def life(made: MadeTable) -> None:
    """Write base files and logs over them, compact, and write logs again."""
    made.write(made.orders(range(24), 5), "insert")
    made.write(made.orders([*range(6), 30], 6), "upsert")
    made.write(made.orders([2, 7, 8], 7), "delete")
    made.write(made.orders([2, 3, 9], 8), "upsert")
    compact(made)
    made.write(made.orders([3, 9, 10, 31], 9), "upsert")
    made.write(made.orders([1, 31], 10), "delete")


def mor_v9(made: MadeTable) -> None:
    """Merge by event time, with positions of base rows in the logs."""
    partitioned(made, hive_style=False)
    life(made)


def mor_v8(made: MadeTable) -> None:
    """Merge by commit time: the later write wins whatever its ordering value says."""
    made.set(write__record__merge__mode="COMMIT_TIME_ORDERING")
    life(made)
    made.write(made.orders([4, 5], 1), "upsert")


def mor_v6(made: MadeTable) -> None:
    """Name logs by their base file's instant, several blocks' instants in headers alone."""
    partitioned(made, hive_style=True)
    life(made)


def event_time(made: MadeTable) -> None:
    """Bring updates and deletes that are older than, equal to and newer than what is there."""
    made.write(made.orders(range(12), 5), "insert")
    made.write(made.orders([0, 1], 3), "upsert")
    made.write(made.orders([2, 3], 5), "upsert")
    made.write(made.orders([4], 3), "delete")
    made.write(made.orders([5], 5), "delete")
    made.write(made.orders([6], 9), "delete")
    made.write(made.orders([4, 5, 6], 7), "upsert")
    made.write(made.orders([6], 9), "upsert")
    made.write(made.orders([0, 2], 8), "upsert")
    made.write(made.orders([0, 2], 6), "upsert")


def mor_v9_event_time(made: MadeTable) -> None:
    """Merge by event time, with updates and deletes that are older, equal and newer."""
    event_time(made)


def mor_v9_marked_deleted(made: MadeTable) -> None:
    """Delete by the column `_hoodie_is_deleted`, and bring keys back."""
    made.write(made.frame([(k, 5, "Oslo", k % 3, False) for k in range(10)], DELETABLE), "insert")
    made.write(made.frame([(k, 6, None, 1, k < 3) for k in range(5)], DELETABLE), "upsert")
    made.write(made.frame([(0, 7, "Lima", None, False), (4, 4, "Lima", 0, True)], DELETABLE), "upsert")
    made.write(made.frame([(0, 8, "Pune", 2, True), (1, 8, "Pune", 2, None)], DELETABLE), "upsert")


def late_compaction(made: MadeTable) -> None:
    """Complete a compaction after logs that were written while it was pending."""
    partitioned(made, hive_style=False)
    made.write(made.orders(range(24), 5), "insert")
    made.write(made.orders([*range(6), 30], 6), "upsert")
    compact(made, "schedule")
    made.write(made.orders([0, 7, 31], 7), "upsert")
    made.write(made.orders([1, 8], 8), "delete")
    compact(made, "execute")
    made.write(made.orders([0, 9, 30], 9), "upsert")


def mor_v9_late_compaction(made: MadeTable) -> None:
    """Complete a compaction of a table of version 9 after logs that were written while it was pending."""
    late_compaction(made)


def mor_v6_late_compaction(made: MadeTable) -> None:
    """Complete a compaction of a table of version 6 after logs that were written while it was pending."""
    late_compaction(made)


def mor_v9_late(made: MadeTable) -> None:
    """Complete a log after one that was requested later."""
    partitioned(made, hive_style=False)
    two_writers(made)
    made.write(made.orders(range(24), 5), "insert")
    with held(made, made.orders([0, 3, 6, 30], 6)):
        made.write(made.orders([1, 4, 7, 31], 7), "upsert")
    made.write(made.orders([0, 1, 2], 8), "upsert")


def mor_v9_bucket(made: MadeTable) -> None:
    """Find keys by their hash, so that logs carry no positions of base rows."""
    partitioned(made, hive_style=False)
    made.set(index__type="BUCKET", bucket__index__num__buckets="2", bucket__index__hash__field="id")
    made.write(made.orders(range(12), 5), "upsert")
    made.write(made.orders([*range(4), *range(20, 26)], 6), "upsert")
    made.write(made.orders([0, 20], 7), "delete")
    compact(made)
    made.write(made.orders([1, 21, 40], 8), "upsert")


def mor_v9_log_only(made: MadeTable) -> None:
    """Hold file groups of logs alone, by consistent hashing."""
    made.set(
        index__type="BUCKET",
        index__bucket__engine="CONSISTENT_HASHING",
        bucket__index__num__buckets="2",
        bucket__index__min__num__buckets="2",
        bucket__index__hash__field="id",
    )
    made.write(made.orders(range(12), 5), "upsert")
    made.write(made.orders([*range(4), 20], 6), "upsert")
    made.write(made.orders([0, 20], 7), "delete")


def mor_v9_sql(made: MadeTable) -> None:
    """Write by SQL: UPDATE, DELETE, and a MERGE whose log block holds some columns alone."""
    made.write(made.orders(range(12), 5), "insert")
    made.sql("UPDATE {t} SET city = 'Rome', ts = 6 WHERE id % 4 = 1")
    made.sql("DELETE FROM {t} WHERE id IN (2, 3)")
    made.sql(
        "MERGE INTO {t} t USING (SELECT 5L id, 9L ts, 'Oslo' city UNION ALL SELECT 6L, 9L, NULL) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.city = s.city, t.ts = s.ts"
    )


def mor_v9_parquet_logs(made: MadeTable) -> None:
    """Hold log blocks of Parquet."""
    made.set(logfile__data__block__format="parquet", parquet__small__file__limit=0)
    made.write(made.orders(range(12), 5), "insert")
    made.write(made.orders([*range(4), 20], 6), "upsert")
    made.write(made.orders([0, 20], 7), "delete")
    made.write(made.orders([0, 1], 8), "upsert")


def mor_v9_columns(made: MadeTable) -> None:
    """Add a column and widen others in logs over older base files."""
    older = "id bigint, ts bigint, qty int, rate float, city string"
    newer = "id bigint, ts bigint, qty bigint, rate double, city string"
    added = f"{newer}, note string"
    made.set(parquet__small__file__limit=0)
    made.write(made.frame([(k, 1, k % 4, k / 10, "Oslo") for k in range(10)], older), "insert")
    made.write(made.frame([(k, 2, k + 1, k / 10, "Pune") for k in range(3)], older), "upsert")
    made.write(made.frame([(k, 3, 2**40 + k, k / 3, None) for k in (1, 4)], newer), "upsert")
    made.write(made.frame([(k, 4, 2**40, None, "Lima", f"n{k}") for k in (0, 4, 12)], added), "upsert")


def mor_v9_rolled_back(made: MadeTable) -> None:
    """Roll back a completed deltacommit: its logs go."""
    partitioned(made, hive_style=False)
    made.write(made.orders(range(12), 5), "insert")
    made.write(made.orders([0, 1, 2], 6), "upsert")
    made.write(made.orders([0, 3, 4], 7), "upsert")
    newest = made.instants[-1].requested
    made.sql(f"CALL rollback_to_instant(table => '{{t}}', instant_time => '{newest}')")
    made.write(made.orders([0, 5], 8), "upsert")


def mor_v6_restored(made: MadeTable) -> None:
    """Restore a table of version 6 to a savepoint: what logs say of later instants no longer counts."""
    restored(made)


def mor_v9_restored(made: MadeTable) -> None:
    """Restore a table of version 9 to a savepoint."""
    restored(made)


def mor_v6_conflict(made: MadeTable) -> None:
    """Leave the log of a write that lost against another, and take it back when the cleaner comes."""
    partitioned(made, hive_style=False)
    two_writers(made)
    made.write(made.orders(range(12), 5), "insert")
    with failed(made, made.orders([0, 3], 6)):
        made.write(made.orders([0, 6], 7), "upsert")
    made.write(made.orders([1, 3], 8), "upsert")
    compact(made)
    made.sql("CALL run_clean(table => '{t}', retain_commits => 1)")
    made.write(made.orders([3], 9), "upsert")


def mor_v6_event_time(made: MadeTable) -> None:
    """Merge by payload class, as tables of version 6 do, with deletes that are older, equal and newer."""
    event_time(made)


def mor_v9_types(made: MadeTable) -> None:
    """Hold columns of every type in log blocks of Avro, nested ones too."""
    made.set(parquet__small__file__limit=0)
    with made.lists_with_nulls():
        write_types(made, None)


def mor_v9_two_orderings(made: MadeTable) -> None:
    """Order by two columns: where the first is equal, the second decides."""
    made.set(datasource__write__precombine__field="ts,qty", parquet__small__file__limit=0)
    schema = "id bigint, ts bigint, qty int, city string"
    made.write(made.frame([(k, 5, 5, "Oslo") for k in range(8)], schema), "insert")
    made.write(made.frame([(0, 5, 4, "Lima"), (1, 5, 6, "Lima"), (2, 4, 9, "Lima")], schema), "upsert")
    made.write(made.frame([(3, 6, 0, "Pune"), (0, 5, 5, "Pune")], schema), "upsert")


def mor_v9_replaced(made: MadeTable) -> None:
    """Cluster, overwrite and drop file groups that have logs."""
    partitioned(made, hive_style=False)
    made.set(parquet__small__file__limit=0, clustering__plan__strategy__sort__columns="city,id")
    made.write(made.orders(range(18), 5), "insert")
    made.write(made.orders(range(20, 26), 5), "insert")
    made.write(made.orders([0, 1, 2, 20], 6), "upsert")
    compact(made)
    made.sql("CALL run_clustering(table => '{t}', op => 'scheduleAndExecute')")
    made.write(made.orders([0, 3, 4, 21], 7), "upsert")
    made.write(made.orders([60, 63], 8), "insert_overwrite")
    made.write(made.orders([60, 1], 9), "upsert")
    delete_partition(made, "p1")
    made.write(made.orders([2, 64], 10), "upsert")


def mor_v9_cdc(made: MadeTable) -> None:
    """Log changes beside logs, which no reader of rows looks at."""
    made.set(table__cdc__enabled="true", table__cdc__supplemental__logging__mode="DATA_BEFORE_AFTER")
    made.write(made.orders(range(10), 5), "insert")
    made.write(made.orders([0, 1, 11], 6), "upsert")
    made.write(made.orders([0, 1, 2], 7), "upsert")
    compact(made)
    made.write(made.orders([3], 8), "delete")


def mor_v9_cleaned(made: MadeTable) -> None:
    """Take away base files and logs that a compaction superseded, and move instants to the history."""
    partitioned(made, hive_style=False)
    life(made)
    made.sql("CALL run_clean(table => '{t}', retain_commits => 1)")
    made.write(made.orders([4, 5, 12], 11), "upsert")
    compact(made)
    made.write(made.orders([4, 6], 12), "upsert")
    made.sql("CALL run_clean(table => '{t}', retain_commits => 1)")
    archive(made)
    made.write(made.orders([7], 13), "upsert")


MOR = (
    mor_v9,
    mor_v8,
    mor_v6,
    mor_v9_event_time,
    mor_v9_marked_deleted,
    mor_v9_late_compaction,
    mor_v9_late,
    mor_v9_bucket,
    mor_v9_log_only,
    mor_v9_sql,
    mor_v9_parquet_logs,
    mor_v9_columns,
    mor_v9_rolled_back,
    mor_v6_late_compaction,
    mor_v6_restored,
    mor_v9_restored,
    mor_v6_conflict,
    mor_v6_event_time,
    mor_v9_types,
    mor_v9_two_orderings,
    mor_v9_replaced,
    mor_v9_cdc,
    mor_v9_cleaned,
)
