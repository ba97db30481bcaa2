"""The words of Delta in errors: its names of table, log and cleaner, and its remedies by error."""

from __future__ import annotations

from tailbit.tables.table import FormatWords

LOG = "_delta_log"

WORDS = FormatWords(
    kind="Delta table",
    log=LOG,
    cleaner="VACUUM",
    remedies={
        "DataFileError": (
            "Restore the file, or take it out of the table (FSCK REPAIR TABLE, or RESTORE to before it)."
        ),
        "LegacyCalendarError": (
            "Rewrite the file with a current Spark (REORG TABLE ... APPLY (PURGE)), or leave the column out."
        ),
    },
)
