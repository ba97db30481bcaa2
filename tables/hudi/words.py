"""The words of Hudi: the names of its tables, their log and the cleaner of their files, and its remedies."""

from __future__ import annotations

from tailbit.tables.table import FormatWords

LOG = ".hoodie"

WORDS = FormatWords(
    kind="Hudi table",
    log=LOG,
    sql_name="hudi",
    cleaner="the cleaner",
    remedies={
        "DataFileError": "Restore the file from a backup, or restore the table to a savepoint before it.",
        "LogBlockError": "Restore the file from a backup, or restore the table to a savepoint before it.",
        "MalformedLogError": "Restore the file from a backup, or restore the table to a savepoint before it.",
    },
)
