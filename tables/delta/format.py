"""Delta as a format of tables: how its tables are opened, and its words in errors."""

from __future__ import annotations

from tailbit.tables.delta.words import WORDS
from tailbit.tables.storage import Storage
from tailbit.tables.table import Format, Table


class _Delta(Format):
    """The format of Delta."""

    words = WORDS

    def open(self, storage: Storage) -> Table:
        from tailbit.tables.delta.table import DeltaTable

        return DeltaTable.open(storage)


FORMAT = _Delta()
