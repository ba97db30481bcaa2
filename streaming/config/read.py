"""A configuration is read and checked as a whole, before anything is opened or started.

The environment sets values over those of the file, and the file's texts name variables:
`TAILBIT__APPLICATION__THREADS=8`, `TAILBIT__DEFAULTS__MAX_LAG=60s` and `TAILBIT__TABLE__ORDERS__PAUSED=true`
set a value; `${AWS_SECRET_ACCESS_KEY}` in a text of the file stands for a variable's value. All problems are
told at once, each with file and line. `tomllib` does not report lines: they are joined until it can parse
them as one statement, so that strings and lists of several lines need no grammar of their own.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import ConfigError
from tailbit.base.wording import did_you_mean
from tailbit.index.store.place import index_path
from tailbit.streaming.config.model import Application, Config, Defaults, IndexEntry, TableEntry, id_of
from tailbit.streaming.watch.thread_pool import run_each
from tailbit.tables.storage import local_name, may_be_secret

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Place = tuple[str | int, ...]
"""Keys and positions in lists that lead to a value, such as ("table", 1, "columns")."""


NotToml = tomllib.TOMLDecodeError
"""The error for a text that is no TOML; its message names line and column."""


def parsed(text: str) -> dict[str, Any]:
    """Return the document of a TOML text."""
    document: dict[str, Any] = tomllib.loads(text)
    return document


def lines_of(text: str) -> dict[Place, int]:
    """Return the line, from 1, of each key of a TOML text that parses, and of each header."""
    lines: dict[Place, int] = {}
    heads: dict[Place, int] = {}
    under: Place = ()
    for number, statement in _statements(text):
        document = tomllib.loads(statement)
        if statement.lstrip().startswith("["):
            under = _header(document, heads)
            lines.setdefault(under, number)
        else:
            for place in _places(document):
                lines.setdefault(under + place, number)
            for place, line in _elements(statement, document):
                lines[under + place] = number + line
    return lines


def line_of(lines: Mapping[Place, int], place: Place) -> int:
    """Return the line of a place, or of the nearest place above it that has a line; 1 if there is none."""
    for length in range(len(place), -1, -1):
        if place[:length] in lines:
            return lines[place[:length]]
    return 1


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield each header and each key with its value, with the number of its first line."""
    statement_lines: list[str] = []
    # TOML ends lines by these alone; a text may hold other characters at which `splitlines` splits.
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if not statement_lines and line.strip()[:1] in ("", "#"):
            continue
        statement_lines.append(line)
        statement = "\n".join(statement_lines)
        try:
            tomllib.loads(statement)
        except NotToml:
            continue
        yield number - len(statement_lines) + 1, statement
        statement_lines = []


def _elements(statement: str, document: dict[str, Any]) -> Iterator[tuple[Place, int]]:
    """Yield the place of each element of a list of several lines, and its first line within the statement."""
    (key, value), *others = document.items()
    before, _, rest = statement.partition("[")
    if others or not isinstance(value, list) or "\n" not in statement or before.count("=") != 1:
        return
    begun: list[str] = []
    element = first = 0
    for number, line in enumerate(rest.split("\n")):
        begun.append(line)
        for end in ("]", ""):
            try:
                count = len(tomllib.loads("x = [" + "\n".join(begun) + "\n" + end)["x"])
            except (NotToml, KeyError):
                continue
            yield from (((key, element + n), first) for n in range(count))
            element, first, begun = element + count, number + 1, []
            break


def _header(document: Any, heads: dict[Place, int]) -> Place:
    """Return the place of a header; `heads` counts the elements of each list of tables so far."""
    place: Place = ()
    value = document
    while value:
        ((name, value),) = value.items()
        place = (*place, name)
        if isinstance(value, list):
            heads[place] = heads.get(place, -1) + 1
            (value,) = value
        if place in heads:
            place = (*place, heads[place])
    return place


