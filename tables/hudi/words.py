"""The words of Hudi in errors: its names of table, log and cleaner, and its remedies by error."""

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
