"""Rows as DataFrames of pandas and polars, which tailbit itself does not need."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tailbit.base.errors import UsageError

if TYPE_CHECKING:
    import pandas
    import polars


def to_pandas(rows: pa.Table) -> pandas.DataFrame:
    """Return rows as a DataFrame of pandas.

    Raises:
        UsageError: pandas is not installed.
    """
    _library("pandas")
    return rows.to_pandas()


def to_polars(rows: pa.Table) -> polars.DataFrame:
    """Return rows as a DataFrame of polars.

    Raises:
        UsageError: polars is not installed.
    """
    frame: polars.DataFrame = _library("polars").DataFrame(rows)
    return frame


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        raise UsageError(reason=f"{name} is not installed", hint=f"Install it: pip install {name}.") from None
