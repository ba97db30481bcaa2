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
    """Return the public names, whether loaded or not."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def __getattr__(name: str) -> Any:
    """Import the front door on first use: the lower layers import `tailbit.base` without it."""
    if name == "__version__":
        from importlib.metadata import version

        return version("tailbit")
    from tailbit.base.lazy import quickly_imported

    if name == "errors":
        return quickly_imported("tailbit.errors")
    if name not in __all__:
        raise AttributeError(f"module 'tailbit' has no attribute {name!r}")
    module, attribute = _FRONT_DOOR.get(name, ("tailbit.arguments.conditions", name))
    return getattr(quickly_imported(module), attribute)


_FRONT_DOOR = {
    "open": ("tailbit.api", "open_indexed"),
    "sql": ("tailbit.upkeep.statements", "sql"),
    "IndexedTable": ("tailbit.api", "IndexedTable"),
    "Answer": ("tailbit.answer", "Answer"),
}
