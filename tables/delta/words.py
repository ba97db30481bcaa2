"""The words of Delta: the names of its tables, their log and the cleaner of their files, and its remedies."""

from __future__ import annotations

from tailbit.tables.delta.log.listing import LOG
from tailbit.tables.table import FormatWords

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
