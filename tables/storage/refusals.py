"""Conversion of obstore's errors to tailbit's named errors, without secrets.

obstore puts requests and replies of the store into its messages. Only status and code of a reply are shown:
a URL can carry a signature, and a reply the text that was signed.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tailbit.base.errors import StorageError, TailbitError, UnusableStorageError
from tailbit.tables.storage.store import StorageOptions

_STATUS = r"status code: (\d{3})"
_CODE = r"<Code>([A-Za-z]+)</Code>|\"code\":\s*\"([A-Za-z]+)\""
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")
_UNREPEATED = ("performing POST", "body error")
_MACHINE = ("169.254.169.254", "metadata.google.internal", "169.254.170.2")
"""The hosts that a cloud machine asks for its credentials."""
_INCOMPLETE = ("Missing", "credential", "Account must be")


class _Case(NamedTuple):
    """A known refusal of a store: the error class to raise, its reason, its hint, and `may_pass`."""

    reason: str
    hint: str
    kind: type[StorageError] = UnusableStorageError
    may_pass: bool = False


_CREDENTIALS = (
    "Give credentials that may read and write there, in the environment (AWS_ACCESS_KEY_ID, ...) or by"
    " --storage-option KEY=VALUE."
)
_AGAIN = "Try again, or see whether the endpoint is right and can be reached from here."
_OF_THE_CLOCK, _OF_THE_TOKEN, _ARCHIVED = "RequestTimeTooSkewed", "ExpiredToken", "InvalidObjectState"
"""Refusals of S3 with the status of wrong credentials or of a wrong request, but another cause."""
DENIED = 403


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status in an error of obstore; None if there was no reply."""
    match = re.search(_STATUS, str(error))
    return int(match[1]) if match else None


def is_uncertain(error: BaseException) -> bool:
    """Return whether the store may have applied the request: it failed on the way, or its reply was lost."""
    status = status_of(error)
    return status is None or status >= 500 or status in (408, 409, 429)


def is_unrepeated(error: BaseException) -> bool:
    """Return whether a request failed on the way and obstore did not retry it: a POST, or a broken reply."""
    on_the_way = status_of(error) is None and not isinstance(error, FileNotFoundError)
    return on_the_way and any(sign in str(error) for sign in _UNREPEATED)


def is_without_bucket(error: BaseException) -> bool:
    """Return whether the store says that the bucket is missing; obstore reports it as a missing object."""
    return any(sign in str(error) for sign in _NO_BUCKET)


def refusal(place: str, error: BaseException, options: StorageOptions) -> StorageError:
    """Return the StorageError, with reason and hint, for an error that obstore raised.

    `place`: the object or table as users name it. `options`: their values are hidden in the message. For an
    unknown error, the message shows only the status and code of the reply.
    """
    text, status = options.hidden_in(str(error)), status_of(error)
    code = re.search(_CODE, text)
    case = _case(text, status, next(filter(None, code.groups())) if code else "")
    fields = {"status": status or 0, "may_pass": case.may_pass}
    return case.kind(path=place, reason=case.reason, hint=case.hint, **fields)


def may_pass(error: TailbitError) -> bool:
    """Return whether waiting can help: `error` is transient, or a refusal that no setting of a run causes.

    Such a refusal ends when somebody grants a right, renews a token, creates a bucket or restores an archive.
    """
    return error.retryable or bool(error.fields.get("may_pass"))


def no_setup(place: str, error: BaseException, options: StorageOptions) -> StorageError:
    """Return the StorageError for options from which no store can be configured; `error`: obstore's."""
    reason = f"its options do not make a store: {_first_line(options.hidden_in(str(error)))}"
    return UnusableStorageError(path=place, reason=reason, hint=_CREDENTIALS)


def _case(text: str, status: int | None, code: str) -> _Case:
    details = " ".join(str(word) for word in (status, code) if word)
    if code == _OF_THE_CLOCK:
        hint = "Set the clock of this machine; a store refuses what was signed at another time than its own."
        return _Case(f"the clock of this machine is not that of the store ({details})", hint, StorageError)
    if code == _OF_THE_TOKEN:
        return _Case(f"the credentials have expired ({details})", _CREDENTIALS, may_pass=True)
    if code == _ARCHIVED:
        hint = "Restore it from the archive of the store."
        return _Case(f"the object is in an archive ({details})", hint, may_pass=True)
    if any(sign in text for sign in _NO_BUCKET):
        return _Case("there is no such bucket", "Create the bucket, or correct its name.", may_pass=True)
    if status in (301, 307, 400) and (status != 400 or "region" in text.lower()):
        return _Case(f"the bucket is in another region ({details})", "Give its region as AWS_REGION.")
    if any(sign in text for sign in _MACHINE):
        reason = "no credentials are given, and this machine has none of its own"
        return _Case(reason, _CREDENTIALS, may_pass=True)
    if status in (401, DENIED):
        reason = f"the store denies access with these credentials ({details})"
        return _Case(reason, _CREDENTIALS, may_pass=True)
    if status is None and any(sign in text for sign in _INCOMPLETE):
        return _Case(_first_line(text), _CREDENTIALS)
    if status in (429, 503):
        return _Case(
            f"the store is busy and asks for fewer requests ({details}), also when asked again",
            _AGAIN,
            StorageError,
        )
    if status is None:
        return _Case("the store does not answer, also when asked again", _AGAIN, StorageError)
    return _Case(f"the store refuses ({details})", _AGAIN, StorageError)


def _first_line(text: str) -> str:
    """Return the first line of a message, with the queries of URLs removed."""
    return re.sub(r"(https?://[^\s?]+)\?\S*", r"\1", text.partition("\n")[0])


_NEEDS_RIGHTS = (
    "An indexer writes into the index: give credentials that may read, write and delete there, or another"
    " place by --index, then start again. Nothing is lost, and questions go on meanwhile."
)


def nothing_written(root: str, denied: StorageError) -> StorageError:
    """Return the error for an index location where the store denies writes."""
    reason = f"nothing can be written there: {denied.fields.get('reason')}"
    return type(denied)(**denied.fields | {"path": root, "reason": reason, "hint": _NEEDS_RIGHTS})
