"""The problems of a configuration, each with file and line, collected so that all are told at once.

`tomllib` does not report lines. They are joined until `tomllib` can parse them as one statement, so that
strings and lists of several lines need no grammar of their own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import ConfigError

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
