"""The object store and key that a URL names, and the configuration of obstore, which reaches the store.

Access to an object store that the catalog of a table lends: settings, and credentials that expire.

Properties have the names of pyiceberg and of Iceberg's REST protocol (`s3.access-key-id`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from functools import lru_cache, partial
from typing import Any, NamedTuple

from tailbit.base.errors import RequirementError, UnsafePathError, UnusableStorageError, UsageError
from tailbit.tables.storage.refusals import no_setup
from tailbit.tables.storage.store import (
    CATALOG_PROPERTY,
    LENDERS,
    LENT,
    METADATA_FILE,
    OPTION,
    SCHEMES,
    TABLE_FORMAT,
    StorageOptions,
    may_be_secret,
    refuse_outside,
    refuse_parts,
)

CLOUDS: Mapping[str, tuple[str, ...]] = {
    "s3": ("AWS_",),
    "gs": ("GOOGLE_", "GCP_", "GCS_"),
    "az": ("AZURE_",),
}
"""The kinds of object stores, each with the prefixes of its own options and environment variables."""

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*)://([^/]*)(?:/(.*))?", re.DOTALL)

RETRIES, RETRY_S = 8, 30
"""Most retries of a request, and most seconds for all of them; pauses are 0.1 s to 5 s, at random."""

CLIENT = {"connect_timeout": "5s", "timeout": "30s"}
"""Timeouts of a connection, and of a request with its answer."""

_CLIENT_NAMES = {*CLIENT, "allow_http", "allow_invalid_certificates", "proxy_url", "root_certificate"}
_SPANS = {"ms": 0.001, "s": 1.0, "m": 60.0}


class Location(NamedTuple):
    """A folder in an object store: kind, URL scheme, bucket (or container), and the key prefix below it."""

    kind: str
    scheme: str
    bucket: str
    key: str


def location_of(url: str) -> Location | None:
    """Parse the URL of an object store; return None if it is no such URL."""
    match = _URL.fullmatch(url)
    kind = SCHEMES.get(match[1].lower()) if match else None
    if match is None or kind is None:
        return None
    return Location(kind, match[1].lower(), match[2], (match[3] or "").strip("/"))


def name_of(path: str, own: Location, root: str, options: StorageOptions) -> str:
    """Return the name of a data file within the store: relative to the root, or `/` and its full key.

    Raises:
        UnsafePathError: the path leaves the root without permission, has an empty part, `.` or `..`, or a
            NUL.
        UnusableStorageError: the path is absolute and in another store.
    """
    there = location_of(path)
    if there is None and ("://" in path or path.startswith("/")):
        hint = "Open a table whose files are in one store."
        raise UnusableStorageError(path=path, reason=f"it is in another store than {root}", hint=hint)
    if there is None:
        return one_key(path, path, root)
    if (there.kind, there.bucket) != (own.kind, own.bucket):
        hint = "Open a table whose files are in one bucket."
        raise UnusableStorageError(path=path, reason=f"it is in another bucket than {root}", hint=hint)
    key, below = one_key(there.key, path, root), f"{own.key}/" if own.key else ""
    if key.startswith(below):
        return key[len(below) :]
    refuse_outside(path, root, options)
    return f"/{key}"


def one_key(key: str, path: str, root: str) -> str:
    """Check that a key names exactly one object, and return the key.

    Raises:
        UnsafePathError: the key has an empty part, `.`, `..` or a NUL.
    """
    refuse_parts(path, key, root)
    if any(step in ("", ".") for step in key.split("/")):
        raise UnsafePathError(file=path, path=root, reason="it names no object")
    return key


def connect(location: Location, options: StorageOptions) -> Any:
    """Return obstore's store of a location; callers with the same bucket and credentials share one."""
    prefixes = CLOUDS[location.kind]
    environment = tuple(sorted(item for item in os.environ.items() if item[0].startswith(prefixes)))
    return _connected(f"{location.scheme}://{location.bucket}", options, environment, os.getpid())


@lru_cache(maxsize=32)
def _connected(url: str, options: StorageOptions, environment: object, process: int) -> Any:
    """Return a store with its connections, cached; a forked process has its own, by the key `process`."""
    try:
        from obstore.exceptions import BaseError, UnknownConfigurationKeyError
        from obstore.store import from_url
    except ImportError:
        raise RequirementError(
            reason=f"obstore is not installed, which reaches {url}",
            remedy="Install it: pip install obstore (it has wheels for Python 3.11 and newer).",
        ) from None
    config, client, retry = _split(options, url)
    setup: dict[str, Any] = {"config": config, "client_options": client, "retry_config": retry}
    if dict(options).get(LENT) == url:
        scheme = dict(options)[METADATA_FILE].partition("://")[0]
        setup["credential_provider"] = partial(LENDERS[scheme], options)
    try:
        return from_url(url, **setup)
    except UnknownConfigurationKeyError as wrong:
        named = re.search(r"key: '([^']*)'", str(wrong))
        reason = f"{named[1] if named else 'an option'} is no option of stores like {url}"
        raise UsageError(reason=reason, hint="See docs/object-stores.md.") from None
    except (BaseError, ValueError) as wrong:
        raise no_setup(url, wrong, options) from None


