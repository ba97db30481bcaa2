"""Values that the environment sets over those of the file, and variables that the file's texts name.

`TAILBIT__APPLICATION__THREADS=8`, `TAILBIT__DEFAULTS__MAX_LAG=60s` and `TAILBIT__TABLE__ORDERS__PAUSED=true`
set a value; `${AWS_SECRET_ACCESS_KEY}` in a text of the file stands for a variable's value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tailbit.streaming.config.lines import Place
from tailbit.streaming.config.model import id_of
from tailbit.streaming.config.problems import Problems

PREFIX = "TAILBIT__"
_OPTIONS = ("storage_options", "spark", "options")
"""Sections whose keys belong to stores, to Spark or to indexes, so that the case of these keys is kept."""

_NAMED = re.compile(r"\$\{(\w+)\}")
_SECTIONS = ("application", "defaults")


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
    places: dict[Place, str] = {}
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
            places[place] = variable
    return places


def _place(words: list[str], document: Mapping[str, Any]) -> Place | None:
    """Return the place that the words of a variable lead to: section, perhaps a table, key."""
    head, *rest = words
    if head.lower() in _SECTIONS:
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
