"""The result of a verification: what it checked, and every problem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import NamedTuple

from tailbit.base.dataclass import dataclass
from tailbit.index.kinds.kind import Blame, Problem
from tailbit.tables.model import VersionName


@dataclass
class Report:
    """The result of a verification: what was checked, and every problem; sound if there is none.

    `version`: the source version with which the index was compared. `state`: of the index, as in `status`.
    `sampled`: values read again from the data. `derived`: columns of files derived again as a whole.
    `files_read`: index files read again with all their checksums. `notes`: what a person should know of an
    index that is sound.
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
    notes: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Return whether nothing is wrong."""
        return not self.problems

    def note(self, problem: Problem) -> None:
        """Record a problem, once; of an index file that cannot be used the first one says all."""
        of_file = problem.blame is Blame.FILE
        if any(each == problem or (of_file and _is_of_file(each, problem.name)) for each in self.problems):
            return
        self.problems.append(problem)


def _is_of_file(problem: Problem, name: str) -> bool:
    return problem.blame is Blame.FILE and problem.name == name


class DamagedPart(NamedTuple):
    """A damaged part of the index, such as a file or a row space: its first problem, and how many follow."""

    problem: Problem
    others: int


def damaged_parts(problems: Sequence[Problem]) -> list[DamagedPart]:
    """Return what is damaged, each part once; a problem that is not the index's is a part of its own."""
    parts: dict[object, list[Problem]] = {}
    for problem in problems:
        of_source = problem.blame is Blame.NOTHING
        parts.setdefault(problem if of_source else (problem.blame, problem.name), []).append(problem)
    return [DamagedPart(part[0], len(part) - 1) for part in parts.values()]
