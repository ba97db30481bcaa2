"""A `dataclass` with the meaning of Python's own, except that methods are made when they are first used.

Python compiles six methods of a frozen dataclass when its module is imported. That was a tenth of the CPU
time of a first question in a fresh process, and most methods are never called: few objects are printed or
hashed, and a question makes no object of half of the classes.

`InitVar` is not supported. A class that inherits from a frozen class is frozen, and must be made here too.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, eq=True, order=False, repr=True, slots=False):
        """Make a dataclass as `dataclasses.dataclass` does.

        >>> @dataclass(frozen=True)
        ... class Version:
        ...     number: int
        ...     of: str = "delta"
        >>> Version(7)
        Version(number=7, of='delta')
        """
        if cls is None:
            return lambda cls: _with_methods(cls, frozen, eq, order, repr, slots)
        return _with_methods(cls, frozen, eq, order, repr, slots)


_COMPARED = ("__lt__", "__le__", "__gt__", "__ge__")

_OPTIONS_BY_METHOD = {
    "__repr__": {"repr": True},
    "__eq__": {"eq": True},
    "__hash__": {"eq": True, "unsafe_hash": True},
    **{name: {"eq": True, "order": True} for name in _COMPARED},
}
"""The arguments that make Python's own `dataclass` produce a method, and no other method."""

_NONE = {"init": False, "repr": False, "eq": False, "match_args": False, "namespace": {"__doc__": "_"}}


def _with_methods(cls: Any, frozen: bool, eq: bool, order: bool, repr: bool, slots: bool) -> Any:
    # For a class without a docstring Python asks for the signature of `__init__`, which would compile it.
    cls.__doc__ = cls.__doc__ or cls.__name__
    explicit_hash = cls.__dict__.get("__hash__", MISSING)
    has_own_hash = explicit_hash is not MISSING and not (explicit_hash is None and "__eq__" in cls.__dict__)
    cls = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
    own = set(cls.__dict__)
    later = ["__init__", *["__repr__"] * repr, *["__eq__"] * eq, *(_COMPARED if order else ())]
    for name in later:
        if name not in own:
            setattr(cls, name, _Later(cls, name, frozen))
    if eq and not has_own_hash:
        cls.__hash__ = _Later(cls, "__hash__", frozen) if frozen else None
    if frozen:
        _freeze(cls, slots)
    return cls


class _Later:
    """Placeholder of a dataclass method: its first use makes the method, which then replaces it."""

    def __init__(self, cls: Any, name: str, frozen: bool) -> None:
        self._cls, self._name, self._frozen = cls, name, frozen

    def __get__(self, instance: object | None, owner: type) -> Any:
        if self._name == "__init__":
            method = _init(self._cls, self._frozen)
        else:
            every = [(field.name, field.type, field) for field in fields(self._cls)]
            options: dict[str, Any] = _NONE | _OPTIONS_BY_METHOD[self._name]
            method = getattr(dataclasses.make_dataclass("_", every, **options), self._name)
            method.__qualname__ = f"{self._cls.__qualname__}.{self._name}"
        setattr(self._cls, self._name, method)
        return method.__get__(instance, owner)


class _Factory:
    """The default value of a parameter whose field has a `default_factory`."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _init(cls: Any, frozen: bool) -> Any:
    """Compile `__init__`: it takes a value for each field, and sets fields even of a frozen object."""
    every = fields(cls)
    names: dict[str, Any] = {"__set": object.__setattr__, "__factory": _FACTORY}
    body = []
    for field in every:
        value = field.name if field.init else "__factory"
        if field.default_factory is not MISSING:
            names[f"__new_{field.name}"] = field.default_factory
            value = f"__new_{field.name}() if {value} is __factory else {value}"
        elif field.default is not MISSING:
            names[f"__as_{field.name}"] = field.default
            value = field.name if field.init else f"__as_{field.name}"
        elif not field.init:
            continue
        body.append(f"__set(self, {field.name!r}, {value})" if frozen else f"self.{field.name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    plain = [_parameter(field) for field in every if field.init and not field.kw_only]
    named = [_parameter(field) for field in every if field.init and field.kw_only]
    parameters = ", ".join(["self", *plain, *["*"] * bool(named), *named])
    exec(f"def __init__({parameters}):\n " + "\n ".join(body or ["pass"]), names)
    method = names["__init__"]
    method.__module__ = cls.__module__
    method.__qualname__ = f"{cls.__qualname__}.__init__"
    method.__annotations__ = {f.name: f.type for f in every if f.init} | {"return": None}
    return method


def _parameter(field: Field[Any]) -> str:
    if field.default_factory is not MISSING:
        return f"{field.name}=__factory"
    return field.name if field.default is MISSING else f"{field.name}=__as_{field.name}"


def _freeze(cls: Any, slots: bool) -> None:
    """Make a class refuse to set and delete attributes of its objects, and let pickle restore them."""
    names = frozenset(field.name for field in fields(cls))

    def __setattr__(self: Any, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    cls.__setattr__, cls.__delattr__ = __setattr__, __delattr__
    if slots and "__getstate__" not in cls.__dict__:
        cls.__getstate__, cls.__setstate__ = _state, _restore


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for field, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