def _places(value: Any, place: Place = ()) -> Iterator[Place]:
    """Yield the place of each key in the value of a statement."""
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, inner in entries:
        yield (*place, key)
        yield from _places(inner, (*place, key))


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One problem or warning: where it is, and what was found. `line`: from 1; 0 for no line of the file."""

    line: int
    found: str
    place: str = field(compare=False)

    def __str__(self) -> str:
        where = f"{self.place}:{self.line}" if self.line else self.place
        return f"{where}: {self.found}"


@dataclass
class Problems:
    """The problems and the warnings that were met so far in one file."""

    file: str
    lines: Mapping[Place, int] = field(default_factory=dict)
    errors: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def line(self, place: Place) -> int:
        """Return the line of a place, or of the nearest place above it."""
        return line_of(self.lines, place)

    def add(self, place: Place, problem: str) -> None:
        """Note an error at the line of a place."""
        self.errors.append(Problem(self.line(place), problem, self.file))

    def add_of_variable(self, variable: str, problem: str) -> None:
        """Note an error of a variable of the environment."""
        self.errors.append(Problem(0, problem, f"environment variable {variable}"))

    def warn(self, place: Place, problem: str) -> None:
        """Note a warning at the line of a place."""
        self.warnings.append(Problem(self.line(place), problem, self.file))

    def refuse(self) -> None:
        """Raise if there is an error."""
        if self.errors:
            raise refusal(self.errors)


def refusal(errors: Iterable[Problem]) -> ConfigError:
    """Return the error that names every problem, in the order of the lines."""
    return ConfigError(problems="\n".join(dict.fromkeys(map(str, sorted(errors)))))


PREFIX = "TAILBIT__"
_OPTIONS = ("storage_options", "spark", "options")
"""Sections whose keys belong to stores, to Spark or to indexes, so that the case of these keys is kept."""

_NAMED = re.compile(r"\$\{(\w+)\}")
_UNIQUE_SECTIONS = ("application", "defaults")


def is_named(value: object) -> bool:
    """Return whether a text is one variable of the environment, so that the file does not hold its value."""
    return isinstance(value, str) and _NAMED.fullmatch(value) is not None


def expanded(document: Any, environment: Mapping[str, str], problems: Problems, place: Place = ()) -> Any:
    """Return a document with each `${NAME}` in its texts replaced by the environment variable NAME.

    A variable that is not set is added to `problems`, and its `${NAME}` stays. `place`: keys that lead to
    `document` in the configuration.
    """
    if isinstance(document, dict):
        return {key: expanded(v, environment, problems, (*place, key)) for key, v in document.items()}
    if isinstance(document, list):
        return [expanded(v, environment, problems, (*place, n)) for n, v in enumerate(document)]
    if not isinstance(document, str):
        return document
    for name in _NAMED.findall(document):
        if name not in environment:
            problems.add(place, f"the environment variable {name} is not set")
    return _NAMED.sub(lambda match: environment.get(match[1], match[0]), document)


def override(
    document: dict[str, Any], environment: Mapping[str, str], problems: Problems
) -> dict[Place, str]:
    """Set the values of `TAILBIT__...` variables in a document; return the variable for each place set.

    A variable that leads to no section, table or key is added to `problems`.
    """
    variables: dict[Place, str] = {}
    for variable in sorted(environment):
        if not variable.startswith(PREFIX):
            continue
        place = _place(variable.removeprefix(PREFIX).split("__"), document)
        if place is None:
            problems.add_of_variable(variable, "there is no such section, table or key")
            continue
        section: Any = document
        for key in place[:-1]:
            if isinstance(section, dict):
                section = section.setdefault(key, {})
            elif isinstance(section, list) and isinstance(key, int):
                section = section[key]
        if isinstance(section, dict):
            section[place[-1]] = environment[variable]
            variables[place] = variable
    return variables


def _place(words: list[str], document: Mapping[str, Any]) -> Place | None:
    """Return the place that the words of a variable lead to: section, perhaps a table, key."""
    head, *rest = words
    if head.lower() in _UNIQUE_SECTIONS:
        return _key((head.lower(),), rest)
    if head.lower() != "table" or not rest:
        return None
    for length in range(1, len(rest)):
        # An id may have `__` itself.
        named = "__".join(rest[:length]).upper()
        numbers = [n for n, id_ in _ids(document) if _as_variable(id_) == named]
        place = _key(("table", numbers[0]), rest[length:]) if len(numbers) == 1 else None
        if place is not None:
            return place
    return None


def _key(section: Place, words: list[str]) -> Place | None:
    if len(words) == 1 and words[0]:
        return (*section, words[0].lower())
    if len(words) == 2 and words[0].lower() in _OPTIONS:
        return (*section, words[0].lower(), words[1])
    return None


def _ids(document: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Yield number and id of each table that has an id."""
    tables = document.get("table")
    for number, entry in enumerate(tables if isinstance(tables, list) else ()):
        id_ = id_of(entry) if isinstance(entry, dict) else None
        if id_ is not None:
            yield number, str(id_)


