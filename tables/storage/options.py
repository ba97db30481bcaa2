"""Options of a store, such as endpoint and credentials: passed between processes and never shown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tailbit.base.dataclass import dataclass

_SECRET = re.compile(r"secret|token|key|password|sas|credential|signature", re.IGNORECASE)
SCHEMES: Mapping[str, str] = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    **dict.fromkeys(("az", "azure", "abfs", "abfss"), "az"),
}
"""The schemes of URLs, and the kind of store that each means."""
TABLE_FORMAT = "table_format"
"""The option that says which of two formats in one folder is meant."""
METADATA_FILE = "metadata_file"
"""The option that names the metadata file of a table, relative to its root, in place of the current one."""
_SHORTEST = 4
"""Shorter values are not treated as secrets: they would occur in many words."""


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """Options by name, as delta-rs names them (`AWS_ENDPOINT_URL`); the environment supplies missing ones.

    The values never appear in the object's `repr`.
    """

    items: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, given: Mapping[str, str] | None) -> StorageOptions:
        """Return the options of a mapping, sorted by name."""
        return cls(tuple(sorted((given or {}).items())))

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.items)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(name for name, _ in self.items)})"

    @property
    def table_format(self) -> str:
        """The format in which to read the table, in lower case; empty if the folder of the log decides."""
        given = next((value for name, value in self.items if name.lower() == TABLE_FORMAT), "")
        return given.lower()

    def hidden_in(self, text: str) -> str:
        """Replace in a text the values of options that may be secrets."""
        for name, value in self.items:
            if may_be_secret(name) and len(value) >= _SHORTEST:
                text = text.replace(value, "***")
        return text


def may_be_secret(name: str) -> bool:
    """Return whether the value of an option of this name may be a secret."""
    return _SECRET.search(name) is not None


NO_OPTIONS = StorageOptions()
"""No options: everything needed is in the environment."""
