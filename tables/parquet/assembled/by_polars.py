"""Polars decodes the wanted rows of a Parquet file that was put together in memory.

Where Polars knows from one column which rows are wanted, it decodes of the others only these. So such a file
has a column of marks, packed booleans, cheaper to decode than any other.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tailbit.tables.parquet.assembled.footer import CODECS, written_leaf

if TYPE_CHECKING:
    from types import ModuleType

    from polars import DataFrame, Expr

_MASK = "wanted"
_ROW = "row"
MASK_LEAF = written_leaf(_MASK, "BOOLEAN", nullable=False)
"""The column of marks, as a schema holds it: the last one."""
CHECKED = frozenset(CODECS) - {"GZIP"}
"""Codecs of which Polars refuses the damage that pyarrow does: it does not look at gzip's checksums."""
_OLDEST = 2
"""The major version of Polars that this was proven with."""

_forked = False


def _after_fork() -> None:
    global _forked
    _forked = "polars" in sys.modules


os.register_at_fork(after_in_child=_after_fork)


def polars() -> ModuleType | None:
    """Polars; None where it cannot be loaded, and in a process forked from one that used it.

    There its threads are gone.
    """
    if _forked:
        return None
    try:
        import polars
    except ImportError:
        return None
    return polars if int(polars.__version__.split(".")[0]) >= _OLDEST else None


def failures(library: ModuleType) -> tuple[type[BaseException], ...]:
    """What Polars raises where it cannot read a file."""
    return library.exceptions.PolarsError, library.exceptions.PanicException


def wanted_rows(library: ModuleType, data: bytes) -> DataFrame:
    """All columns of a file but the marks, at the rows that are marked.

    Raises:
        PolarsError, PanicException: it cannot be read.
    """
    scan = library.scan_parquet(data, use_statistics=False, glob=False, hive_partitioning=False)
    rows: DataFrame = scan.filter(library.col(_MASK)).drop(_MASK).collect()
    return rows


def passing_rows(
    library: ModuleType, data: bytes, passes: Expr, masked: bool, few: bool = False
) -> npt.NDArray[np.uint32]:
    """The numbers of the rows of a file for which an expression is true, ascending; `masked`: of marked ones.

    `few`: whether few rows pass. Polars then leaves out the others while it decodes, which costs more than it
    saves where many do.

    Raises:
        PolarsError, PanicException: it cannot be read.
    """
    scan = library.scan_parquet(
        data, use_statistics=False, glob=False, hive_partitioning=False, row_index_name=_ROW
    )
    if masked or few:
        wanted = library.col(_MASK) & passes if masked else passes
        rows = scan.filter(wanted).select(_ROW)
    else:
        rows = scan.with_columns(passes.alias(_ROW)).select(library.col(_ROW).arg_true())
    return np.asarray(rows.collect().to_series(0).to_numpy(), dtype=np.uint32)


def passing_count(library: ModuleType, data: bytes, passes: Expr, masked: bool) -> int:
    """How many rows of a file an expression is true for: less than to tell which; `masked`: of marked ones.

    Raises:
        PolarsError, PanicException: it cannot be read.
    """
    scan = library.scan_parquet(data, use_statistics=False, glob=False, hive_partitioning=False)
    among = scan.filter(library.col(_MASK)) if masked else scan
    return int(among.with_columns(passes.alias(_ROW)).select(library.col(_ROW).sum()).collect().item())
