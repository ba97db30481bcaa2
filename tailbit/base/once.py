"""Attributes that are computed when they are first used, with the same value for every thread.

`functools.cached_property` holds one lock for all objects of a class up to Python 3.11, so that one slow
answer keeps all others waiting. From 3.12 on it holds none, and the later of two threads replaces a value
that the earlier one has already used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class once(Generic[T]):
    """A method without arguments as an attribute, whose first value is kept for every thread.

    Invariant: every thread gets the same value. Threads that use it first at the same time each compute a
    value, without waiting, and all get the one that was stored first. An exception is not kept. The object
    needs a `__dict__`.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> once[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> once[T] | T:
        if instance is None:
            return self
        # Python finds a kept value in the object's `__dict__`, and does not call this method again.
        value: T = instance.__dict__.setdefault(self._name, self._compute(instance))
        return value
