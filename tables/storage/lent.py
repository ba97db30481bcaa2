"""Access to an object store that the catalog of a table lends: settings, and credentials that expire.

Properties have the names of pyiceberg and of Iceberg's REST protocol (`s3.access-key-id`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from tailbit.tables.storage.locations import CLOUDS, location_of
from tailbit.tables.storage.store import LENT, StorageOptions, may_be_secret

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
