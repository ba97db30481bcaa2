"""List, read and write whole files by relative name, on local disk or in an object store.

The layers above read, write, list and delete only through `Storage`. Only here does a path become one: a new
kind of store needs a module next to `local` and a line in `STORES`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from tailbit.tables.storage.local import LocalStorage, local_name
from tailbit.tables.storage.requests import at_once, forget, one_look
from tailbit.tables.storage.store import (
    NO_OPTIONS,
    SCHEMES,
    SMALL,
    SPELLED,
    WHOLE,
    Entry,
    Stat,
    Storage,
    StorageOptions,
    Unfinished,
    decoded,
    file_names,
    may_be_secret,
)

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


def _object_storage(root: str, options: StorageOptions) -> Storage:
    from tailbit.tables.storage.object_store import ObjectStorage

    return ObjectStorage(root, options)


STORES: Mapping[str, Callable[[str, StorageOptions], Storage]] = {
    "file": LocalStorage,
    **dict.fromkeys(SCHEMES, _object_storage),
}
"""Openers of a root by scheme; each takes the root and the options.

A path without a scheme is on local disk; the local store refuses, by name, schemes that are not listed here.
"""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+)://")


def open_storage(path: str, options: StorageOptions = NO_OPTIONS) -> Storage:
    """Return the storage of a path or URI, chosen by its scheme. Cost: no access to the store.

    Raises:
        StorageError: no store has this scheme.
    """
    scheme = _SCHEME.match(path)
    return STORES.get(scheme.group(1).lower() if scheme else "file", LocalStorage)(path, options)