def _as_variable(id_: str) -> str:
    return re.sub(r"\W", "_", id_).upper()


_SECTIONS: Mapping[str, Any] = {
    "application": Application,
    "defaults": Defaults,
    "table": TableEntry,
    "indexes": IndexEntry,
}


_OPEN_SECTIONS = {"storage_options", "spark"}
"""Sections whose keys belong to stores and to Spark, and whose values may be secrets."""


_TOGETHER, _LOOK_S = 32, 5.0
"""Number of paths whose links are followed together, and most seconds for one: a mount may not answer."""


@dataclass(frozen=True)
class ReadConfig:
    """A valid configuration, with the lines of its file for reports of problems with its tables.

    `problems`: has the lines of the file, and the warnings.
    """

    config: Config
    problems: Problems

    def place_of(self, table: TableEntry, *keys: str | int) -> Place:
        """Return the place of a table in the file, or of a key of the table."""
        number = next(n for n, entry in enumerate(self.config.table) if entry.id == table.id)
        return ("table", number, *keys)

    def line_of(self, table: TableEntry, *keys: str | int) -> str:
        """Return file and line of a table, or of a key of the table, for people."""
        return f"{self.problems.file}:{self.problems.line(self.place_of(table, *keys))}"


def read_config(file: str | os.PathLike[str], environment: Mapping[str, str] = os.environ) -> ReadConfig:
    """Read and check a configuration."""
    path = os.fspath(file)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as refused:
        reason = os.strerror(refused.errno or 0)
        raise refusal([Problem(0, f"the configuration cannot be read: {reason}", path)]) from refused
    except UnicodeDecodeError as wrong:
        raise refusal([Problem(0, "the configuration is no text in UTF-8", path)]) from wrong
    return checked(text, path, environment)


def checked(text: str, file: str, environment: Mapping[str, str]) -> ReadConfig:
    """Return the configuration of a TOML text, as `read_config` does. `file`: its name in messages."""
    try:
        document = parsed(text)
    except NotToml as wrong:
        raise _no_toml(str(wrong), file, text) from wrong
    problems = Problems(file, lines_of(text))
    _warn_of_secrets(document, problems)
    document = expanded(document, environment, problems)
    variables = override(document, environment, problems)
    config = _validated(document, problems, variables)
    if config is not None:
        _check_between(config, problems, os.path.dirname(os.path.abspath(file)))
        _check_statements(config, problems, os.path.dirname(os.path.abspath(file)))
    problems.refuse()
    assert config is not None
    return ReadConfig(_with_whole_paths(config, os.path.dirname(os.path.abspath(file))), problems)


def _no_toml(message: str, file: str, text: str) -> ConfigError:
    """Return the error for a text that is no TOML, with the line that the parser names."""
    said, _, place = message.rpartition(" (at ")
    number = place.removeprefix("line ").partition(",")[0]
    line = int(number) if number.isdecimal() else max(1, len(text.splitlines()))
    return refusal([Problem(line, f"no TOML: {(said or message).lower()}", file)])


