"""What an object store refuses is told by its cause."""

from __future__ import annotations

import pytest

from tailbit.errors import StorageError, UnusableStorageError
from tailbit.tables.storage import NO_OPTIONS
from tailbit.tables.storage.refusals import refusal


@pytest.mark.parametrize(
    ("status", "code", "kind", "reason", "hint"),
    [
        (403, "RequestTimeTooSkewed", StorageError, "the clock of this machine", "Set the clock"),
        (400, "ExpiredToken", UnusableStorageError, "the credentials have expired", "Give credentials"),
        (403, "InvalidObjectState", UnusableStorageError, "the object is in an archive", "Restore it"),
        (403, "AccessDenied", UnusableStorageError, "the store denies access", "Give credentials"),
    ],
)
def test_what_looks_like_wrong_credentials_is_told_by_its_cause(
    status: int, code: str, kind: type[StorageError], reason: str, hint: str
) -> None:
    answer = f"<Error><Code>{code}</Code></Error>"
    told = refusal("s3://b/x", OSError(f"GET failed: status code: {status}, body: {answer}"), NO_OPTIONS)
    assert type(told) is kind
    assert told.fields["reason"].startswith(reason)
    assert code in str(told)
    assert told.hint.startswith(hint)
