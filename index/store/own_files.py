"""Checks of the files that the index's log names: of their paths, and of their hash in the ledger.

No checksum covers a Delta log. A flipped bit can turn an action into an unknown one or change its path; then
a file would be added or removed without any error.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from tailbit.base.errors import MalformedLogError
from tailbit.index.kinds.ledger import LEDGER
from tailbit.index.kinds.rows import kind_of
from tailbit.index.kinds.settings import SETTINGS
from tailbit.index.model import Ledger

_OWN = re.compile(r"kind=\w+/(?!\.)[^/\0]+")
_HEADS = (LEDGER.name, SETTINGS.name)


def is_own(path: str) -> bool:
    """Return whether a path in the index's log is that of a file in the folder of a kind."""
    return _OWN.fullmatch(path) is not None


def number_of(paths: Iterable[str]) -> int:
    """Compute a 64-bit hash of a set of files; the hash of two disjoint sets together is the XOR of theirs.

    Ledger and settings files are left out, because they are replaced by each commit, which records the hash.
    """
    number = 0
    for path in paths:
        if kind_of(path) not in _HEADS:
            number ^= int.from_bytes(hashlib.sha256(path.encode()).digest()[:8], "big")
    return number


def held(number: int) -> str:
    """Return the hash as the ledger writes it."""
    return f"{number:016x}"


def check_files(paths: Iterable[str], ledger: Ledger | None, number: int) -> None:
    """Raise if a path is not that of an index file, or if the live files do not have the ledger's hash.

    `number`: the hash of all live files. A ledger of an older release records no hash.

    Raises:
        MalformedLogError: a path is not in a folder of a kind, or the set of files differs.
    """
    strange = next((path for path in paths if not is_own(path)), None)
    if strange is not None:
        raise MalformedLogError(file="_delta_log", reason=f"{strange!r} is no file of an index")
    if ledger is not None and ledger.held and ledger.held != held(number):
        raise MalformedLogError(file="_delta_log", reason="it names other files than were committed")
