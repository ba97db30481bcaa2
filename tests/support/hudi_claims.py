"""What each packed COPY_ON_WRITE table of Hudi proves: rows of docs/hudi-support.md."""

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
        "columns added; int widened to bigint and double, float to double by its text as Hudi does",
    ),
    "cow_v9_conflict": ("Histories", "data files of a write that never completed"),
    "cow_v9_duplicates": ("Histories", "rows of one key twice"),
    "cow_v9_groups": ("Files", "several row groups"),
    "cow_v9_late": ("Timeline", "commits that complete in another order than they were requested in"),
    "cow_v9_moving": ("Histories", "rows that move between partitions, also to that of NULL"),
    "cow_v9_rolled_back": ("Histories", "rollback of completed commits"),
    "cow_v9_sql": ("Histories", "INSERT, UPDATE, DELETE and MERGE by SQL"),
    "cow_v9_types": (
        "Schema and types",
        "boolean, int, bigint, float, double, string, binary, date, timestamp, decimal; array, map, struct",
    ),
    "cow_v9_upgraded": ("Timeline", "a table upgraded from version 6 to 9"),
}


def claimed(name: str) -> Any:
    """Return a packed table as a parameter that is marked with what it proves."""
    return pytest.param(name, marks=pytest.mark.supports_hudi(*CLAIMS[name], "exact"))
