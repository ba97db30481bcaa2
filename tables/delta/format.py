"""Delta as a format of tables: how its tables are opened, and its words in errors."""

from __future__ import annotations

from tailbit.tables.storage import Storage
from tailbit.tables.table import Format, FormatWords, Table

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


class _Delta(Format):
    """The format of Delta."""

    words = WORDS

    def open(self, storage: Storage) -> Table:
        from tailbit.tables.delta.table import DeltaTable

        return DeltaTable.open(storage)


FORMAT = _Delta()
