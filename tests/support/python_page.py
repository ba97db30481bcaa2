"""`docs/python.md`, made from the docstrings of the front door: `python -m support.python_page FILE`."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tailbit
import tailbit.base.errors
import tailbit.errors
import tailbit.spark
import tailbit.streaming
import tailbit.upkeep.statements
from support.docstrings import first_sentence, markdown, signature
from tailbit.answer import Answer
from tailbit.api import IndexedTable, open_indexed
from tailbit.arguments.conditions import Condition, call, col
from tailbit.spark.acceleration import Acceleration
from tailbit.streaming.job import failure_of

_HEAD = """# Python

Made by `make python-page` from the docstrings of the code; a test compares them, and runs their examples
on a table of eight flights, "flights", whose column `carrier` is indexed. How to use it by example:
[guide.md](guide.md).

Whoever asks needs `tailbit` alone; what stands under [Spark](#spark) needs `tailbit[spark]`.
"""


def page() -> str:
    parts = [
        _HEAD,
        _of_function("tailbit.open", open_indexed, level="##"),
        _of_function("tailbit.sql", tailbit.upkeep.statements.sql),
        *_of_class("A table: `IndexedTable`", "table", IndexedTable),
        *_of_class("An answer: `Answer`", "answer", Answer),
        "## Conditions in Python\n\n" + markdown(inspect.getmodule(Condition).__doc__),
        _of_function("tailbit.col", col),
        _of_function("tailbit.call", call),
        *_of_class("A condition: `Condition`", "condition", Condition),
        "## Spark\n\nA session of your own keeps an index, or asks it.",
        _of_function("tailbit.streaming.start", tailbit.streaming.start),
        _of_function("tailbit.streaming.job.failure_of", failure_of),
        _of_function("tailbit.spark.open", tailbit.spark.open),
        _of_function("tailbit.spark.register", tailbit.spark.register),
        _of_function("tailbit.spark.sql", tailbit.spark.sql),
        _of_function("tailbit.spark.locate", tailbit.spark.locate),
        _of_function("tailbit.spark.delete", tailbit.spark.delete),
        _of_function("tailbit.spark.upsert", tailbit.spark.upsert),
        _of_function("tailbit.spark.accelerate", tailbit.spark.accelerate),
        _of_function("tailbit.spark.report", tailbit.spark.report),
        _of_function("tailbit.spark.acceleration_conf", tailbit.spark.acceleration_conf),
        *_of_class("An accelerated session: `Acceleration`", "acceleration", Acceleration),
        "## Values that methods give\n\nEach is a frozen value; its fields are read by name.",
        *map(_of_value, sorted(values(), key=lambda value: value.__name__)),
        _errors(),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _of_function(name: str, function: Any, level: str = "###") -> str:
    code = f"```python\n{signature(name, function)}\n```"
    return f"{level} `{name}`\n\n{code}\n\n{markdown(function.__doc__)}"


def _of_class(title: str, variable: str, cls: type) -> Iterator[str]:
    """Yield the class, its properties as a table, and each public method."""
    yield f"## {title}\n\n{markdown(cls.__doc__)}"
    public = dict(_public(cls))
    properties = {name: value for name, value in public.items() if isinstance(value, property)}
    if properties:
        rows = [f"| `{variable}.{name}` | {_cell(value.__doc__)} |" for name, value in properties.items()]
        yield "\n".join(["| attribute | what it is |", "|---|---|", *rows])
    for name, value in public.items():
        if name not in properties:
            yield _of_function(f"{variable}.{name}", value)


def _public(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the public properties and methods, those of the class before those that it inherits."""
    seen: set[str] = set()
    for owner in cls.__mro__[:-1]:
        for name, value in vars(owner).items():
            method = inspect.isfunction(value) or isinstance(value, property)
            if method and name not in seen and (not name.startswith("_") or name == "__len__"):
                seen.add(name)
                yield name, value


def _cell(text: str | None) -> str:
    return first_sentence(text).replace("|", "\\|")


def values() -> set[type]:
    """Return our own classes that public methods name as what they return, and those of their fields."""
    doors = (IndexedTable, Answer, Acceleration)
    methods = [method for door in doors for _, method in _public(door) if inspect.isfunction(method)]
    found: set[type] = set()
    waiting = [(method.__module__, str(method.__annotations__.get("return"))) for method in methods]
    while waiting:
        module, annotation = waiting.pop()
        for cls in filter(
            None, (_named(module, name) for name in re.findall(r"(?<![\w.])[A-Z]\w+", annotation))
        ):
            if cls not in found and cls not in doors and not issubclass(cls, Exception):
                found.add(cls)
                waiting += [(cls.__module__, type_) for type_ in _fields(cls).values()]
    return found


def _named(module: str, name: str) -> type | None:
    """Return the class that a module means by a name, which it may import for its types alone."""
    file = inspect.getfile(importlib.import_module(module))
    home = module
    for node in ast.walk(ast.parse(Path(file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]:
            home = str(node.module)
    cls = getattr(importlib.import_module(home), name, None) if home.startswith("tailbit") else None
    return cls if isinstance(cls, type) and "__annotations__" in vars(cls) else None


def _fields(cls: type) -> dict[str, str]:
    """Return the public fields of a value and their types as they are written."""
    public = {name: type_ for name, type_ in cls.__annotations__.items() if name[0] != "_"}
    return {name: getattr(type_, "__forward_arg__", str(type_)) for name, type_ in public.items()}


def _of_value(cls: type) -> str:
    fields = [f"    {name}: {type_}" for name, type_ in _fields(cls).items()]
    code = "\n".join(["```python", f"class {cls.__name__}:", *fields, "```"])
    return f"### `{cls.__name__}`\n\n{code}\n\n{markdown(cls.__doc__)}"


def _errors() -> str:
    """Return the table of the errors, each with its own hint where it has one."""
    lines = ["## Errors", "", markdown(tailbit.base.errors.__doc__), ""]
    lines += ["| error | when | retry helps |", "|---|---|---|"]
    for name, cls in vars(tailbit.errors).items():
        if inspect.isclass(cls) and issubclass(cls, tailbit.errors.TailbitError) and name[0] != "_":
            lines.append(f"| `{name}` | {_cell(cls.__doc__)} | {'yes' if cls.retryable else 'no'} |")
    return "\n".join(lines)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
