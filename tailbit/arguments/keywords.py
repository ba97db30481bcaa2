"""Names of keyword arguments: a misspelt name is refused with the nearest, a former name is still taken."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from tailbit.errors import UnknownArgumentError
from tailbit.wording import did_you_mean

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)


def checks_keywords(function: Callable[P, R], old: Mapping[str, str] | None = None) -> Callable[P, R]:
    """Wrap a function so that an unknown argument raises an error that names the nearest argument.

    `old`: former argument names to current ones; a former name is accepted with a warning. Cost: a comparison
    of the names of each call.
    """
    code = inspect.unwrap(function).__code__
    known = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]) - {"self"}
    today = {was: now for was, now in (old or {}).items() if now in known and was not in known}

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if kwargs and not known >= kwargs.keys():
            named: Any = _of_today(function.__name__, dict(kwargs), known, today)
            return function(*args, **named)
        return function(*args, **kwargs)

    return checked


def checks_keywords_of_methods(**old: str) -> Callable[[C], C]:
    """Return a decorator that makes each public method of a class check its argument names."""

    def decorated(cls: C) -> C:
        for name, method in list(vars(cls).items()):
            if inspect.isfunction(method) and not name.startswith("_"):
                setattr(cls, name, checks_keywords(method, old))
        return cls

    return decorated


def _of_today(
    function: str, given: dict[str, Any], known: frozenset[str], today: Mapping[str, str]
) -> dict[str, Any]:
    """Return the arguments under their current names.

    Raises:
        UnknownArgumentError: the name of an argument is neither a current nor a former one.
    """
    named = {}
    for name, value in given.items():
        if name not in known and name not in today:
            raise UnknownArgumentError(
                function=function,
                argument=name,
                known=", ".join(sorted(known)),
                meant=did_you_mean(name, known),
            )
        if name in today:
            message = f"{function}: the argument {name} is now called {today[name]}"
            warnings.warn(message, DeprecationWarning, stacklevel=3)
        named[today.get(name, name)] = value
    return named
