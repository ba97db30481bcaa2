"""List, read and write whole files by relative name, on local disk or in an object store.

The layers above read, write, list and delete only through `Storage`. A new kind of store needs a module next
to `local` and a line in `stores`.
"""

from tailbit.tables.storage.at_once import at_once
from tailbit.tables.storage.door import (
    SMALL,
    SPELLED,
    WHOLE,
    Entry,
    Stat,
    Storage,
    Unfinished,
    decoded,
    file_names,
)
from tailbit.tables.storage.local import LocalStorage, local_name
from tailbit.tables.storage.looks import forget, one_look
from tailbit.tables.storage.options import NO_OPTIONS, StorageOptions, may_be_secret
from tailbit.tables.storage.stores import open_storage

__all__ = [
    "NO_OPTIONS",
    "SMALL",
    "SPELLED",
    "WHOLE",
    "Entry",
    "LocalStorage",
    "Stat",
    "Storage",
    "StorageOptions",
    "Unfinished",
    "at_once",
    "decoded",
    "file_names",
    "forget",
    "local_name",
    "may_be_secret",
    "one_look",
    "open_storage",
]
