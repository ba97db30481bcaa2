"""What each packed table of Hudi proves: rows of docs/hudi-support.md."""

from __future__ import annotations

from typing import Any

import pytest

CLAIMS = {
    "cow_v6_archived": ("Timeline", "archived instants of table version 6, also as versions to ask for"),
    "cow_v6_cleaned": ("Histories", "cleaned tables of version 6: what is still there is answered"),
    "cow_v6_clustered": ("Histories", "clustering, also one that completes after later commits"),
    "cow_v6_late": ("Timeline", "commits that complete in another order than they were requested in"),
    "cow_v6_parts": ("Tables", "table version 6"),
    "cow_v6_restored": ("Histories", "restore to a savepoint"),
    "cow_v6_types": ("Schema and types", "lists of two levels, as older releases write them"),
    "cow_v6_units": (
        "Schema and types",
        "times declared in milliseconds in files that say microseconds, as Hudi 1.2 reads them",
    ),
    "cow_v8_archived": ("Timeline", "archived instants of table version 8, also as versions to ask for"),
    "cow_v8_folders": ("Tables", "folders nested by two columns with odd values"),
    "cow_v8_hive": ("Tables", "table version 8; folders like `part=p0`"),
    "cow_v8_restored": ("Histories", "restore to a savepoint"),
    "cow_v9": ("Tables", "table version 9, with Hudi's own metadata table beside"),
    "cow_v9_archived": ("Timeline", "archived instants of table version 9, also as versions to ask for"),
    "cow_v9_bare": ("Tables", "tables that do not fill Hudi's columns (`hoodie.populate.meta.fields=false`)"),
    "cow_v9_bucket": ("Tables", "bucket index"),
    "cow_v9_cdc": ("Tables", "changes logged beside the data (`hoodie.table.cdc.enabled=true`)"),
    "cow_v9_cleaned": ("Histories", "cleaned tables of version 9: what is still there is answered"),
    "cow_v9_clustered": ("Histories", "clustering, also one that completes after later commits"),
    "cow_v9_columns": (
        "Schema and types",
        "columns added",
    ),
    "cow_v9_conflict": ("Histories", "data files of a write that never completed"),
    "cow_v9_duplicates": ("Histories", "rows of one key twice"),
    "cow_v9_groups": ("Files", "several row groups"),
    "cow_v9_late": ("Timeline", "commits that complete in another order than they were requested in"),
    "cow_v9_moving": ("Histories", "rows that move between partitions, also to that of NULL"),
    "cow_v9_null_folders": ("Tables", "empty texts in partition columns, which Spark reads as NULL"),
    "cow_v9_promoted": (
        "Schema and types",
        "columns promoted: int to bigint, float, double and string; bigint to float, double and string; "
        "float to double (by its text) and string; double to string; binary to string",
    ),
    "cow_v9_rolled_back": ("Histories", "rollback of completed commits"),
    "cow_v9_sql": ("Histories", "INSERT, UPDATE, DELETE and MERGE by SQL"),
    "cow_v9_types": (
        "Schema and types",
        "boolean, int, bigint, float, double, string, binary, date, timestamp, decimal; array, map, struct",
    ),
    "cow_v9_upgraded": ("Timeline", "a table upgraded from version 6 to 9"),
    "mor_v6": ("MERGE_ON_READ", "table version 6: blocks count by the instants in their headers"),
    "mor_v6_conflict": ("MERGE_ON_READ", "log blocks of a write that lost, taken back by a rollback block"),
    "mor_v6_duplicates": ("MERGE_ON_READ", "updates and deletions of keys that a base file has twice"),
    "mor_v6_event_time": ("MERGE_ON_READ", "merging by payload class (`DefaultHoodieRecordPayload`)"),
    "mor_v6_late_compaction": (
        "MERGE_ON_READ",
        "compaction that completes after later logs, in table version 6",
    ),
    "mor_v6_overwrite": ("MERGE_ON_READ", "merging by payload class (`OverwriteWithLatestAvroPayload`)"),
    "mor_v6_restored": ("MERGE_ON_READ", "restore to a savepoint, also in table version 6"),
    "mor_v8": ("MERGE_ON_READ", "table version 8; merging by commit time (`COMMIT_TIME_ORDERING`)"),
    "mor_v6_payload_event": ("MERGE_ON_READ", "merging by payload class (`EventTimeAvroPayload`)"),
    "mor_v8_event_time": ("MERGE_ON_READ", "table version 8, merging by event time (`EVENT_TIME_ORDERING`)"),
    "mor_v9": ("MERGE_ON_READ", "table version 9; log blocks of Avro; compaction"),
    "mor_v9_bucket": ("MERGE_ON_READ", "bucket index: inserts in logs, no positions in headers"),
    "mor_v9_cdc": ("MERGE_ON_READ", "changes logged beside the logs"),
    "mor_v9_cleaned": ("MERGE_ON_READ", "cleaned and archived tables: what is still there is answered"),
    "mor_v9_columns": ("MERGE_ON_READ", "columns added and widened in logs over older base files"),
    "mor_v9_duplicates": ("MERGE_ON_READ", "updates and deletions of keys that a base file has twice"),
    "mor_v9_nonblocking": (
        "MERGE_ON_READ",
        "two writers in one file group at once (`NON_BLOCKING_CONCURRENCY_CONTROL`)",
    ),
    "mor_v9_nonblocking_commit_time": (
        "MERGE_ON_READ",
        "two writers in one file group at once, merged by commit time in the order of requests",
    ),
    "mor_v9_ordering_int": ("MERGE_ON_READ", "ordering columns of int and bigint, also 0 and less"),
    "mor_v9_ordering_double": (
        "MERGE_ON_READ",
        "ordering columns of float and double, as Java compares them",
    ),
    "mor_v9_ordering_boolean": ("MERGE_ON_READ", "an ordering column of boolean"),
    "mor_v9_ordering_null": ("MERGE_ON_READ", "NULL in an ordering column, where it meets no other value"),
    "mor_v9_ordering_decimal": ("MERGE_ON_READ", "an ordering column of decimal"),
    "mor_v9_ordering_text": ("MERGE_ON_READ", "an ordering column of string, by code points"),
    "mor_v9_log_compaction": ("MERGE_ON_READ", "log compaction, also of deletions"),
    "mor_v9_ordering_moment": ("MERGE_ON_READ", "an ordering column of timestamp"),
    "mor_v9_partial": ("MERGE_ON_READ", "partial updates of rows that were partially updated before"),
    "mor_v9_event_time": (
        "MERGE_ON_READ",
        "merging by event time: updates and deletions older than, equal to and newer than what is there",
    ),
    "mor_v9_late": ("MERGE_ON_READ", "logs that complete after later ones"),
    "mor_v9_late_compaction": (
        "MERGE_ON_READ",
        "compaction that completes after later logs, whose positions are those of the older base file",
    ),
    "mor_v9_log_only": ("MERGE_ON_READ", "file groups of logs alone (consistent hashing)"),
    "mor_v9_marked_deleted": ("MERGE_ON_READ", "deletions by the column `_hoodie_is_deleted`"),
    "mor_v9_parquet_logs": ("MERGE_ON_READ", "log blocks of Parquet"),
    "mor_v9_promoted": ("MERGE_ON_READ", "columns promoted in logs over older base files"),
    "mor_v9_replaced": ("MERGE_ON_READ", "clustering, overwrite and dropped partitions over logs"),
    "mor_v9_restored": ("MERGE_ON_READ", "restore to a savepoint, also in table version 6"),
    "mor_v9_rolled_back": ("MERGE_ON_READ", "rollback of completed deltacommits"),
    "mor_v9_sql": ("MERGE_ON_READ", "partial updates by SQL MERGE (log blocks of some columns alone)"),
    "mor_v9_ordering_nested": ("MERGE_ON_READ", "an ordering column within a struct"),
    "mor_v9_two_orderings": ("MERGE_ON_READ", "several ordering columns"),
    "mor_v9_two_orderings_deleted": ("MERGE_ON_READ", "deletions by several ordering columns"),
    "mor_v9_types": ("MERGE_ON_READ", "columns of every type in log blocks, nested ones too"),
}


def claimed(name: str) -> Any:
    """Return a packed table as a parameter that is marked with what it proves."""
    return pytest.param(name, marks=pytest.mark.supports_hudi(*CLAIMS[name], "exact"))
