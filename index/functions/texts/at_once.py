"""Functions of texts, vectorised: a text is a sequence of characters (code points), as in Spark."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from tailbit.index.functions.texts.patterns import END, LAST_BREAK, java_regex, like_parts, like_regex
from tailbit.index.functions.tree import Call
from tailbit.index.functions.vectors import Raised, Vector, by_parts, each_row, per_distinct
from tailbit.index.values.literals import STRING, Literal
from tailbit.index.values.refusals import NotRead
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, arrow_scalar, filled


def constant_text(call: Call, at: int) -> str | None:
    """Return the text of argument `at` if it is a constant, else None."""
    arg = call.args[at]
    if isinstance(arg, Literal) and isinstance(arg.value, bytes):
        return arg.value.decode()
    return None


def constant_whole(call: Call, at: int) -> int | None:
    """Return the integer of argument `at` if it is a constant, else None."""
    arg = call.args[at]
    return arg.value if isinstance(arg, Literal) and isinstance(arg.value, int) else None


def empty_where(texts: pa.Array, values: pa.Array) -> pa.Array:
    """Fill NULL values with an empty text, except where the text that they come from is NULL."""
    whole = filled(values, "")
    return (
        pc.if_else(pc.is_valid(texts), whole, arrow_scalar(None, pa.string())) if texts.null_count else whole
    )


def like(call: Call, args: list[pa.Array]) -> Vector:
    """Compute LIKE and RLIKE with a constant pattern; the setting is the escape of LIKE."""
    pattern = constant_text(call, 1)
    if pattern is None:
        return Vector(pa.nulls(len(args[0]), pa.bool_()))
    parts = like_parts(pattern, str(call.setting[0])) if call.name == "like" else None
    if parts is not None:
        return Vector(_with_parts(args[0], *parts))
    if call.name == "like":
        return Vector(pc.match_substring_regex(args[0], like_regex(pattern, str(call.setting[0]))))
    regex = java_regex(pattern)
    matches = pc.match_substring_regex(args[0], regex)
    if END in regex:
        matches = pc.or_(matches, pc.match_substring_regex(_without_break(args[0]), regex))
    return Vector(matches)


def _with_parts(values: pa.Array, begin: str, end: str, middle: str) -> pa.Array:
    """Return whether texts have a given beginning, a given end that does not overlap it, and a given part."""
    if middle:
        return pc.match_substring(values, middle)
    matches = pc.greater_equal(
        pc.binary_length(values), arrow_scalar(len(begin.encode()) + len(end.encode()))
    )
    return pc.and_(matches, pc.and_(pc.starts_with(values, begin), pc.ends_with(values, end)))


def _without_break(values: pa.Array) -> pa.Array:
    """Remove the line terminator at the end of texts."""
    return pc.replace_substring_regex(values, LAST_BREAK, "")


def searched(call: Call, args: list[pa.Array]) -> Vector:
    """Compute startswith, endswith and contains."""
    part = constant_text(call, 1)
    if part is None:
        return each_row(call, args, _SEARCH[call.name])
    vectors = {"startswith": pc.starts_with, "endswith": pc.ends_with, "contains": pc.match_substring}
    return Vector(vectors[call.name](args[0], part))


_SEARCH: dict[str, Callable[[bytes, bytes], bool]] = {
    "startswith": lambda text, part: text.startswith(part),
    "endswith": lambda text, part: text.endswith(part),
    "contains": lambda text, part: part in text,
}


def length(call: Call, args: list[pa.Array]) -> Vector:
    """Count the characters of a text, or the bytes of a binary value."""
    binary = call.args[0].type.name == "binary"
    lengths = pc.binary_length(args[0]) if binary else pc.utf8_length(args[0])
    return Vector(pc.cast(lengths, pa.int32()))


def octets(call: Call, args: list[pa.Array]) -> Vector:
    """Count the bytes of a text or binary value."""
    return Vector(pc.cast(pc.binary_length(args[0]), pa.int32()))


def cased(call: Call, args: list[pa.Array]) -> Vector:
    """Compute lower and upper: ASCII texts in vectors, others by Python where it agrees with Java."""
    lower = call.name == "lower"
    return by_parts(
        args[0],
        pc.string_is_ascii(args[0]),
        lambda texts: Vector(pc.ascii_lower(texts) if lower else pc.ascii_upper(texts)),
        lambda texts: per_distinct([texts], [STRING], STRING, lambda t: _cased(t.decode(), lower).encode()),
    )


def _cased(text: str, lower: bool) -> str:
    if not text.isascii() and any(map(_is_new, text)):
        raise Raised("NOT_READ_EXACTLY")
    return text.lower() if lower else text.upper()


def capitalized(call: Call, args: list[pa.Array]) -> Vector:
    """Compute initcap: a character after a space (only U+0020) becomes upper case, all others lower case."""
    return each_row(call, args, lambda t: _capitalized(t.decode()).encode())


def _capitalized(text: str) -> str:
    if not text.isascii() and any(_is_new(char) or char in _CONTEXTUAL for char in text):
        raise Raised("NOT_READ_EXACTLY")
    return " ".join(word[:1].title() + word[1:].lower() for word in text.split(" "))


_CONTEXTUAL = frozenset("\u03a3\u0130\u0345")
"""Letters whose other case depends on what stands beside them."""


_PAIRED_LATE = frozenset("\u019b\u0264\ua7d3\ua7d5")
"""Letters that were in Unicode before their other case was."""


def _is_new(char: str) -> bool:
    """Return whether Java may know an upper or lower case of a character that this Python's Unicode lacks."""
    return char in _PAIRED_LATE or (unicodedata.category(char) == "Cn" and not _is_noncharacter(ord(char)))


