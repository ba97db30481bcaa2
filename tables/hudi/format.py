"""Hudi as a format of tables: how its tables are opened, and its words in errors."""

from __future__ import annotations

from tailbit.tables.hudi.words import WORDS
from tailbit.tables.storage import Storage
from tailbit.tables.table import Format, Table


class _Hudi(Format):
    """The format of Hudi; its modules are loaded only for its tables."""

    words = WORDS

    def open(self, storage: Storage) -> Table:
        from tailbit.tables.hudi.table import HudiTable

        return HudiTable.open(storage)

    def files(self, storage: Storage) -> Storage:
        from tailbit.tables.hudi.log_files.storage import HudiStorage

        return HudiStorage(storage)


FORMAT = _Hudi()
