"""What an object store refuses, by name: the errors of obstore as ours, without secrets.

obstore puts requests and answers of the store into its messages. Of these only status, code and method are
shown: a URL can carry a signature, an answer what was signed.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tailbit.errors import StorageError, UnusableStorageError
from tailbit.tables.storage.options import StorageOptions

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z]+)</Code>|\"code\":\s*\"([A-Za-z]+)\"")
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")
_UNREPEATED = ("performing POST", "body error")
_MACHINE = ("169.254.169.254", "metadata.google.internal", "169.254.170.2")
"""Where a machine of a cloud asks for its credentials."""
_INCOMPLETE = ("Missing", "credential", "Account must be")


class _Case(NamedTuple):
    """A refusal that is known: what to say and what to do."""

    reason: str
    hint: str
    kind: type[StorageError] = UnusableStorageError


_CREDENTIALS = (
    "Give credentials that may read and write there, in the environment (AWS_ACCESS_KEY_ID, ...) or by"
    " --storage-option KEY=VALUE."
)
_AGAIN = "Try again, or see whether the endpoint is right and can be reached from here."
_OF_THE_CLOCK, _OF_THE_TOKEN, _ARCHIVED = "RequestTimeTooSkewed", "ExpiredToken", "InvalidObjectState"
"""Refusals of S3 that have the status of wrong credentials, or of a wrong request, and another cause."""
DENIED = 403


def status_of(wrong: BaseException) -> int | None:
    """The status with which the store answered; None where it did not."""
    match = _STATUS.search(str(wrong))
    return int(match[1]) if match else None


def is_uncertain(wrong: BaseException) -> bool:
    """Whether the store may have done what was asked: it failed on the way, or its reply was lost."""
    status = status_of(wrong)
    return status is None or status >= 500 or status in (408, 409, 429)


def is_unrepeated(wrong: BaseException) -> bool:
    """Whether a request failed on the way and obstore did not make it again: a POST, or what broke off."""
    on_the_way = status_of(wrong) is None and not isinstance(wrong, FileNotFoundError)
    return on_the_way and any(sign in str(wrong) for sign in _UNREPEATED)


def is_without_bucket(wrong: BaseException) -> bool:
    """Whether the store says that there is no bucket: for most clients that is an object that is missing."""
    return any(sign in str(wrong) for sign in _NO_BUCKET)


def refusal(place: str, wrong: BaseException, options: StorageOptions) -> StorageError:
    """The named error of a refusal; `place` is what people call the object or the table."""
    text, status = options.hidden_in(str(wrong)), status_of(wrong)
    code = _CODE.search(text)
    case = _case(text, status, next(filter(None, code.groups())) if code else "")
    return case.kind(path=place, reason=case.reason, hint=case.hint, status=status or 0)


def no_setup(place: str, wrong: BaseException, options: StorageOptions) -> StorageError:
    """The named error of options that a store cannot be made of."""
    reason = f"its options do not make a store: {_first_line(options.hidden_in(str(wrong)))}"
    return UnusableStorageError(path=place, reason=reason, hint=_CREDENTIALS)


def _case(text: str, status: int | None, code: str) -> _Case:
    details = " ".join(str(part) for part in (status, code) if part)
    if code == _OF_THE_CLOCK:
        hint = "Set the clock of this machine; a store refuses what was signed at another time than its own."
        return _Case(f"the clock of this machine is not that of the store ({details})", hint, StorageError)
    if code == _OF_THE_TOKEN:
        return _Case(f"the credentials have expired ({details})", _CREDENTIALS)
    if code == _ARCHIVED:
        return _Case(f"the object is in an archive ({details})", "Restore it from the archive of the store.")
    if any(sign in text for sign in _NO_BUCKET):
        return _Case("there is no such bucket", "Create the bucket, or correct its name.")
    if status in (301, 307, 400) and (status != 400 or "region" in text.lower()):
        return _Case(f"the bucket is in another region ({details})", "Give its region as AWS_REGION.")
    if any(sign in text for sign in _MACHINE):
        return _Case("no credentials are given, and this machine has none of its own", _CREDENTIALS)
    if status in (401, DENIED):
        return _Case(f"the store denies access with these credentials ({details})", _CREDENTIALS)
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
    """The first line of a message, without what follows the path of a URL."""
    return re.sub(r"(https?://[^\s?]+)\?\S*", r"\1", text.partition("\n")[0])
