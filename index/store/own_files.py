"""The files that an index holds, by its log: named as its own, and the ones that its ledger numbers.

No checksum covers a Delta log. A bit that changes in it can make an action one that nobody knows, or let it
speak of another file: then a file would come or go without a word.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from tailbit.errors import MalformedLogError
from tailbit.index.kinds.ledger import LEDGER
from tailbit.index.kinds.rows import kind_of
from tailbit.index.kinds.settings import SETTINGS
from tailbit.index.model import Ledger

_OWN = re.compile(r"kind=\w+/(?!\.)[^/\0]+")
_HEADS = (LEDGER.name, SETTINGS.name)


def is_own(path: str) -> bool:
    """Whether a path of an index's log is that of a file in the folder of a kind."""
    return _OWN.fullmatch(path) is not None


def number_of(paths: Iterable[str]) -> int:
    """A number of 64 bits that tells sets of files apart: that of two sets without a common file is the XOR.

    Ledger and settings do not count: their files come with each commit, which says the number.
    """
    number = 0
    for path in paths:
        if kind_of(path) not in _HEADS:
            number ^= int.from_bytes(hashlib.sha256(path.encode()).digest()[:8], "big")
    return number


def held(number: int) -> str:
    """The number as a ledger says it."""
    return f"{number:016x}"


def check_files(paths: Iterable[str], ledger: Ledger | None, number: int) -> None:
    """Pass if files of an index are its own, and all of them those that its ledger was committed with.

    `number`: that of all live files. A ledger of an older release does not say.

    Raises:
        MalformedLogError: a path leads elsewhere, or the files are others.
    """
    strange = next((path for path in paths if not is_own(path)), None)
    if strange is not None:
        raise MalformedLogError(file="_delta_log", reason=f"{strange!r} is no file of an index")
    if ledger is not None and ledger.held and ledger.held != held(number):
        raise MalformedLogError(file="_delta_log", reason="it names other files than were committed")
