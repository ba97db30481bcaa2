"""The choice of the store for a path, by its scheme: only here does a path become a `Storage`.

A new store needs a module next to `local` and a line in `STORES`. The module of object stores is imported
only when one is opened.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from tailbit.tables.storage.door import Storage
from tailbit.tables.storage.local import LocalStorage
from tailbit.tables.storage.options import NO_OPTIONS, SCHEMES, StorageOptions


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
