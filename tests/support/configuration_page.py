"""`docs/configuration.md`, made from the code: `python -m support.configuration_page FILE`.

Options, arguments and keys come from the code with their defaults. What is read by name alone, settings of
Spark and variables of the environment, is described on the page itself; a test compares the names and the
defaults with those that the code reads.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel

import tailbit.spark
from support.cli_page import commands
from support.docstrings import escaped
from tailbit.answer import Answer
from tailbit.api import IndexedTable, open_indexed
from tailbit.cli.running import run
from tailbit.streaming import start
from tailbit.streaming.config.model import Application, Defaults, IndexEntry, TableEntry

ROOT = Path(__file__).parents[2]
FOLDERS = ("tailbit", "tables", "index", "checkpoints", "streaming")
JAVA = ROOT / "tailbit" / "spark" / "java" / "Settings.java"
PAGE = ROOT / "docs" / "configuration.md"

ARGUMENTS = {
    "application": "id and number of a transaction of the application, which is done once; Delta keeps both",
    "as_of": "the last version at this time",
    "at_least": "a version that the index must cover; else questions are refused",
    "checkpoint": "the folder of Spark's checkpoint; by default in that of the index",
    "columns": "names, as in `read`",
    "dry_run": "whether nothing is changed, and what would be is told",
    "index": "the path or URI of the index; by default `_tailbit` below the table",
    "limit": "at most so few rows; all by default",
    "max_staleness": "seconds that the index may be behind, else it is refused; by default any",
    "offset": "rows that are left out before the first",
    "on": "the key columns; by default all of the keys'",
    "order_by": "as in `read`",
    "params": "values of `?` or `:name` in the condition, never read as SQL",
    "set": "the columns that are updated, or by column an expression in SQL; by default all",
    "since": "an older version: what became of each row since then is told too",
    "spark": "the session; by default the one at work",
    "storage_options": "options of the stores of table and index, named as in delta-rs",
    "version": "the version that is read; by default the newest",
    "wait": "seconds for which the index is waited for",
    "where": "a condition in SQL, or of `tailbit.col`; all rows without one",
    "zone": "the session's time zone",
}
"""What arguments do of which a docstring speaks in other words."""


BETWEEN_PROCESSES = {
    "PYSPARK_GATEWAY_PORT",
    "SPARK_HIDE_TRACEBACK",
    "TAILBIT_FAULT",
    "WATCHDOG_PID",
}
"""Variables that nobody sets by hand: of Spark's launcher, of systemd, and of tests."""


def page() -> str:
    """Return the page with its tables of options, arguments and keys as the code has them."""
    described = ("default", "effect")
    text = PAGE.read_text("utf-8")
    for heading, table in {
        "An index of one table": _table(("option", "argument", "key", *described), _options()),
        "Other commands": _table(("option", "commands", *described), _of_commands()),
        "Arguments in Python": _table(("argument", "of", *described), _of_python()),
        "An application of many tables": _table(("section", "key", *described), _keys()),
    }.items():
        before, _, rest = text.partition(f"## {heading}\n")
        section, found, after = rest.partition("\n## ")
        text = f"{before}## {heading}\n{section.partition('| ')[0]}{table}\n{found}{after}"
    return text


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def _said(said: tuple[str, str]) -> tuple[str, str]:
    default, effect = said
    return f"`{default}`" if default and " " not in default else default, effect


def _options() -> Iterator[tuple[str, ...]]:
    """Yield the options of `run` in its order; columns for what does the same elsewhere."""
    arguments = inspect.signature(start).parameters
    for parameter, said in _of_command(run):
        name = _OTHERWISE.get(str(parameter.name), str(parameter.name))
        keys = [
            f"`[{section}]` `{name}`" for section, model in _SECTIONS.items() if name in model.model_fields
        ]
        same = f"`{name}`" if name in arguments else ""
        yield f"`{parameter.opts[0]}`", same, keys[0] if keys else "", *said


def _of_command(command: click.Command) -> Iterator[tuple[click.Option, tuple[str, str]]]:
    """Yield the options of a command, each with its default and its effect."""
    context = click.Context(command)
    for parameter in command.params:
        if not isinstance(parameter, click.Option) or "--help" in parameter.opts:
            continue
        if record := parameter.get_help_record(context):
            effect, _, default = record[1].rpartition("  [default: ")
            effect, default = (effect, default.removesuffix("]").strip("()")) if effect else (record[1], "")
            yield parameter, _said((default, escaped(" ".join(effect.split()))))


