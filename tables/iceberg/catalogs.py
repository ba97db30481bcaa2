"""Tables of a catalog by name: where the catalog says that the current metadata file is.

Catalogs of every kind are asked through pyiceberg, by its own configuration: a file, the environment, or
storage options named `catalog.` and a property. pyiceberg would read the metadata file too; here the file is
only named, and read as that of any other table. Nothing but tables of catalogs loads this module.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn
from urllib.parse import unquote

from tailbit.base.errors import CatalogError, NotATableError, RequirementError, TailbitError, UsageError
from tailbit.base.wording import did_you_mean
from tailbit.tables.iceberg.words import CATALOG, LOG, WORDS
from tailbit.tables.storage import StorageOptions
from tailbit.tables.storage.locations import credentials_in
from tailbit.tables.storage.requests import SEEN
from tailbit.tables.storage.store import CATALOG_PROPERTY, LENT, METADATA_FILE

_INSTALL = "Install it: pip install 'tailbit[iceberg-catalogs]'{more}."

try:
    from pyiceberg.catalog import Catalog, list_catalogs, load_catalog
    from pyiceberg.exceptions import (
        AuthorizationExpiredError,
        ForbiddenError,
        NoSuchNamespaceError,
        NoSuchTableError,
        NotInstalledError,
        OAuthError,
        UnauthorizedError,
    )
    from pyiceberg.io import FileIO, InputFile, OutputFile
except ImportError as missing:
    raise RequirementError(
        reason=f"pyiceberg, which asks the catalogs of Iceberg, cannot be loaded: {missing}",
        remedy=_INSTALL.format(more=""),
    ) from missing

ANSWER_S = 30.0
"""Seconds in which a catalog must answer."""
_DENIED = (UnauthorizedError, ForbiddenError, AuthorizationExpiredError, OAuthError)
_DENIED_BY_NAME = re.compile(
    r"No(Credentials|Region)Error|AccessDenied|(Unrecognized|Expired)\w*(Client|Token)"
)
_USER = re.compile(r"//[^/@\s]*@")
_IS_UP = "See whether the catalog is up, and its uri."
_EXAMPLE = f"{CATALOG}prod/sales.orders"
_SET_UP = (
    "Describe the catalog as pyiceberg has it: in ~/.pyiceberg.yaml, in variables such as PYICEBERG_CATALOG__"
    "{variable}__URI, or by storage options such as catalog.uri. Described now: {described}."
)


class Named(NamedTuple):
    """What a catalog says of a table: its metadata file, and properties to reach files with."""

    location: str
    properties: Mapping[str, str]


class _NamedFile(Exception):
    """A metadata file that a catalog names, and the properties to reach it with."""


class NoFiles(FileIO):
    """Files that are never read: what a catalog wants to read is the metadata file that it names."""

    def new_input(self, location: str) -> InputFile:
        """Raise the location."""
        raise _NamedFile(location, self.properties)

    def new_output(self, location: str) -> OutputFile:
        """Raise the location: nothing is ever written."""
        raise _NamedFile(location, self.properties)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete nothing."""


