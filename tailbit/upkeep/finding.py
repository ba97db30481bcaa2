"""A finding of `tailbit doctor`: one thing that an indexer needs, what there is, and what to do."""

from __future__ import annotations

from enum import Enum

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import TailbitError


class State(str, Enum):
    """Whether a finding keeps an indexer from its work."""

    OK = "ok"
    WARNING = "warning"
    """An indexer works, perhaps slowly, or a person should look at it."""
    PROBLEM = "problem"
    """An indexer, or questions, fail."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one thing, what is needed, and what to do; both empty if all is well."""

    check: str
    state: State
    found: str
    needed: str = ""
    remedy: str = ""

    @classmethod
    def of(cls, check: str, error: TailbitError, needed: str = "") -> Finding:
        """Return a named error as a finding."""
        return cls(check, State.PROBLEM, str(error), needed, error.hint)


def judged(
    check: str, found: str, unless: bool, needed: str, remedy: str, state: State = State.PROBLEM
) -> Finding:
    """Return a finding: OK if `unless` is True, else in `state`, with what is needed and the remedy."""
    return Finding(check, State.OK, found) if unless else Finding(check, state, found, needed, remedy)
