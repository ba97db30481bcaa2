"""The words of Iceberg in errors: its names of table, log and cleaner, and its remedies by error."""

from __future__ import annotations

from tailbit.tables.table import FormatWords

LOG = "metadata"
CATALOG = "iceberg://"
"""Begins the URI of a table of a catalog: `iceberg://catalog/namespace.table`."""

_ROLL_BACK = "Restore the file from a backup, or go back to a snapshot before it (CALL rollback_to_snapshot)."

WORDS = FormatWords(
    kind="Iceberg table",
    log=LOG,
    mark=f"{LOG}/version-hint.text",
    sql_name="iceberg",
    cleaner="expire_snapshots",
    remedies={
        "DataFileError": _ROLL_BACK,
        "HiddenRowsError": _ROLL_BACK,
        "MalformedLogError": _ROLL_BACK,
    },
)
