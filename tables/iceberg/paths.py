"""The paths of an Iceberg table's metadata as paths below the folder where the table was found.

Metadata names absolute paths. A table that was copied or moved keeps the paths of its old location, so what
lies below that location is looked for below the folder that holds the metadata.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):(//)?")
_ALIKE = {"s3a": "s3", "s3n": "s3"}


def plain(path: str) -> str:
    """Return a path in one spelling: without the scheme `file:`, and with one scheme per kind of store.

    >>> plain("file:///a/b"), plain("file:/a/b"), plain("s3a://bucket/a")
    ('/a/b', '/a/b', 's3://bucket/a')
    """
    match = _SCHEME.match(path)
    if match is None or (match[2] is None and match[1] != "file"):
        return path
    scheme, rest = match[1].lower(), path[match.end() :]
    return rest if scheme == "file" else f"{_ALIKE.get(scheme, scheme)}://{rest}"


class Location:
    """The location of a table as its metadata gives it, below which paths are relative to the root."""

    def __init__(self, location: str) -> None:
        self.text = location
        self._prefix = f"{plain(location).rstrip('/')}/"

    def all_below(self, paths: Sequence[str]) -> list[str]:
        """Return what `below` returns for each path; most are spelled as the location is."""
        prefix, size = f"{self.text.rstrip('/')}/", len(self.text.rstrip("/")) + 1
        return [
            path[size:] if path.startswith(prefix) and path[size : size + 1] != "/" else self.below(path)
            for path in paths
        ]

    def below(self, path: str) -> str:
        """Return a path relative to the root if it lies below the location, else an absolute path.

        >>> Location("file:/t").below("/t/data/a.parquet"), Location("/t").below("/u/a.parquet")
        ('data/a.parquet', '/u/a.parquet')
        """
        spelled = plain(path)
        if not spelled.startswith(self._prefix):
            return spelled
        return spelled[len(self._prefix) :].lstrip("/")