def _warn_of_secrets(document: Any, problems: Problems, place: Place = ()) -> None:
    """Warn of values that may be secrets and stand in the file itself."""
    entries = dict(enumerate(document)) if isinstance(document, list) else document
    for key, value in entries.items():
        here = (*place, key)
        if isinstance(value, (dict, list)):
            _warn_of_secrets(value, problems, here)
        elif _OPEN_SECTIONS & set(place) and _may_be_secret(str(key)) and not is_named(value):
            variable = _as_variable(str(key))
            problems.warn(
                here,
                f"the value of {key} stands in the file, where others may read it: "
                f'write {key} = "${{{variable}}}", and set that variable of the environment',
            )


def _may_be_secret(key: str) -> bool:
    """Return whether a value may be a secret; the class that provides credentials is none."""
    return may_be_secret(key) and not key.lower().endswith("provider")


def _validated(document: dict[str, Any], problems: Problems, variables: Mapping[Place, str]) -> Config | None:
    """Return the configuration, with the defaults merged into its tables; None if a value is not valid.

    Each value that is not valid is added to `problems`.
    """
    defaults, tables = document.get("defaults"), document.get("table")
    merged = dict(document)
    if isinstance(defaults, dict) and isinstance(tables, list):
        merged["table"] = [_merged(defaults, t) if isinstance(t, dict) else t for t in tables]
    try:
        return Config.model_validate(merged)
    except ValidationError as wrong:
        for error in wrong.errors(include_url=False):
            place = tuple(error["loc"])
            if place[:1] == ("table",) and _is_inherited(place, document):
                # Told once, where the default stands.
                place = ("defaults", *place[2:])
            variable = variables.get(place)
            message = _found(error, place)
            if variable is None:
                problems.add(place, message)
            else:
                problems.add_of_variable(variable, message)
        return None


