"""One name for each sort of numpy array that many rooms pass on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]
"""32-bit integers: Spark's `int`."""

Longs = npt.NDArray[np.int64]
"""64-bit integers: Spark's `long`."""

Mask = npt.NDArray[np.bool_]
"""A boolean an element: TRUE where it is meant."""
