"""Our dataclasses mean what Python's own mean, whatever is asked of them."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from itertools import product
from typing import Any, ClassVar

import pytest

from tailbit.base.dataclass import dataclass

OPTIONS = [
    dict(zip(("frozen", "eq", "order", "repr", "slots"), chosen, strict=True))
    for chosen in product((False, True), repeat=5)
    if chosen[1] or not chosen[2]
]
"""Every choice of options; an order needs equality."""


def columns(make: Callable[..., Any], options: dict[str, bool]) -> type:
    """Return a dataclass with a field of every sort."""

    class Column:
        name: str
        size: int = 4
        kinds: list[str] = field(default_factory=list, compare=False)
        hidden: int = field(default=0, repr=False)
        label: str = field(init=False, compare=False)
        known: dict[str, int] = field(init=False, default_factory=dict, compare=False)
        type: str = field(kw_only=True, default="int")
        most: ClassVar[int] = 9

        def __post_init__(self) -> None:
            object.__setattr__(self, "label", f"{self.name}: {self.type}")

    return make(**options)(Column)  # type: ignore[no-any-return]


def outcome(ask: Callable[[], object]) -> object:
    """Return what a call returns, or the error that it raises, as text."""
    try:
        return repr(ask())
    except (TypeError, ValueError, AttributeError) as refused:
        return type(refused).__name__


def asked(make: Callable[..., Any], options: dict[str, bool]) -> list[object]:
    """Return what an object and its class do when each thing is done that can be done with them."""
    cls = columns(make, options)
    signature = str(inspect.signature(cls))
    one, two, three = cls("a"), cls("a", kinds=["x"], type="long"), cls(name="b", size=1)
    named = options["repr"]
    questions: list[Callable[[], object]] = [
        lambda: signature,
        lambda: named and (one, two, three),
        lambda: (one == two, one == three, one != three, one == "a"),
        lambda: one < three,
        lambda: sorted([three, one, two], key=lambda each: each.name)[0].name,
        lambda: three >= one,
        lambda: (hash(one) == hash(cls("a")), hash(one) == hash(three), hash(one) == hash(one)),
        lambda: setattr(one, "size", 5),
        # Python 3.11 raises a TypeError of its own making where a frozen class has slots.
        lambda: (options["frozen"] and options["slots"]) or setattr(one, "other", 5),
        lambda: delattr(three, "size"),
        lambda: one.size,
        lambda: replace(two, size=7).size,
        lambda: replace(two, label="x"),
        lambda: asdict(two),
        lambda: (copy.copy(two).label, copy.deepcopy(two).kinds),
        lambda: cls(),
        lambda: cls("a", 1, [], 2, "long"),
        lambda: cls("a", label="x"),
        lambda: (cls.__match_args__, cls.most, [f.name for f in fields(cls)]),
        lambda: cls.__init__.__qualname__,
        lambda: cls.__init__.__annotations__,
        lambda: (cls.__hash__ is None, "__eq__" in vars(cls), "__lt__" in vars(cls), "__repr__" in vars(cls)),
        lambda: hasattr(one, "__dict__"),
    ]
    return [outcome(question) for question in questions]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_each_option_means_what_it_means_in_python(options: dict[str, bool]) -> None:
    assert asked(dataclass, options) == asked(dataclasses.dataclass, options)


@dataclass(frozen=True, slots=True)
class Slotted:
    """A frozen class with slots, which pickle finds by its name."""

    path: str
    size: int = 3


@dataclass(frozen=True)
class Plain:
    path: str


def test_frozen_objects_come_through_pickle() -> None:
    for original in (Slotted("a"), Plain("b")):
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            assert pickle.loads(pickle.dumps(original, protocol)) == original


def test_a_class_may_add_fields_to_another_and_keep_its_own_methods() -> None:
    @dataclass(frozen=True)
    class Longer(Plain):
        size: int = 2

        def __repr__(self) -> str:
            return f"<{self.path}>"

        def __hash__(self) -> int:
            return 7

    longer = Longer("x")
    assert (repr(longer), hash(longer), longer.size) == ("<x>", 7, 2)
    assert longer == Longer("x", 2) != Longer("x", 3)
    assert longer != Plain("x")
    assert repr(Plain("x")) == "Plain(path='x')"


def test_a_subclass_that_is_no_dataclass_may_set_what_is_no_field() -> None:
    class Open(Plain):
        more: int

    opened = Open("x")
    opened.more = 5
    with pytest.raises(FrozenInstanceError):
        opened.path = "y"
    assert opened.more == 5


def test_no_method_is_compiled_before_its_first_use() -> None:
    @dataclass(frozen=True)
    class Unused:
        path: str

    names = ("__init__", "__repr__", "__eq__", "__hash__")
    assert not any(inspect.isfunction(vars(Unused)[name]) for name in names)
    Unused("x")
    assert [inspect.isfunction(vars(Unused)[name]) for name in names] == [True, False, False, False]
