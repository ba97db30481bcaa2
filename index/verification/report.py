"""The result of a verification: what it checked, and every problem."""

from __future__ import annotations

from dataclasses import field

from tailbit.imports.dataclass import dataclass
from tailbit.index.kinds.kind import Problem
from tailbit.tables.model import VersionName


@dataclass
class Report:
    """The result of a verification: what was checked, and every problem; sound if there is none.

    `version`: the source version with which the index was compared. `state`: of the index, as in `status`.
    `sampled`: values read again from the data. `derived`: columns of files derived again as a whole.
    `files_read`: index files read again with all their checksums.
    """

    version: VersionName | None = None
    state: str = "complete"
    files: int = 0
    spaces: int = 0
    postings: int = 0
    positions: int = 0
    counts: int = 0
    sampled: int = 0
    derived: int = 0
    files_read: int = 0
    problems: list[Problem] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Return whether nothing is wrong."""
        return not self.problems

    def note(self, problem: Problem) -> None:
        """Record a problem, once."""
        if problem not in self.problems:
            self.problems.append(problem)
