"""Row-level Roaring bitmap indexes for open lakehouse tables.

`tailbit.open(table).where("carrier = 'UA'").count()` asks; `tailbit.streaming.start(spark, table,
columns=[...])` keeps the index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailbit.api import IndexedTable
    from tailbit.api import open_indexed as open
    from tailbit.index.answer import Answer

__all__ = ["Answer", "IndexedTable", "open"]


def __getattr__(name: str) -> Any:
    """Import the front door on first use: `tailbit.errors` is imported by the lower layers, without it."""
    if name == "open":
        from tailbit.api import open_indexed

        return open_indexed
    if name == "IndexedTable":
        from tailbit.api import IndexedTable

        return IndexedTable
    if name == "Answer":
        from tailbit.index.answer import Answer

        return Answer
    raise AttributeError(f"module 'tailbit' has no attribute {name!r}")
