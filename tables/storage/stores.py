"""Which store a path means, told by its scheme: the one place where a path becomes a `Storage`.

A new store is a module beside `local` and a line here. The module of object stores is imported when one is
opened.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from tailbit.tables.storage.door import Storage
from tailbit.tables.storage.local import LocalStorage
from tailbit.tables.storage.locations import SCHEMES
from tailbit.tables.storage.options import NO_OPTIONS, StorageOptions


def _object_storage(root: str, options: StorageOptions) -> Storage:
    from tailbit.tables.storage.object_store import ObjectStorage

    return ObjectStorage(root, options)


STORES: Mapping[str, Callable[[str, StorageOptions], Storage]] = {
    "file": LocalStorage,
    **dict.fromkeys(SCHEMES, _object_storage),
}
"""The scheme that tells a store, and what opens a root in it with the options given.

A path without a scheme is on local disk, which refuses by name the schemes that are not here.
"""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+)://")


def open_storage(path: str, options: StorageOptions = NO_OPTIONS) -> Storage:
    """The files below a path or URI, in the store that its scheme means. Cost: no access to the store.

    Raises:
        StorageError: a scheme that means no store.
    """
    scheme = _SCHEME.match(path)
    return STORES.get(scheme.group(1).lower() if scheme else "file", LocalStorage)(path, options)
