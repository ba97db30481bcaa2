"""Modules that are imported when they are first used.

A first question in a fresh process pays for every module that it imports, used or not. A module that most
questions do not need is named by `lazy` in place of an `import` statement:

    if TYPE_CHECKING:
        from tailbit.index.functions import casting
    else:
        casting = lazy("tailbit.index.functions.casting")
"""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _LazyModule:
    """A module by name, imported at the first use of an attribute; threads may share it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(quickly_imported(self._name), attribute)
        # Found in the object itself from now on, ahead of this method.
        setattr(self, attribute, value)
        return value


def lazy(name: str) -> Any:
    """Return a module that is imported when one of its attributes is first used.

    >>> decimals = lazy("decimal")
    >>> decimals.Decimal("1.5")
    Decimal('1.5')
    """
    return _LazyModule(name)


_SPINNING = "OPENBLAS_THREAD_TIMEOUT"
"""How long threads of numpy's linear algebra spin for work before they sleep: as an exponent of 2, in cycles
of the processor, 26 by default. Two threads so spin for 0.1 s of CPU time once numpy has been imported."""
_BRIEFLY = "16"


def quickly_imported(name: str) -> ModuleType:
    """Import a module and return it, with the cycle collector off: among modules it would find no garbage.

    If numpy is imported here, the threads of its linear algebra sleep sooner; their number is unchanged.
    """
    if name in sys.modules:
        return import_module(name)
    briefly = "numpy" not in sys.modules and _SPINNING not in os.environ
    collecting = gc.isenabled()
    gc.disable()
    if briefly:
        os.environ[_SPINNING] = _BRIEFLY
    try:
        return import_module(name)
    finally:
        if briefly:
            os.environ.pop(_SPINNING, None)
        if collecting:
            _age_objects()
            gc.enable()


def _age_objects() -> None:
    """Move all objects to the oldest generation, so that no young collection examines what was imported.

    If the process has frozen objects itself, nothing is done, since `gc.unfreeze` would undo that.
    """
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()