class CatalogTable:
    """A table by the name that it has in a catalog: `iceberg://catalog/namespace.table`.

    A dot within a name is written as `%2E`.
    """

    def __init__(self, uri: str, options: StorageOptions) -> None:
        self._uri, self._options = uri, options
        catalog, _, name = uri[len(CATALOG) :].strip("/").partition("/")
        self._catalog = unquote(catalog)
        self._name = tuple(unquote(word) for word in name.split("."))
        if not catalog or len(self._name) < 2 or not all(self._name):
            hint = f"Write catalog, namespace and table: {_EXAMPLE}."
            raise UsageError(reason=f"{uri} names no table of a catalog", hint=hint)
        self._waits: Future[Named] | None = None

    def location(self) -> str:
        """Return the location of the current metadata file. Cost: a request, one within `one_look`."""
        seen, key = SEEN.stats, (self._uri, self._options)
        if seen is None:
            return self.answer().location
        if key not in seen:
            seen[key] = self.answer().location
        return str(seen[key])

    def forget(self) -> None:
        """Ask anew, also within the same look."""
        if SEEN.stats is not None:
            SEEN.stats.pop((self._uri, self._options), None)

    def answer(self) -> Named:
        """Return what the catalog says now."""
        # While an earlier request has no answer, the catalog gets no other one; a late answer may be stale.
        if self._waits is not None:
            wait([self._waits], ANSWER_S)
        if self._waits is None or self._waits.done():
            self._waits = Future()
            threading.Thread(target=self._request, args=(self._waits,), daemon=True).start()
            wait([self._waits], ANSWER_S)
        if not self._waits.done():
            self._refuse(f"no answer within {ANSWER_S:g} s", True, _IS_UP)
        request, self._waits = self._waits, None
        if (error := request.exception()) is not None:
            self._explain(error)
        return request.result()

    def _request(self, answer: Future[Named]) -> None:
        """Ask the catalog for the table, in a thread that may wait for ever."""
        try:
            answer.set_result(self.request())
        except BaseException as error:
            answer.set_exception(error)

    def request(self) -> Named:
        """Ask the catalog for the table."""
        catalog = _catalog(self._catalog, self._options)
        try:
            table = catalog.load_table(self._name)
            return Named(table.metadata_location, table.io.properties)
        except _NamedFile as read:
            return Named(*read.args)
        except (NoSuchTableError, NoSuchNamespaceError) as missing:
            raise self._missing(catalog, missing) from missing

    def _missing(self, catalog: Catalog, missing: Exception) -> NotATableError:
        names: list[str] = []
        with suppress(Exception):
            names = [".".join(name) for name in catalog.list_tables(self._name[:-1])]
        meant = did_you_mean(".".join(self._name), names).strip()
        return NotATableError(
            path=self._uri,
            reason=f"the catalog has no table of that name ({missing})",
            kind=WORDS.kind,
            log=LOG,
            hint=meant or f"Give a table that the catalog has: {_EXAMPLE}.",
            is_there=True,
        )

    def _explain(self, error: BaseException) -> NoReturn:
        """Raise a named error for what a request raised."""
        if isinstance(error, TailbitError):
            raise error
        if isinstance(error, (NotInstalledError, ImportError)):
            more = ", and what pyiceberg needs for this kind of catalog, such as 'pyiceberg[glue]'"
            raise RequirementError(reason=str(error), remedy=_INSTALL.format(more=more)) from error
        text = self._options.hidden_in(_USER.sub("//***@", " ".join(str(error).split())))
        reason = f"{type(error).__name__}: {text}"
        if isinstance(error, _DENIED) or _DENIED_BY_NAME.search(reason):
            hint = "Give credentials that may read the table (of Glue its region too), as pyiceberg has them."
            self._refuse(reason, False, hint, error)
        if isinstance(error, (ValueError, KeyError, TypeError)):
            described = ", ".join(list_catalogs()) or "none"
            variable = self._catalog.upper().replace("-", "_")
            self._refuse(reason, False, _SET_UP.format(variable=variable, described=described), error)
        self._refuse(reason, True, _IS_UP, error)

    def _refuse(
        self, reason: str, retryable: bool, hint: str, error: BaseException | None = None
    ) -> NoReturn:
        raise CatalogError(path=self._uri, reason=reason, retryable=retryable, hint=hint) from error


@lru_cache(maxsize=64)
def _catalog(name: str, options: StorageOptions) -> Catalog:
    """Return a catalog that reads no file, and makes no table of its own in a database."""
    given = {
        key[len(CATALOG_PROPERTY) :]: value for key, value in options if key.startswith(CATALOG_PROPERTY)
    }
    reader = {"py-io-impl": f"{__name__}.{NoFiles.__name__}", "init_catalog_tables": "false"}
    return load_catalog(name, **{**given, **reader})


def lent(options: StorageOptions) -> dict[str, Any]:
    """Return the credentials that the catalog of a table lends now.

    Raises:
        CatalogError: the catalog gives no answer, or lends none any more.
    """
    uri, url = dict(options)[METADATA_FILE], dict(options)[LENT]
    credentials = credentials_in(url, CatalogTable(uri, options).answer().properties)
    if not credentials:
        raise CatalogError(path=uri, reason="it lends no credentials any more", retryable=True, hint=_IS_UP)
    return credentials


def uri_in_catalog(names: tuple[str, ...]) -> str | None:
    """Return the URI of a table by its names, if the first is that of a catalog that is described."""
    if names[0] not in list_catalogs():
        return None
    return f"{CATALOG}{names[0]}/" + ".".join(name.replace(".", "%2E") for name in names[1:])