def _is_noncharacter(code: int) -> bool:
    """Return whether a code point is a noncharacter, which has no case in any release of Unicode.

    Source: The Unicode Standard, section 23.7.
    """
    return 0xFDD0 <= code <= 0xFDEF or code & 0xFFFE == 0xFFFE


def trimmed(call: Call, args: list[pa.Array]) -> Vector:
    """Compute trim, ltrim and rtrim of spaces (only U+0020)."""
    vectors = {"trim": pc.utf8_trim, "ltrim": pc.utf8_ltrim, "rtrim": pc.utf8_rtrim}
    return Vector(vectors[call.name](args[0], characters=" "))


def part_of(call: Call, args: list[pa.Array]) -> Vector:
    """Compute substr: a position, counted from 1, or from the end if negative, and a number of characters."""
    numbers = [constant_whole(call, at) for at in range(1, len(args))]
    if None not in numbers:
        return _sliced(args[0], *(int(number or 0) for number in numbers))
    return each_row(call, args, _substring)


def _sliced(texts: pa.Array, position: int, count: int = (1 << 31) - 1) -> Vector:
    """Cut all texts as substr does; negative positions count from the end, as in Arrow."""
    start = position - 1 if position > 0 else position
    stop = start + count
    if count <= 0:
        return Vector(_emptied(texts))
    return Vector(pc.utf8_slice_codeunits(texts, start, None if start < 0 <= stop else stop))


def _emptied(texts: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_valid(texts), arrow_scalar(""), arrow_scalar(None, pa.string()))


def _substring(text: bytes, position: int, count: int = (1 << 31) - 1) -> bytes:
    chars = text.decode()
    start = position - 1 if position > 0 else len(chars) + position if position < 0 else 0
    return chars[max(start, 0) : max(start + count, 0)].encode()


def left(call: Call, args: list[pa.Array]) -> Vector:
    """Return the first characters of a text."""
    if (n := constant_whole(call, 1)) is not None:
        return _sliced(args[0], 1, n)
    return each_row(call, args, lambda text, n: _substring(text, 1, n))


def right(call: Call, args: list[pa.Array]) -> Vector:
    """Return the last characters of a text."""
    if (n := constant_whole(call, 1)) is not None:
        return _sliced(args[0], -max(n, 0), max(n, 0))
    return each_row(call, args, lambda text, n: _substring(text, -n) if n > 0 else b"")


def joined(call: Call, args: list[pa.Array]) -> Vector:
    """Concatenate texts; NULL if one is NULL."""
    return Vector(
        pc.binary_join_element_wise(*args, arrow_scalar("", pa.string()), null_handling="emit_null")
    )


def replaced(call: Call, args: list[pa.Array]) -> Vector:
    """Replace every occurrence of a text by another; an empty text occurs nowhere."""
    constants = [constant_text(call, at) for at in range(1, len(args))]
    if None in constants:
        return each_row(call, args, _replace)
    old, new = (*constants, "")[:2]
    return Vector(pc.replace_substring(args[0], old, new) if old else args[0])


def _replace(text: bytes, old: bytes, new: bytes = b"") -> bytes:
    return text.replace(old, new) if old else text


def check_pattern(name: str, pattern: str, escape: str) -> None:
    """Check that a pattern is supported.

    Raises:
        NotRead: the pattern is not supported.
    """
    try:
        regex = java_regex(pattern) if name == "rlike" else like_regex(pattern, escape)
        pc.match_substring_regex(arrow_array([""]), regex)
    except pa.ArrowInvalid as wrong:
        raise NotRead(f"the pattern {pattern!r} is not read: {_first(wrong)}") from wrong


def _first(error: Any) -> str:
    return str(error).splitlines()[0]
