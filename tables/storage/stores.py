"""The store that a path means, chosen by its scheme: the one place where a path becomes a `Storage`.

A new store is a module beside `local` and a line here. The module of object stores is imported only when one
is opened.
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
    """Return the files below a path or URI, in the store that its scheme means. Cost: no access to the store.

    Raises:
        StorageError: the scheme means no store.
    """
    scheme = _SCHEME.match(path)
    return STORES.get(scheme.group(1).lower() if scheme else "file", LocalStorage)(path, options)
