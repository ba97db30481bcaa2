"""Rows as DataFrames of pandas and polars, which tailbit itself does not need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from tailbit.errors import UsageError

if TYPE_CHECKING:
    import pandas
    import polars


def to_pandas(rows: pa.Table) -> pandas.DataFrame:
    """Return rows as a DataFrame of pandas.

    Raises:
        UsageError: pandas is not installed.
    """
    try:
        import pandas  # noqa: F401
    except ModuleNotFoundError:
        raise _missing("pandas") from None
    return rows.to_pandas()


def to_polars(rows: pa.Table) -> polars.DataFrame:
    """Return rows as a DataFrame of polars.

    Raises:
        UsageError: polars is not installed.
    """
    try:
        import polars
    except ModuleNotFoundError:
        raise _missing("polars") from None
    return polars.DataFrame(rows)


def _missing(library: str) -> UsageError:
    return UsageError(reason=f"{library} is not installed", hint=f"Install it: pip install {library}.")