def _of_commands() -> Iterator[tuple[str, ...]]:
    """Yield the options of all commands but `run`; those that say the same have one line."""
    lines: dict[tuple[str, tuple[str, str]], list[str]] = {}
    for name, command in commands().items():
        for parameter, said in _of_command(command) if command is not run else ():
            lines.setdefault((parameter.opts[0], said), []).append(f"`{name}`")
    for (option, said), names in sorted(lines.items()):
        yield f"`{option}`", ", ".join(names), *said


def _of_python() -> Iterator[tuple[str, ...]]:
    """Yield the arguments with a default that Python takes, and what a docstring says of each."""
    functions = [("tailbit.open", open_indexed), ("tailbit.streaming.start", start)]
    functions += [(f"tailbit.spark.{name}", function) for name, function in vars(tailbit.spark).items()]
    for cls in (IndexedTable, Answer):
        functions += [(f"{cls.__name__}.{name}", method) for name, method in vars(cls).items()]
    lines: dict[tuple[str, str, str], list[str]] = {}
    for name, function in functions:
        if not inspect.isfunction(function) or function.__name__.startswith("_"):
            continue
        effects = effects_of(function)
        for argument, parameter in inspect.signature(function).parameters.items():
            if parameter.default is not inspect.Parameter.empty:
                default = "" if parameter.default in (None, ()) else f"`{parameter.default!r}`"
                effect = re.split(r"\. [A-Z]|\. >>>", effects.get(argument, ARGUMENTS.get(argument, "")))[0]
                lines.setdefault((argument, default, escaped(effect)), []).append(f"`{name}`")
    for (argument, default, effect), names in sorted(lines.items()):
        yield f"`{argument}`", ", ".join(names), default, effect


_OTHERWISE = {"storage_option": "storage_options"}
"""Options that have another name in Python and in a file."""

_SECTIONS: dict[str, type[BaseModel]] = {
    "application": Application,
    "defaults": Defaults,
    "[table]": TableEntry,
    "[table.indexes]": IndexEntry,
}


def _keys() -> Iterator[tuple[str, ...]]:
    for section, model in _SECTIONS.items():
        effects = effects_of(model)
        for name, field in model.model_fields.items():
            if model is TableEntry and name in Defaults.model_fields:
                continue
            kind = model.__annotations__[name]
            default = "" if field.is_required() else _default(kind, field.default)
            yield f"`[{section}]`", f"`{name}`", default, effects[name]


def effects_of(described: Any) -> dict[str, str]:
    """Return what a docstring says of each key or argument: "`key`: what it does"."""
    text = " ".join(inspect.cleandoc(described.__doc__ or "").split())
    return dict(re.findall(r"`(\w+)`: (.*?)\.?(?= `\w+`: |$)", text))


def _default(kind: str, value: Any) -> str:
    """Return a default as it is written in the file; empty where there is none."""
    if value in (None, "", (), {}):
        return ""
    if "Seconds" in kind:
        return f"`{value * 1000:g}ms`" if value < 1 else f"`{value:g}s`"
    if "Bytes" in kind:
        return f"`{value >> 30}GiB`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def read_variables() -> set[str]:
    """Return the variables of the environment that the code reads or sets, by name."""
    texts = (path.read_text("utf-8") for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    return {name for text in texts if "environ" in text for name in _variables(ast.parse(text))}


def _variables(tree: ast.Module) -> Iterator[str]:
    texts: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target, value in _pairs(node):
                found = [part.value for part in ast.walk(value) if isinstance(part, ast.Constant)]
                texts[target] = [text for text in found if isinstance(text, str)]
        elif isinstance(node, (ast.comprehension, ast.For)) and isinstance(node.target, ast.Name):
            texts[node.target.id] = texts.get(ast.unparse(node.iter), [])
    for node in ast.walk(tree):
        key: ast.expr | None = None
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and _is_environment(node.func.value)
        ):
            key = node.args[0] if node.args else None
        elif isinstance(node, ast.Subscript) and _is_environment(node.value):
            key = node.slice
        elif isinstance(node, ast.Compare) and _is_environment(node.comparators[0]):
            key = node.left
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value
        elif isinstance(key, ast.Name):
            yield from texts.get(key.id, [])


def _pairs(node: ast.Assign) -> Iterator[tuple[str, ast.expr]]:
    for target in node.targets:
        if isinstance(target, ast.Name):
            yield target.id, node.value
        elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from (
                (ast.unparse(name), value) for name, value in zip(target.elts, node.value.elts, strict=False)
            )


def _is_environment(node: ast.expr) -> bool:
    return ast.unparse(node) in ("os.environ", "environment")


def read_settings() -> dict[str, str]:
    """Return the settings of Spark that Java reads, by name, with the default where that is a constant."""
    found = re.findall(r'\b(?:text|number|list)\("(\w+)", (.*?)\)', JAVA.read_text("utf-8"))
    return {name: default.strip('"').replace("_", "") for name, default in found}


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