def _split(options: StorageOptions, url: str) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
    """Split options into those of the store, its connections and its retries; drop those of other clouds."""
    kind = SCHEMES[url.partition(":")[0]]
    foreign = tuple(p for other, prefixes in CLOUDS.items() if other != kind for p in prefixes)
    config: dict[str, str] = {}
    client: dict[str, Any] = dict(CLIENT) | {"allow_http": _plain_http(kind)}
    retries, limit = RETRIES, timedelta(seconds=RETRY_S)
    for name, value in options:
        bare = re.sub(f"^({'|'.join(CLOUDS[kind])})", "", name.upper()).lower()
        if name.upper().startswith(foreign) or bare in (OPTION, TABLE_FORMAT, METADATA_FILE, LENT):
            continue
        if bare.startswith(CATALOG_PROPERTY):
            continue
        if bare == "max_retries":
            retries = _count(name, value)
        elif bare == "retry_timeout":
            limit = _span(name, value)
        elif bare in _CLIENT_NAMES:
            client[bare] = _is_true(value) if bare.startswith("allow_") else value
        else:
            config[name] = value
    backoff = {"init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=5), "base": 2}
    return config, client, {"max_retries": retries, "retry_timeout": limit, "backoff": backoff}


def _plain_http(kind: str) -> bool:
    """Return whether the environment allows endpoints without TLS; obstore does not read that variable."""
    return any(_is_true(os.environ.get(f"{prefix}ALLOW_HTTP", "")) for prefix in CLOUDS[kind])


def _is_true(value: str) -> bool:
    return value.lower() in ("true", "1", "yes")


def _count(name: str, value: str) -> int:
    if not value.isdigit():
        raise UsageError(reason=f"storage option {name} is no whole number", hint="Give it as 8.")
    return int(value)


def _span(name: str, value: str) -> timedelta:
    match = re.fullmatch(r"(\d+)\s*(ms|s|m)", value)
    if match is None:
        raise UsageError(reason=f"storage option {name} is no length of time", hint="Give it as 30s.")
    return timedelta(seconds=int(match[1]) * _SPANS[match[2]])


def no_store(url: str) -> UnusableStorageError:
    """Return the refusal of a URL without a bucket or container."""
    return UnusableStorageError(path=url, reason="it names no bucket", hint="Write it as s3://bucket/folder.")


_SETTINGS = {
    "s3.endpoint": "AWS_ENDPOINT_URL",
    "client.region": "AWS_REGION",
    "s3.region": "AWS_REGION",
    "adls.account-name": "AZURE_STORAGE_ACCOUNT_NAME",
}
"""Options of a store by the properties that say the same."""
_CREDENTIALS = {
    "s3": {"s3.access-key-id": "access_key_id", "s3.secret-access-key": "secret_access_key"},
    "gs": {"gcs.oauth2.token": "token"},
    "az": {"adls.sas-token": "sas_token"},
}
"""Credentials of obstore by the properties that lend them, by kind of store; any has all of its kind."""
_EXPIRY = re.compile(r"(s3\.session-token-expires-at-ms|gcs\.oauth2\.token-expires-at|adls\.sas-token-exp.*)")
_LEAST_LENT = timedelta(minutes=15)
"""How long credentials are used that do not say when they expire."""


def with_access(url: str, properties: Mapping[str, str], options: StorageOptions) -> StorageOptions:
    """Return options that reach the store of a URL as a catalog says.

    Options that are given go before those of the catalog, and credentials before those that it would lend.
    """
    store = location_of(url)
    if store is None:
        return options
    said = {option: properties[name] for name, option in _SETTINGS.items() if name in properties}
    if said.get("AWS_ENDPOINT_URL", "").startswith("http:"):
        said["AWS_ALLOW_HTTP"] = "true"
    own = any(may_be_secret(name) and name.upper().startswith(CLOUDS[store.kind]) for name, _ in options)
    if credentials_in(url, properties) and not own:
        said[LENT] = f"{store.scheme}://{store.bucket}"
    return StorageOptions.of({**said, **dict(options)})


def credentials_in(url: str, properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the credentials for the store of a URL, in the form of obstore's; empty if there are none."""
    store = location_of(url)
    names = _CREDENTIALS[store.kind] if store else {}
    # The name of a token of Azure ends in that of the account.
    whole = {re.sub(r"^(adls\.sas-token)\..*", r"\1", name): value for name, value in properties.items()}
    if not names or not names.keys() <= whole.keys():
        return {}
    out: dict[str, Any] = {credential: whole[name] for name, credential in names.items()}
    if "access_key_id" in out:
        out["token"] = whole.get("s3.session-token")
    ends = [int(value) for name, value in properties.items() if _EXPIRY.fullmatch(name)]
    now = datetime.now(timezone.utc)
    out["expires_at"] = datetime.fromtimestamp(min(ends) / 1000, timezone.utc) if ends else now + _LEAST_LENT
    return out