def _merged(defaults: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a table merged over the defaults; storage options are merged one by one."""
    inherited = {name: value for name, value in defaults.items() if name in Defaults.model_fields}
    both = {**inherited, **table}
    options = inherited.get("storage_options"), table.get("storage_options")
    if all(isinstance(given, dict) for given in options):
        both["storage_options"] = {**options[0], **options[1]}  # type: ignore[dict-item]
    return both


def _is_inherited(place: Place, document: Mapping[str, Any]) -> bool:
    """Return whether the value at a place of a table is that of the defaults."""
    if len(place) < 3:
        return False
    table, defaults = document["table"][place[1]], document.get("defaults", {})
    inner = place[2:]
    while inner and isinstance(table, dict) and isinstance(defaults, dict):
        key, *rest = inner
        if key in table and not rest:
            return False
        if key not in defaults:
            return False
        table, defaults, inner = table.get(key, {}), defaults[key], tuple(rest)
    return True


def _found(error: Mapping[str, Any], place: Place) -> str:
    """Return the message about a value that the model refuses."""
    keys = [key for key in place if isinstance(key, str)]
    key = keys[-1] if keys else "the file"
    if error["type"] == "extra_forbidden":
        sections = [name for name in keys[:-1] if name in _SECTIONS]
        model = _SECTIONS[sections[-1]] if sections else Config
        return f"there is no key {key}.{did_you_mean(key, model.model_fields)}"
    if error["type"] == "missing":
        return f"{'a [[table]]' if place == ('table',) else f'the key {key}'} is missing"
    message = str(error["msg"])
    if error["type"] == "value_error":
        message = message.removeprefix("Value error, ")
        # For an entry of a list, the line number says which entry is meant.
        return message if isinstance(place[-1], int) else f"{key}: {message}"
    value = error.get("input")
    may_be_shown = isinstance(value, (str, int, float)) and not _OPEN_SECTIONS & set(keys)
    shown = f", and not {value!r}" if may_be_shown else ""
    return f"{key}: {message[:1].lower()}{message[1:]}{shown}"


def _check_between(config: Config, problems: Problems, folder: str) -> None:
    """Check what two tables must not share: id, table, place of the index."""
    given = [path for table in config.table for path in (table.path, table.index) if path]
    whole = {path: _whole_path(path, folder) for path in given}
    paths = sorted({*whole.values(), *map(index_path, whole.values())})
    real = dict(zip(paths, run_each(real_place, paths, str, _TOGETHER, _LOOK_S), strict=True))

    def root(table: TableEntry) -> str | None:
        return table.path and real[whole[table.path]]

    def place(table: TableEntry) -> str | None:
        if table.index:
            return real[whole[table.index]]
        return table.path and real[index_path(whole[table.path])]

    checks: Sequence[tuple[str, Callable[[TableEntry], str | None], str]] = (
        ("path", root, "the table at {} stands here a second time"),
        ("name", lambda table: table.name, "the table {} stands here a second time"),
        ("id", lambda table: table.id.lower(), "a second table has the id {}: give it an id of its own"),
        ("index", place, "a second table has its index at {}: give it a place of its own"),
    )
    told_lines: set[int] = set()
    for key, value_of, problem in checks:
        first: dict[str, int] = {}
        for number, table in enumerate(config.table):
            value = value_of(table)
            if value is None or first.setdefault(value, number) == number or number in told_lines:
                continue
            told_lines.add(number)
            line = problems.line(("table", first[value]))
            problems.add(("table", number, key), f"{problem.format(value)} (the first is in line {line})")


def _check_statements(config: Config, problems: Problems, folder: str) -> None:
    """Check that the statements of a table's indexes are about that table."""
    for number, table in enumerate(config.table):
        for index_number, index in enumerate(table.indexes):
            if index.table and not _is_named(table, index.table, folder):
                problem = f"index {index.name} is of {index.table}, and this table is {table.place}"
                problems.add(("table", number, "indexes", index_number), problem)


def _is_named(table: TableEntry, written: str, folder: str) -> bool:
    """Return whether a statement that names its table so is about a table of the configuration."""
    if table.path and real_place(_whole_path(written, folder)) == real_place(_whole_path(table.path, folder)):
        return True
    name = written.replace("`", "").lower()
    catalog_name = (table.name or "").replace("`", "").lower()
    last = (table.path or "").rstrip("/").rpartition("/")[2].lower()
    return name in (table.id.lower(), last, catalog_name) or catalog_name.endswith(f".{name}")


def real_place(place: str) -> str:
    """Return a path without links, or a URI without a slash at its end: equal places are equal texts."""
    return place.rstrip("/") if "://" in place else os.path.realpath(place)


def _whole_path(path: str, folder: str) -> str:
    """Return a URI without a slash at its end, or a path made absolute from the configuration's `folder`.

    A URI of the scheme `file:` becomes a path.
    """
    path = local_name(path) if path.startswith("file:") else path
    if "://" in path:
        return path.rstrip("/")
    return os.path.normpath(os.path.join(folder, os.path.expanduser(path)))


def _with_whole_paths(config: Config, folder: str) -> Config:
    """Return the configuration with paths that do not depend on the working folder."""

    def whole(table: TableEntry) -> TableEntry:
        paths = {
            key: _whole_path(value, folder)
            for key in ("path", "index")
            if (value := getattr(table, key)) is not None
        }
        return table.model_copy(update=paths)

    given = config.application
    folders = {key: getattr(given, key) for key in ("checkpoint", "lease")}
    whole_places = {key: _whole_path(place, folder) for key, place in folders.items() if place is not None}
    application = given.model_copy(update=whole_places)
    return config.model_copy(update={"application": application, "table": tuple(map(whole, config.table))})


def changed(
    before: Iterable[TableEntry], after: Iterable[TableEntry]
) -> tuple[list[str], list[str], list[str]]:
    """Return the ids of the tables that were added, changed and removed."""
    old, new = ({table.id: table for table in tables} for tables in (before, after))
    added = [id_ for id_ in new if id_ not in old]
    other = [id_ for id_ in new if id_ in old and new[id_] != old[id_]]
    return added, other, [id_ for id_ in old if id_ not in new]
