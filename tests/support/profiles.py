"""How much is asked: a part in `make test`, all of it in `make proof` and `make fuzz KIND=properties`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

from hypothesis import settings

T = TypeVar("T")

FACTOR = int(os.environ.get("TAILBIT_EXAMPLES", "1"))

SEED = int(os.environ.get("TAILBIT_SEED", "1"))
"""What random histories and predicates are drawn from."""

PROOF = bool(os.environ.get("TAILBIT_PROOF"))
"""Whether Spark judges every version of every history, with the settings that it has by itself."""

STEP = 3


def examples(count: int) -> settings:
    """A decorator: `count` examples in CI, a multiple with TAILBIT_EXAMPLES."""
    return settings(max_examples=count * FACTOR)


def seeds(count: int) -> range:
    """Seeds of random histories: `count` in `make test`; TAILBIT_SEED says which, TAILBIT_SEEDS how many."""
    first = 1000 * (SEED - 1)
    return range(first, first + int(os.environ.get("TAILBIT_SEEDS", count)))


def variants(values: Sequence[T], count: int) -> list[T]:
    """The values of a parameter: all in `make proof`, else `count` of them; TAILBIT_SEED says which.

    >>> variants("abcd", 2)
    ['a', 'c']
    """
    if PROOF:
        return list(values)
    return [values[(SEED - 1 + n * len(values) // count) % len(values)] for n in range(count)]


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
