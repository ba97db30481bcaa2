"""`docs/configuration.md`, made from the code: `python -m support.configuration_page FILE`.

Keys, options and defaults come from the code. What is read by name alone, settings of Spark and variables of
the environment, is described here; a test compares the names and the defaults with those that the code reads.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
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
from tailbit.index.kinds.schemas import DEFINABLE
from tailbit.spark.source import OPTIONS
from tailbit.streaming import start
from tailbit.streaming.config.model import Application, Defaults, IndexEntry, TableEntry

ROOT = Path(__file__).parents[2]
FOLDERS = ("tailbit", "tables", "index", "checkpoints", "streaming")
JAVA = ROOT / "tailbit" / "spark" / "java" / "Settings.java"

_PAGE = """# Settings

Made by `make configuration-page` from the code; a test compares them, and fails for a setting that is
missing. Commands with examples are in [cli.md](cli.md), and methods with theirs in [python.md](python.md).

## An index of one table

Options of `tailbit run`, and the arguments of `tailbit.streaming.start` and the keys of a configuration that
do the same.

{options}

## Other commands

{commands}

## Arguments in Python

Those with a default, of functions and of methods of a table and of its answers.

{arguments}

## An application of many tables

Keys of the file of `tailbit run --config`, of which
[operations.md](operations.md#many-tables-in-one-application) tells. `[defaults]` has keys of `[[table]]` for
all tables. A variable overrides a key: `TAILBIT__APPLICATION__THREADS=8`, `TAILBIT__DEFAULTS__MAX_LAG=60s`,
`TAILBIT__TABLE__ORDERS__PAUSED=true` (by id).

{keys}

## Spark's own queries

Settings of a session: [spark.md](spark.md).

{spark}

## The data source

Options of `spark.read.format("tailbit")`: [guide.md](guide.md#in-the-tools-you-use). Others are options of
the store.

{source}

## Kinds of indexes

`OPTIONS (…)` of CREATE INDEX, and `--option` of `tailbit index create`: [indexes.md](indexes.md).

{kinds}

## Stores

`--storage-option`, `storage_options`, and `storage_options` of a configuration. A store's own options, such
as its endpoint: [object-stores.md](object-stores.md).

{stores}

## The environment

{variables}
"""

SPARK = {
    "enabled": ("true", "whether queries use the index; per session, also by SET"),
    "serve": (
        "files,counts,groups,rows",
        "what is served; a mode that there is none of, such as the former `positions`, is logged once",
    ),
    "tables": (
        "",
        "paths of tables, or of folders above them, by commas, as Spark takes them (`/data/t`, `file:/data`, "
        "`s3a://bucket/t`); empty: all",
    ),
    "budgetMs": (
        "0.7 of what Spark's own scan takes, at most 5000",
        "how long a query waits for one answer, and for the rows of all its scans",
    ),
    "mostShare": (
        "0.7",
        "the most of Spark's own time that rows may take, by estimate; 0: rows are left to Spark; above 1: "
        "what pays is not estimated for files either",
    ),
    "mostRows": ("1000", "the most rows that a plan holds in place of a scan"),
    "startMs": (
        "0",
        "how long the first query of a session started by settings waits for the helper; others never do",
    ),
    "knownMs": ("10000", "how long the indexed columns of a table are remembered"),
    "python": ("python3", "the Python that has tailbit"),
}
"""Default and effect of each setting `spark.tailbit.…`."""

SOURCE = {
    "path": "the table, as the argument of `load`",
    "where": "the condition in SQL; all rows without one",
    "version": "the version to read; the newest one of each query without it",
    "asOf": "the last version at this time",
    "index": "the place of the index; `_tailbit` below the table without it",
    "columns": "columns to read, by commas; all without it",
    "timeZone": "time zone of the condition; that of the session without it",
    "partitionTimeZone": "time zone of partition values that have none; `timeZone` without it",
    "now": "microseconds since 1970 that `now()` stands for",
}
"""Effect of each option of the data source."""

KIND_OPTIONS = {
    "counts": "whether rows are counted by value: `auto` leaves nearly distinct columns out",
    "keys": "whether the index holds the keys or hashes of them",
}
"""Effect of each option of an index; the first of its values is the default."""

STORES = {
    "allow_outside": ("false", "whether files outside of the root of the table are read"),
    "table_format": ("", "`delta`, `hudi` or `iceberg`, where the folder of the table holds several"),
    "metadata_file": (
        "",
        "the metadata file of an Iceberg table, relative to its root, in place of the current one",
    ),
    "catalog.": (
        "",
        "and a property of pyiceberg, such as `catalog.uri`: how the catalog of a table is reached",
    ),
    "timeout": ("30s", "limit of a request"),
    "connect_timeout": ("5s", "limit of making a connection"),
    "max_retries": ("8", "attempts after the first one"),
    "retry_timeout": ("30s", "limit of all attempts"),
    "allow_http": ("false", "whether a store may be reached without TLS"),
    "allow_invalid_certificates": ("false", "whether a certificate may be invalid"),
    "proxy_url": ("", "a proxy between here and the store"),
    "root_certificate": ("", "a root certificate that is trusted besides"),
}
"""Default and effect of the options of a store that are not the store's own."""

VARIABLES = {
    "TAILBIT_MEMORY": ("1GiB", "limit of all caches of a process, such as `256MB`"),
    "TAILBIT_ALLOW_OUTSIDE": ("false", "stands for `allow_outside` where that is not given"),
    "STATE_DIRECTORY": ("", "where states and checkpoints are kept; systemd sets it"),
    "XDG_CACHE_HOME": ("~/.cache", "where they are kept without `STATE_DIRECTORY`, in its folder `tailbit`"),
    "JAVA_HOME": ("", "the Java that is started; the one of `PATH` without it"),
    "PYSPARK_PYTHON": ("", "the Python of Spark's workers; the one that runs without it"),
    "SPARK_HOME": ("", "Spark's own: another Spark than that of pyspark; `tailbit doctor` compares them"),
    "SPARK_LOCAL_DIRS": ("", "Spark's own: scratch files of indexing go to the first of these folders"),
    "SPARK_LOCAL_IP": ("", "Spark's own: the address of the driver, in place of the one that tailbit finds"),
    "SPARK_EXECUTOR_INSTANCES": ("", "Spark's own: named where a job waits for executors"),
    "SPARK_LAUNCHER_OPTS": ("", "options of the Java that builds Spark's command; small ones without it"),
    "SPARK_SUBMIT_OPTS": (
        "",
        "options of Spark's Java; a collector that they choose is left, as in the three below",
    ),
    "JAVA_TOOL_OPTIONS": ("", "options of every Java"),
    "JDK_JAVA_OPTIONS": ("", "options of every `java` command"),
    "_JAVA_OPTIONS": ("", "options of every Java, which override others"),
    "MALLOC_ARENA_MAX": ("2", "arenas of the C library, in processes that index"),
    "ARROW_DEFAULT_MEMORY_POOL": ("system", "allocator of Arrow, in processes that index"),
    "_RJEM_MALLOC_CONF": (
        "freed memory is returned at once",
        "allocator of delta-rs, in processes that index",
    ),
    "OPENBLAS_NUM_THREADS": ("1", "threads of numpy's linear algebra, which commands do not need"),
    "OPENBLAS_THREAD_TIMEOUT": ("16", "how long such threads wait for work while numpy is loaded"),
    "NOTIFY_SOCKET": ("", "set by systemd: where `run` says that it is ready and alive"),
    "WATCHDOG_USEC": ("", "set by systemd: how often it has to"),
    "AWS_…, AZURE_…, GOOGLE_…, GCP_…, GCS_…": ("", "options of stores: [object-stores.md](object-stores.md)"),
    "TAILBIT__…": ("", "keys of a configuration, [as above](#an-application-of-many-tables)"),
}
"""Default and effect of each variable of the environment."""

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
    described = ("default", "effect")
    return _PAGE.format(
        options=_table(("option", "argument", "key", *described), _options()),
        commands=_table(("option", "commands", *described), _of_commands()),
        arguments=_table(("argument", "of", *described), _of_python()),
        keys=_table(("section", "key", *described), _keys()),
        spark=_table(("setting", *described), _described(SPARK, "spark.tailbit.")),
        source=_table(("option", "effect"), [(f"`{name}`", SOURCE[name]) for name in OPTIONS]),
        kinds=_table(("kind", "option", "values, the default first", "effect"), _of_kinds()),
        stores=_table(("option", *described), _described(STORES)),
        variables=_table(("variable", *described), _described(VARIABLES)),
    )


def _described(settings: Mapping[str, tuple[str, str]], prefix: str = "") -> Iterator[tuple[str, ...]]:
    return ((f"`{prefix}{name}`", *_said(said)) for name, said in settings.items())


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


def _of_kinds() -> Iterator[tuple[str, ...]]:
    for kind, rules in DEFINABLE.items():
        for option, choices in rules.options.items():
            yield (
                f"`{kind}`",
                f"`{option}`",
                ", ".join(f"`{choice}`" for choice in choices),
                KIND_OPTIONS[option],
            )


def read_variables() -> set[str]:
    """Return the variables of the environment that the code reads or sets, by name."""
    trees = [
        ast.parse(path.read_text("utf-8")) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")
    ]
    return {name for tree in trees for name in _variables(tree)}


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
