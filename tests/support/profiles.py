"""How much is asked: a part in `make test`, all of it in `make proof` and `make fuzz KIND=properties`."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from hypothesis import settings

T = TypeVar("T")

FACTOR = int(os.environ.get("TAILBIT_EXAMPLES", "1"))

SEED = int(os.environ.get("TAILBIT_SEED", "1"))
"""What random histories and predicates are drawn from."""

PROOF = bool(os.environ.get("TAILBIT_PROOF"))
"""Whether Spark judges every version of every history, with the settings that it has by itself."""

STEP = 3

PARTS = 3
"""`make test` takes one of so many parts of the tests marked `by_thirds`, `make proof` all of them."""


def commit_number(folder: Path = Path(__file__).parent) -> int:
    """Return the number of commits up to the one that is checked out; 0 if Git cannot tell."""
    if shutil.which("git") is None:
        return 0
    command = ["git", "rev-list", "--count", "HEAD"]
    listing = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return 0 if listing.returncode else int(listing.stdout)


TURN = commit_number()
"""What chooses among the thirds: each commit proves another, and each night all of them."""


def examples(count: int) -> settings:
    """A decorator: `count` examples in CI, a multiple with TAILBIT_EXAMPLES."""
    return settings(max_examples=count * FACTOR)


def seeds(count: int) -> range:
    """Seeds of random histories: `count` in `make test`; TAILBIT_SEED says which, TAILBIT_SEEDS how many."""
    first = 1000 * (SEED - 1)
    return range(first, first + int(os.environ.get("TAILBIT_SEEDS", count)))


def variants(values: Sequence[T], count: int) -> list[T]:
    """The values of a parameter: `count` of them, by TAILBIT_SEED; all in `make proof` and `make verdicts`.

    >>> variants("abcd", 2)
    ['a', 'c']
    """
    if PROOF or os.environ.get("TAILBIT_RECORD_VERDICTS"):
        return list(values)
    return [values[(SEED - 1 + n * len(values) // count) % len(values)] for n in range(count)]


def of_turn(count: int, turn: int = TURN) -> range:
    """Return which of `count` tests marked `by_thirds` a turn takes, one at least; in `make proof` all.

    >>> [list(of_turn(5, turn)) for turn in range(3)]
    [[0, 3], [1, 4], [2]]
    """
    return range(count) if PROOF else range(turn % min(PARTS, count), count, PARTS)


def chosen(versions: Sequence[T]) -> list[T]:
    """The versions of a history that Spark judges: all in `make proof`.

    Else the first, the last, and every third back from the last: each costs Spark a state of the log.

    >>> chosen(range(12))
    [0, 2, 5, 8, 11]
    """
    if PROOF:
        return list(versions)
    return [
        version for n, version in enumerate(reversed(versions)) if n % STEP == 0 or n == len(versions) - 1
    ][::-1]
