"""What a verification found wrong, as the damage that is to be mended."""

from __future__ import annotations

from collections.abc import Sequence

from tailbit.index.kinds.kind import Blame, Problem
from tailbit.index.repair.damage import Damage


def damage_of(problems: Sequence[Problem]) -> Damage:
    """All that some problems blame; nothing where the source is at fault."""
    return Damage().with_all(map(_damage, problems))


def _damage(problem: Problem) -> Damage:
    if problem.blame is Blame.FILE and not problem.name.startswith("kind="):
        # What is counted of a data file rests on index files that are lost.
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
