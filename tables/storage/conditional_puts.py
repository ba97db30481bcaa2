"""Conditional puts: of several writers of one object exactly one wins, even if the reply to a put is lost.

A commit is a conditional put. If its reply is lost, or the store reports an error after it has applied the
put, the object is read back: if it holds the bytes of this put, the put succeeded. So a writer must make the
bytes of such an object unlike those of any other writer.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from tailbit.base.errors import NoConditionalPutError, StorageError, UnusableStorageError
from tailbit.tables.storage.locations import RETRY_S
from tailbit.tables.storage.refusals import is_uncertain, is_unrepeated
from tailbit.tables.storage.store import Storage

R = TypeVar("R")

_NOT_IMPLEMENTED = 501

_NEEDS_RIGHTS = (
    "An indexer writes into the index: give credentials that may read, write and delete there, or another"
    " place by --index, then start again. Nothing is lost, and questions go on meanwhile."
)

_PUTS = 5
"""Attempts at a conditional put whose outcome is unknown: obstore does not retry non-idempotent requests."""


def repeated(request: Callable[[], R]) -> R:
    """Make an idempotent request; retry it where obstore does not, as after a lost reply to a delete."""
    from obstore.exceptions import BaseError

    began = time.monotonic()
    for attempt in range(_PUTS):
        try:
            return request()
        except BaseError as wrong:
            if not is_unrepeated(wrong) or time.monotonic() - began > RETRY_S:
                raise
        _pause(attempt)
    return request()


def put_once(
    rel: str,
    data: bytes,
    put: Callable[[], object],
    read: Callable[[], bytes],
    refusal: Callable[[BaseException], StorageError],
) -> None:
    """Put an object that must not exist; an object with the same bytes counts as put by this call.

    `put` makes the request, `read` returns the bytes of the object, `refusal` converts an error of obstore.

    Raises:
        FileExistsError: another writer was first; its object is untouched.
        StorageError: the store refuses, or no attempt has a clear outcome.
    """
    from obstore.exceptions import AlreadyExistsError, BaseError

    for attempt in range(_PUTS):
        try:
            put()
            return
        except (BaseError, OSError, ValueError) as wrong:
            if not isinstance(wrong, AlreadyExistsError) and not is_uncertain(wrong):
                raise refusal(wrong) from None
            if _holds(rel, data, read):
                return
            last = wrong
        _pause(attempt)
    raise refusal(last) from None


def _pause(attempt: int) -> None:
    time.sleep(random.uniform(0.5, 1.0) * 0.1 * 2**attempt)


def _holds(rel: str, data: bytes, read: Callable[[], bytes]) -> bool:
    """Return whether an object holds exactly `data`; False if the object does not exist."""
    try:
        content = read()
    except FileNotFoundError:
        return False
    if content != data:
        raise FileExistsError(rel) from None
    return True


def check_conditional_puts(storage: Storage) -> None:
    """Check that a conditional put of an existing object is refused, with a probe object.

    Raises:
        NoConditionalPutError: the put is not refused: two concurrent writers could both believe that they
            were first.
        StorageError: the store refuses to write there.
    """
    rel = f"_probe-{uuid.uuid4().hex}"
    try:
        storage.put_if_absent(rel, b"first")
        storage.put_if_absent(rel, b"second")
    except FileExistsError:
        storage.delete(rel)
        return
    except StorageError as wrong:
        with suppress(StorageError):
            storage.delete(rel)
        if isinstance(wrong, UnusableStorageError):
            raise nothing_written(storage.root, wrong) from wrong
        if wrong.fields.get("status") != _NOT_IMPLEMENTED:
            raise
    else:
        storage.delete(rel)
    raise NoConditionalPutError(path=storage.root)


def nothing_written(root: str, denied: StorageError) -> StorageError:
    """Return the error for an index location where the store denies writes."""
    reason = f"nothing can be written there: {denied.fields.get('reason')}"
    return type(denied)(**denied.fields | {"path": root, "reason": reason, "hint": _NEEDS_RIGHTS})
