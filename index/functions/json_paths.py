"""get_json_object: a part of a JSON text by its path, written as Jackson writes it for Spark.

Jackson also accepts strings in single quotes, which are unsupported here. Source: Spark 4.2,
GetJsonObjectEvaluator; checked against Spark itself by the tests.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import pyarrow as pa

from tailbit.index.functions.tree import Call
from tailbit.index.functions.vectors import NOT_READ, Raised, Vector, each_row

Path = tuple[str | int, ...]
"""Names of fields, and places in arrays."""

_STEP = re.compile(r"\.([^.\[\]'\"?*\s]+)|\[(\d{1,9})\]|\['([^'\[\]\"?*\s]+)'\]")
_BLANKS = " \t\r\n"
_DEEPEST = 900
_PLAIN_DIGITS = 15


class _Object(list[Any]):
    """The fields of a JSON object as pairs: a name may occur twice."""


class _Number(float):
    """A number with a point or an exponent."""


def path_of(text: str) -> Path | None:
    """Return the steps of a path such as `$.a[0]['b']`; None if it has another form."""
    steps: list[str | int] = []
    start = 1
    while start < len(text):
        match = _STEP.match(text, start)
        if match is None:
            return None
        name, place, quoted = match.groups()
        steps.append(int(place) if place is not None else name if name is not None else quoted)
        start = match.end()
    return tuple(steps) if text.startswith("$") else None


def written(path: Path) -> str:
    """Format steps as a path that `path_of` parses to the same steps."""
    steps = (f"[{step}]" if isinstance(step, int) else f"['{step}']" for step in path)
    return "$" + "".join(steps)


def extracted(call: Call, args: list[pa.Array]) -> Vector:
    """Return the parts of JSON texts at the path in the setting; NULL where there is none."""
    path = call.setting
    return each_row(call, args, lambda text: _extracted(text.decode(), path))


def _extracted(text: str, path: Path) -> bytes | None:
    start = text.lstrip(_BLANKS)
    if start.startswith("\ufeff") or text.count("[") + text.count("{") > _DEEPEST:
        raise Raised(NOT_READ)
    try:
        value, end = _DECODER.raw_decode(start)
    except (ValueError, RecursionError):
        if "'" in text:
            raise Raised(NOT_READ) from None
        return None
    if not isinstance(value, list) and not isinstance(value, str) and start[end : end + 1].strip(_BLANKS):
        raise Raised(NOT_READ)
    at_path = _value_at(value, path)
    if at_path is None:
        return None
    shown = at_path[0] if isinstance(at_path[0], str) else _written(at_path[0])
    try:
        return shown.encode()
    except UnicodeEncodeError:
        raise Raised(NOT_READ) from None


def _value_at(value: Any, path: Path) -> tuple[Any] | None:
    """Return a 1-tuple of the value at a path, or None; of equal names, the first that has such a value."""
    if not path:
        return (value,)
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        is_there = isinstance(value, list) and not isinstance(value, _Object) and step < len(value)
        return _value_at(value[step], rest) if is_there else None
    if isinstance(value, _Object):
        for name, inner in value:
            if name == step and inner is not None and (at_path := _value_at(inner, rest)) is not None:
                return at_path
    return None


def _written(value: Any) -> str:
    if isinstance(value, _Object):
        return "{" + ",".join(f"{_quoted(name)}:{_written(inner)}" for name, inner in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, _Number):
        return _as_java(value)
    return "null" if value is None else str(value).lower()


def _as_java(value: float) -> str:
    """Format a double as Java does; where Java's text may be another than the shortest, raise NOT_READ."""
    shown = repr(float(value))
    digits = shown.lstrip("-").replace(".", "").strip("0")
    if value != 0 and (not 1e-3 <= abs(value) < 1e7 or len(digits) > _PLAIN_DIGITS):
        raise Raised(NOT_READ)
    return shown


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPED = re.compile(r'["\\\x00-\x1f]')


def _quoted(text: str) -> str:
    if any(char > "\uffff" for char in text):
        raise Raised(NOT_READ)
    written = _ESCAPED.sub(lambda match: _ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04X}", text)
    return f'"{written}"'


def _refused(constant: str) -> NoReturn:
    raise ValueError(constant)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_Object, parse_float=_Number, parse_constant=_refused, strict=False
)
