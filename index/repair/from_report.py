"""Conversion of the problems of a verification into the damage to repair."""

from __future__ import annotations

from collections.abc import Sequence

from tailbit.index.kinds.kind import Blame, Problem
from tailbit.index.repair.damage import Damage


def damage_of(problems: Sequence[Problem]) -> Damage:
    """Return all that the problems blame; nothing if the source is at fault."""
    return Damage().with_all(map(_damage, problems))


def _damage(problem: Problem) -> Damage:
    if problem.blame is Blame.FILE and not problem.name.startswith("kind="):
        # The counts of a data file rest on index files that are lost.
        return Damage(counts=True)
    if problem.blame is Blame.FILE:
        return Damage(files=frozenset({problem.name}))
    if problem.blame is Blame.SPACE:
        return Damage(spaces=frozenset({problem.name}))
    return Damage(
        counts=problem.blame is Blame.COUNTS,
        hidden=problem.blame is Blame.HIDDEN,
        records=problem.blame is Blame.RECORDS,
    )
