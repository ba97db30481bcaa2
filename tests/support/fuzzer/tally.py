"""What the histories of a fuzzer did and found, and the sum of several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

Own = TypeVar("Own", bound="Tally")


@dataclass
class Tally:
    """Numbers of what was done, and `findings`, each with all that is needed to see it again.

    A kind of fuzzer names its own numbers as fields: numbers, lists and counters, which are summed.
    """

    findings: list[str] = field(default_factory=list)

    def __iadd__(self: Own, other: Any) -> Own:
        for own in fields(self):
            setattr(self, own.name, getattr(self, own.name) + getattr(other, own.name))
        return self

    def cells(self) -> Mapping[str, int]:
        """Return the numbers by their names on the page of a record; the first is what is asked for."""
        return {}

    def lacking(self) -> list[str]:
        """Return what a whole run should have done at least once, and did not."""
        return []
