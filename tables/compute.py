"""The functions of `pyarrow.compute` by the same names, without an import of that module.

`pyarrow.compute` writes a signature and a docstring for each of its 300 functions when it is imported: 0.04 s
of a question that takes 0.2 s. Here, a function is looked up in Arrow's registry when its name is first used:
`from tailbit.tables import compute as pc`. Methods of Arrow's arrays such as `cast` and `take` import
`pyarrow.compute`; the functions of the same names here do not.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pyarrow as pa
import pyarrow._compute as registry

_KEYWORDS = {"and_": "and", "or_": "or"}
_WRITTEN_IN_PYTHON = frozenset({"fill_null", "index"})
"""Functions that `pyarrow.compute` writes in Python: they are not Arrow's functions of the same names."""


def cast(values: Any, type_: pa.DataType, safe: bool = True) -> Any:
    """Convert the values of an array, chunked array or scalar to another type, as `values.cast` does.

    >>> cast(pa.scalar(1, pa.int64()), pa.int8()).type
    DataType(int8)
    """
    options = registry.CastOptions.safe(type_) if safe else registry.CastOptions.unsafe(type_)
    return registry.call_function("cast", [values], options)


def take(values: Any, positions: Any) -> Any:
    """Return the values or rows at positions, as `values.take` does.

    >>> take(pa.array(["a", "b"]), pa.array([1, 0])).to_pylist()
    ['b', 'a']
    """
    return registry.call_function("take", [values, positions], registry.TakeOptions(boundscheck=True))


def __getattr__(name: str) -> Any:
    """Return the function of `pyarrow.compute` of this name, and store it in this module for later uses."""
    if name in _WRITTEN_IN_PYTHON:
        function = getattr(import_module("pyarrow.compute"), name)
    else:
        function = _function(name)
    globals()[name] = function
    return function


def _function(name: str) -> Callable[..., Any]:
    """Return one of Arrow's functions as a Python function that takes its options as keywords."""
    try:
        function = registry.get_function(_KEYWORDS.get(name, name))
    except KeyError as unknown:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from unknown
    options_class: Any = getattr(registry, function._doc.options_class or "", None)
    arity = None if function.arity is Ellipsis else function.arity

    def call(*arguments: Any, options: Any = None, **settings: Any) -> Any:
        values, others = (arguments, ()) if arity is None else (arguments[:arity], arguments[arity:])
        if others or settings:
            options = options_class(*others, **settings)
        return function.call(values, options)

    return call
