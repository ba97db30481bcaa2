"""An error of tailbit shows in Spark as two lines, message and hint, without a Python worker's traceback.

A worker sends the text of an exception to the JVM, with the traceback first unless the worker's environment
has `SPARK_HIDE_TRACEBACK`, and ends. So this module sets the variable when an error of tailbit leaves the
package, in the worker that the error ends; other functions of the session keep their tracebacks.

When Spark needs no more rows of a worker (LIMIT), the worker finds its pipe closed, prints half a traceback
(BrokenPipeError) and ends. Such an end is no error, so the traceback is not printed.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from tailbit.base.errors import TailbitError

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


@contextmanager
def without_traceback() -> Iterator[None]:
    """Report an error of tailbit without its traceback, and end silently when the pipe is closed."""
    _end_quietly()
    try:
        yield
    except TailbitError:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


class _Traceback:
    """The standard error of a worker that ends, without the traceback of a closed pipe."""

    format_exc = staticmethod(traceback.format_exc)

    @staticmethod
    def print_exc() -> None:
        if not isinstance(sys.exc_info()[1], BrokenPipeError):
            traceback.print_exc()


def _end_quietly() -> None:
    """Silence the traceback of a closed pipe, if this process is a Spark worker."""
    main = sys.modules["__main__"]
    if main.__spec__ is not None and main.__spec__.name == "pyspark.daemon":
        main.traceback = _Traceback  # type: ignore[attr-defined]


def told_plainly(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Wrap a function so that its worker reports errors of tailbit without a traceback."""

    @wraps(function)
    def plain(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        with without_traceback():
            return function(*args, **kwargs)

    return plain
