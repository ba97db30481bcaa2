"""The collection of a frame's rows to Python, with an error of its own if Java ends meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row


def collected(frame: DataFrame) -> list[Row]:
    """Return the rows of a frame, as `frame.collect()` does.

    Raises:
        ConnectionError: Java ended after it had computed the rows and before Python could fetch them.
            pyspark 4.2 raises an UnboundLocalError there, since `_load_from_socket` closes a socket that
            was never opened.
    """
    try:
        rows: list[Row] = frame.collect()
        return rows
    except UnboundLocalError as failed:
        raise ConnectionError("Java ended before the rows of a job were fetched") from failed
