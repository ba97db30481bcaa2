"""tailbit keeps row-level Roaring bitmap indexes beside open lakehouse tables, and answers from them.

`tailbit.open(table).where("carrier = 'UA'").count()` asks; `tailbit.streaming.start(spark, table,
columns=[...])` keeps the index.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailbit.answer import Answer
    from tailbit.api import IndexedTable
    from tailbit.api import open_indexed as open
    from tailbit.arguments.conditions import Condition, call, col
    from tailbit.upkeep.statements import sql

__all__ = ["Answer", "Condition", "IndexedTable", "call", "col", "open", "sql"]

if not os.path.isdir(os.path.join(__path__[0], "index")):
    # A checkout: its other packages lie beside this folder, and an editable install knows that. Python run in
    # the checkout's folder, as Spark's workers are, finds this folder ahead of what is installed.
    __path__.append(os.path.dirname(__path__[0]))


def __dir__() -> list[str]:
    """Return what there is to use, loaded or not."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def __getattr__(name: str) -> Any:
    """Import the front door on first use: `tailbit.errors` is imported by the lower layers, without it."""
    if name == "open":
        from tailbit.api import open_indexed

        return open_indexed
    if name == "sql":
        from tailbit.upkeep.statements import sql

        return sql
    if name == "IndexedTable":
        from tailbit.api import IndexedTable

        return IndexedTable
    if name == "Answer":
        from tailbit.answer import Answer

        return Answer
    if name in ("Condition", "call", "col"):
        from tailbit.arguments import conditions

        return getattr(conditions, name)
    if name == "__version__":
        from importlib.metadata import version

        return version("tailbit")
    raise AttributeError(f"module 'tailbit' has no attribute {name!r}")
