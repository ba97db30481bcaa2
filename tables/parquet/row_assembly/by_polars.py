"""Decoding of the wanted rows of an assembled Parquet file by Polars.

When Polars filters by one column, it decodes only the matching rows of the other columns. So an assembled
file has a mask column that marks wanted rows, packed booleans, cheaper to decode than any other.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tailbit.base.lazy import quickly_imported
from tailbit.tables.parquet.row_assembly.footer import CODECS, written_leaf

if TYPE_CHECKING:
    from types import ModuleType

    from polars import DataFrame, Expr

_MASK = "wanted"
_ROW = "row"
MASK_LEAF = written_leaf(_MASK, "BOOLEAN", nullable=False)
"""The mask column as a leaf of the schema, always the last."""
CHECKED = frozenset(CODECS) - {"GZIP"}
"""Codecs for which Polars detects the same damage as pyarrow: it does not verify gzip's checksums."""
_OLDEST = 2
"""The oldest major version of Polars that has been tested."""

_forked = False


def _after_fork() -> None:
    global _forked
    _forked = "polars" in sys.modules


os.register_at_fork(after_in_child=_after_fork)


def polars() -> ModuleType | None:
    """Return the module polars; None if missing or too old, or in a fork of a process that had loaded it.

    In a forked process the threads of Polars are gone.
    """
    if _forked:
        return None
    try:
        library = quickly_imported("polars")
    except ImportError:
        return None
    return library if int(library.__version__.split(".")[0]) >= _OLDEST else None


def failures(library: ModuleType) -> tuple[type[BaseException], ...]:
    """Return the exceptions that Polars raises when it cannot read a file."""
    return library.exceptions.PolarsError, library.exceptions.PanicException


def wanted_rows(library: ModuleType, data: bytes) -> DataFrame:
    """Return all columns of a file except the mask, at the rows that the mask marks.

    Raises:
        PolarsError, PanicException: the file cannot be read.
    """
    scan = library.scan_parquet(data, use_statistics=False, glob=False, hive_partitioning=False)
    rows: DataFrame = scan.filter(library.col(_MASK)).drop(_MASK).collect()
    return rows


def passing_rows(
    library: ModuleType, data: bytes, passes: Expr, masked: bool, few: bool = False
) -> npt.NDArray[np.uint32]:
    """Return the row numbers of a file for which an expression is true, ascending.

    `masked`: only rows that the mask marks count. `few`: few rows pass; Polars then filters while it decodes,
    which costs more than it saves if many rows pass.

    Raises:
        PolarsError, PanicException: the file cannot be read.
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
    """Count the rows of a file for which an expression is true, more cheaply than to list them.

    `masked`: only rows that the mask marks count.

    Raises:
        PolarsError, PanicException: the file cannot be read.
    """
    scan = library.scan_parquet(data, use_statistics=False, glob=False, hive_partitioning=False)
    among = scan.filter(library.col(_MASK)) if masked else scan
    return int(among.with_columns(passes.alias(_ROW)).select(library.col(_ROW).sum()).collect().item())
