"""Options of a store, such as an endpoint and credentials: handed on between processes, and never shown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_SECRET = re.compile(r"secret|token|key|password|sas|credential|signature", re.IGNORECASE)
_SHORTEST = 4
"""A value shorter than this is no secret, and would be found in many a word."""


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """Options by name, as delta-rs names them (`AWS_ENDPOINT_URL`); what is not given is in the environment.

    Values are in no text that this makes of itself.
    """

    items: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, given: Mapping[str, str] | None) -> StorageOptions:
        """The options of a mapping, in the order of their names."""
        return cls(tuple(sorted((given or {}).items())))

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.items)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(name for name, _ in self.items)})"

    def hidden_in(self, text: str) -> str:
        """A text without the values of those options that may be secrets."""
        for name, value in self.items:
            if _SECRET.search(name) and len(value) >= _SHORTEST:
                text = text.replace(value, "***")
        return text


NO_OPTIONS = StorageOptions()
"""Nothing is given: whatever is needed is in the environment."""
