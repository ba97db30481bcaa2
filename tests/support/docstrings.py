"""Docstrings of Google's style as Markdown, and signatures as they are written."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

_WIDTH = 100
"""Most characters of a signature on one line."""


def markdown(text: str | None) -> str:
    """Return a docstring as Markdown: paragraphs, errors as a list, examples as blocks of code."""
    parts = [_part(part) for part in re.split(r"\n{2,}", inspect.cleandoc(text or ""))]
    return "\n\n".join(parts)


def first_sentence(text: str | None) -> str:
    """Return the first paragraph of a docstring as one line."""
    return " ".join(inspect.cleandoc(text or "").split("\n\n")[0].split())


def _part(part: str) -> str:
    if part.startswith(">>>"):
        return f"```pycon\n{part}\n```"
    if part.startswith("Raises:\n"):
        body = inspect.cleandoc(part.removeprefix("Raises:\n"))
        errors = re.split(r"\n(?=\S)", body)
        return "Raises:\n\n" + "\n".join(f"- {_error(' '.join(error.split()))}" for error in errors)
    return escaped(part)


def _error(text: str) -> str:
    name, _, when = text.partition(":")
    return f"`{name}`: {escaped(when.strip())}"


def escaped(text: str) -> str:
    """Keep `<` and `*` of prose from being read as HTML and emphasis; code in backticks stays as it is."""
    pieces = re.split(r"(`+[^`]*`+)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([<*])", r"\\\1", p) for p in pieces)


def signature(name: str, function: Callable[..., Any]) -> str:
    """Return how a function is called, without `self`; a parameter a line where that is too long."""
    found = inspect.signature(function)
    parameters: list[str] = []
    keyword_only = False
    for parameter in found.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            keyword_only = True
        elif parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            parameters.append("*")
            keyword_only = True
        parameters.append(_parameter(parameter))
    returns = "" if found.return_annotation is found.empty else f" -> {_type(found.return_annotation)}"
    line = f"{name}({', '.join(parameters)}){returns}"
    if len(line) <= _WIDTH:
        return line
    return f"{name}(\n" + "".join(f"    {parameter},\n" for parameter in parameters) + f"){returns}"


def _parameter(parameter: inspect.Parameter) -> str:
    text = f"{'*' if parameter.kind is parameter.VAR_POSITIONAL else ''}{parameter.name}"
    if parameter.annotation is not parameter.empty:
        text += f": {_type(parameter.annotation)}"
    return text if parameter.default is parameter.empty else f"{text} = {parameter.default!r}"


def _type(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
