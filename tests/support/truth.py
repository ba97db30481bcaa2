"""Where a bound predicate is TRUE on a table, or the error that it raises there."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Mask
from tailbit.index.predicate.tree import Node
from tailbit.index.predicate.truth import judged, raise_error


def matches(node: Node, table: pa.Table, partition: Mapping[str, str | None]) -> Mask:
    """Rows of a table where `node` is TRUE.

    Raises:
        EvaluationError: the answer for a row depends on an expression that raises there.
    """
    true, open_ = judged(node, table, partition)
    if open_ is not None:
        row = int(np.flatnonzero(open_)[0])
        raise_error(node, table.slice(row, 1), partition, "", row)
    return true
