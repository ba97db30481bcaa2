"""Pieces of a text between the places of another, and digests of its bytes."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

from tailbit.index.functions.texts.at_once import constant_text
from tailbit.index.functions.texts.groups import each_found
from tailbit.index.functions.tree import Call
from tailbit.index.functions.vectors import Raised, Vector, per_distinct
from tailbit.index.values.literals import STRING
from tailbit.tables.model import DataType


def before_or_behind(call: Call, args: list[pa.Array]) -> Vector:
    """substring_index: what is before the n-th place of a text, or behind the n-th from the end."""
    return per_distinct(args, [arg.type for arg in call.args], call.type, _before_or_behind)


def _before_or_behind(text: bytes, part: bytes, count: int) -> bytes:
    if not part or not count:
        return b""
    at = -1 if count > 0 else len(text) - len(part) + 1
    for _ in range(min(abs(count), len(text) + 1)):
        at = text.find(part, at + 1) if count > 0 else text.rfind(part, 0, max(at - 1 + len(part), 0))
        if at < 0:
            return text
    return text[:at] if count > 0 else text[at + len(part) :]


def part_of(call: Call, args: list[pa.Array]) -> Vector:
    """split_part: the n-th piece between the places of a text, or from the end; an empty one beyond them."""
    number = int(call.setting[0])

    def apply(text: bytes, between: bytes) -> bytes:
        pieces = text.split(between) if between else [text]
        at = number - 1 if number > 0 else len(pieces) + number
        return pieces[at] if 0 <= at < len(pieces) else b""

    return per_distinct(args, [STRING, STRING], call.type, apply)


CHARSETS = {"UTF-8": "utf-8", "US-ASCII": "ascii", "ISO-8859-1": "latin-1"}
"""Names of character sets of Spark's, and Python's names of those that both read alike."""


def decoded(call: Call, args: list[pa.Array]) -> Vector:
    """Decode of bytes in the character set that the setting is; what is malformed in it raises."""
    name = CHARSETS[str(call.setting[0])]

    def apply(value: bytes) -> bytes:
        try:
            return value.decode(name).encode()
        except UnicodeDecodeError:
            raise Raised("MALFORMED_CHARACTER_CODING") from None

    return per_distinct([args[0]], [call.args[0].type], STRING, apply)


def item(call: Call, args: list[pa.Array]) -> Vector:
    """split(s, pattern)[n]; the setting is n, and what Spark raises where there is no such piece."""
    at, error = int(call.setting[0]), str(call.setting[1])

    def apply(pieces: list[str]) -> bytes:
        if not -len(pieces) <= at < len(pieces):
            raise Raised(error)
        return pieces[at].encode()

    return _split(call, args[0], apply)


def count(call: Call, args: list[pa.Array]) -> Vector:
    """size(split(s, pattern))."""
    return _split(call, args[0], len)


_LITERAL = re.compile(r"[\w\-@ ,;:/=#%&!~]+", re.ASCII)
"""Patterns that find nothing but themselves."""


def _split(call: Call, texts: pa.Array, apply: Callable[[list[str]], Any]) -> Vector:
    literal = constant_text(call, 1)
    if literal is not None and _LITERAL.fullmatch(literal):
        return each_found(call, texts, lambda text, _: apply(text.split(literal)))

    def of(text: str, pattern: Any) -> Any:
        ends = [(found.start(), found.end()) for found in pattern.finditer(text)]
        starts = [0, *(end for _, end in ends)]
        return apply(
            [text[a:b] for a, b in zip(starts, [*(start for start, _ in ends), len(text)], strict=True)]
        )

    return each_found(call, texts, of)


_ALGORITHMS: dict[str, Callable[..., Any]] = {
    name: getattr(hashlib, name) for name in ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")
}


def _hashed(name: str, data: bytes) -> bytes:
    text: str = _ALGORITHMS[name](data, usedforsecurity=False).hexdigest()
    return text.encode()


_DIGESTS: dict[str, Callable[[bytes], Any]] = {
    "crc32": zlib.crc32,
    "hex": lambda data: data.hex().upper().encode(),
    **{name: partial(_hashed, name) for name in _ALGORITHMS},
}


def digest(call: Call, args: list[pa.Array]) -> Vector:
    """A digest of bytes; the setting names it."""
    types = [DataType(arg.type.name) for arg in call.args]
    return per_distinct(args, types, call.type, _DIGESTS[str(call.setting[0])])


def hex_of_whole(call: Call, args: list[pa.Array]) -> Vector:
    """Hex of a whole number: its 64 bits, without zeros in front."""
    types = [arg.type for arg in call.args]
    return per_distinct(args, types, call.type, lambda number: f"{number % (1 << 64):X}".encode())
