"""Functions of texts, vectorised: a text is a sequence of characters (code points), as in Spark.

Spark counts characters of invalid UTF-8 by their first bytes, and replaces invalid bytes by U+FFFD when it
makes a Java string of a text. Results for such texts are unsupported here.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import lru_cache, partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Mask
from tailbit.index.functions.patterns import END, LAST_BREAK, java_regex, like_parts, like_regex
from tailbit.index.functions.table import OPERATIONS
from tailbit.index.functions.tree import Call
from tailbit.index.functions.vectors import (
    NOT_READ,
    Raised,
    Vector,
    array_of,
    by_parts,
    bytes_replaced,
    code,
    each_row,
    first_of,
    nulls_of,
    numbers,
    per_distinct,
)
from tailbit.index.values.literals import INTEGER, STRING, Literal, NotRead
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, arrow_scalar, filled, numpy_of


def constant_text(call: Call, number: int) -> str | None:
    """Return the text of argument `number` if it is a constant, else None."""
    arg = call.args[number]
    if isinstance(arg, Literal) and isinstance(arg.value, bytes):
        return arg.value.decode()
    return None


def constant_whole(call: Call, number: int) -> int | None:
    """Return the integer of argument `number` if it is a constant, else None."""
    arg = call.args[number]
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
    pieces = like_parts(pattern, str(call.setting[0])) if call.name == "like" else None
    if pieces is not None:
        return Vector(_with_parts(args[0], *pieces))
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
    needle = constant_text(call, 1)
    if needle is None:
        return each_row(call, args, _SEARCH[call.name])
    vectors = {"startswith": pc.starts_with, "endswith": pc.ends_with, "contains": pc.match_substring}
    return Vector(vectors[call.name](args[0], needle))


_SEARCH: dict[str, Callable[[bytes, bytes], bool]] = {
    "startswith": lambda text, needle: text.startswith(needle),
    "endswith": lambda text, needle: text.endswith(needle),
    "contains": lambda text, needle: needle in text,
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
    numbers = [constant_whole(call, place) for place in range(1, len(args))]
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


def first_characters(call: Call, args: list[pa.Array]) -> Vector:
    """Return the first characters of a text."""
    if (n := constant_whole(call, 1)) is not None:
        return _sliced(args[0], 1, n)
    return each_row(call, args, lambda text, n: _substring(text, 1, n))


def last_characters(call: Call, args: list[pa.Array]) -> Vector:
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
    constants = [constant_text(call, number) for number in range(1, len(args))]
    if None in constants:
        return each_row(call, args, _replace)
    old, new = (*constants, "")[:2]
    return Vector(pc.replace_substring(args[0], old, new) if old else args[0])


def _replace(text: bytes, old: bytes, new: bytes = b"") -> bytes:
    return text.replace(old, new) if old else text


def check_pattern(name: str, pattern: str, escape: str) -> None:
    """Check that a pattern is supported."""
    try:
        regex = java_regex(pattern) if name == "rlike" else like_regex(pattern, escape)
        pc.match_substring_regex(arrow_array([""]), regex)
    except pa.ArrowInvalid as wrong:
        raise NotRead(f"the pattern {pattern!r} is not read: {_first(wrong)}") from wrong


def _first(error: Any) -> str:
    return str(error).splitlines()[0]


_LONGEST = 1 << 20
"""Most characters to which a text is padded."""
_LONGEST_AT_ONCE = 1 << 8
"""Up to this length all paddings are made beforehand; together they have some thirty kilobytes."""


def place(call: Call, args: list[pa.Array]) -> Vector:
    """Compute instr: the position, in characters from 1, where a text first occurs in another; else 0."""
    needle = constant_text(call, 1)
    return each_row(call, args, _index) if needle is None else _indexes(args[0], needle)


def place_from(call: Call, args: list[pa.Array]) -> Vector:
    """Compute locate: the position where a text occurs in another, from a constant start on."""
    needle, first = constant_text(call, 0), constant_whole(call, 2)
    if needle is None or first is None:
        return each_row(call, args, lambda needle, text, first: _index(text, needle, first))
    return _indexes(args[1], needle, first)


def _indexes(texts: pa.Array, needle: str, first: int = 1) -> Vector:
    """Return positions of a constant text; ASCII texts are searched at once, as a byte is a character."""
    return by_parts(
        texts,
        pc.string_is_ascii(texts),
        lambda plain: Vector(_indexes_in_ascii(plain, needle, first)),
        lambda others: per_distinct(
            [others], [STRING], INTEGER, lambda text: _index(text, needle.encode(), first)
        ),
    )


def _indexes_in_ascii(texts: pa.Array, needle: str, first: int) -> pa.Array:
    before = first - 1 if needle else 0
    null = nulls_of(texts)
    if first < 1:
        return array_of(np.zeros(len(texts), np.int32), null, INTEGER)
    rest = pc.utf8_slice_codeunits(texts, before) if before else texts
    offsets = numbers(pc.find_substring(rest, needle))
    return array_of(np.where(offsets < 0, 0, offsets.astype(np.int64) + before + 1), null, INTEGER)


def _index(text: bytes, needle: bytes, first: int = 1) -> int:
    if first < 1:
        return 0
    # An empty text is found at the beginning, wherever the search begins.
    return text.decode().find(needle.decode(), first - 1 if needle else 0) + 1


def padded(call: Call, args: list[pa.Array]) -> Vector:
    """Compute lpad and rpad: a text cut or padded on one side to a number of characters."""
    before, length, by = call.name == "lpad", constant_whole(call, 1), constant_text(call, 2)
    if by is None or length is None or length > _LONGEST_AT_ONCE:
        return each_row(call, args, partial(_filled, before))
    return Vector(_filled_all(before, args[0], max(length, 0), by))


def _filled_all(before: bool, texts: pa.Array, length: int, by: str) -> pa.Array:
    """Pad or cut all texts to `length` characters with the constant text `by`, on the left if `before`."""
    cut = pc.utf8_slice_codeunits(texts, 0, length)
    if not by:
        return cut
    fill = by * (length // len(by) + 1)
    fills = arrow_array([fill[:missing] for missing in range(length + 1)], pa.string())
    missing = pc.take(fills, pc.subtract(arrow_scalar(length, pa.int32()), pc.utf8_length(cut)))
    sides = (missing, cut) if before else (cut, missing)
    return pc.binary_join_element_wise(*sides, arrow_scalar("", pa.string()), null_handling="emit_null")


def _filled(before: bool, text: bytes, length: int, by: bytes) -> bytes:
    if length > _LONGEST:
        raise Raised(NOT_READ)
    chars, more = text.decode(), by.decode()
    missing = length - len(chars)
    if missing <= 0 or not more:
        return chars[: max(length, 0)].encode()
    fill = (more * (missing // len(more) + 1))[:missing]
    return (fill + chars if before else chars + fill).encode()


def stripped(call: Call, args: list[pa.Array]) -> Vector:
    """Remove the characters of a second text from the ends of a first; the setting names the ends."""
    side, constant = str(call.setting[0]), constant_text(call, 1)
    if constant is not None:
        trim = {"both": pc.utf8_trim, "leading": pc.utf8_ltrim, "trailing": pc.utf8_rtrim}[side]
        return Vector(trim(args[0], characters=constant))
    strip = {"both": str.strip, "leading": str.lstrip, "trailing": str.rstrip}[side]
    return each_row(call, args, lambda text, chars: strip(text.decode(), chars.decode()).encode())


def translated(call: Call, args: list[pa.Array]) -> Vector:
    """Compute translate: each character of the second text becomes the third's at its index, or vanishes."""
    from_, to = constant_text(call, 1), constant_text(call, 2)
    if from_ is None or to is None:
        return each_row(call, args, _translated)
    old, new = from_.encode(), to.encode()
    by = _byte_table(old, new)
    if by is not None and from_.isascii():
        return Vector(bytes_replaced(args[0], by))

    def one_by_one(texts: pa.Array) -> Vector:
        return per_distinct([texts], [STRING], STRING, lambda text: _translated(text, old, new))

    if by is None:
        return one_by_one(args[0])
    plain = pc.string_is_ascii(args[0])
    return by_parts(args[0], plain, lambda texts: Vector(bytes_replaced(texts, by)), one_by_one)


def _byte_table(from_: bytes, to: bytes) -> list[int | None] | None:
    """Return the replacement of each byte for `bytes_replaced`; None if a character is not ASCII."""
    table = {old: new for old, new in _table(from_, to).items() if old < 128}
    if not all(map(str.isascii, table.values())):
        return None
    by: list[int | None] = list(range(256))
    for old, new in table.items():
        by[old] = ord(new) if new else None
    return by


_NONE = "\0"
"""What Spark replaces a character with to remove it; this character itself, if given, also removes."""


def _translated(text: bytes, from_: bytes, to: bytes) -> bytes:
    return text.decode().translate(_table(from_, to)).encode()


@lru_cache(maxsize=64)
def _table(from_: bytes, to: bytes) -> dict[int, str]:
    table: dict[int, str] = {}
    new = to.decode()
    for n, char in enumerate(from_.decode()):
        table.setdefault(ord(char), new[n : n + 1].replace(_NONE, ""))
    return table


def reversed_(call: Call, args: list[pa.Array]) -> Vector:
    """Reverse the characters of a text."""
    return Vector(pc.utf8_reverse(args[0]))


def first_code(call: Call, args: list[pa.Array]) -> Vector:
    """Compute ascii: the code point of the first character; 0 for an empty text."""
    first = pc.utf8_slice_codeunits(args[0], 0, 1)  # of which there are far fewer than texts
    return each_row(call, [first], lambda text: ord(text.decode()) if text else 0)


def joined_by(call: Call, args: list[pa.Array]) -> Vector:
    """Compute concat_ws: join the texts that are not NULL, with the first argument as separator."""
    between, *texts = args
    if not texts:
        return Vector(pc.if_else(pc.is_valid(between), arrow_scalar(""), arrow_scalar(None, pa.string())))
    # Arrow leaves out the last row where all of its texts are NULL.
    some = reduce(pc.or_, [pc.is_valid(text) for text in texts])
    first = pc.if_else(some, texts[0], arrow_scalar(""))
    return Vector(pc.binary_join_element_wise(first, *texts[1:], between, null_handling="skip"))


def takes_characters(call: Call) -> bool:
    """Return whether a function works on characters; others compare, join and search bytes."""
    if not OPERATIONS[call.name].of_characters or all(arg.type != STRING for arg in call.args):
        return False
    if call.name in ("cast", "try_cast"):
        return call.type.name not in ("string", "binary")
    pattern = constant_text(call, 1) if call.name == "like" else None
    return pattern is None or like_parts(pattern, str(call.setting[0])) is None


def readable(texts: Vector) -> Vector:
    """Set texts that are not UTF-8 to NULL, with the error NOT_READ. Cost: a pass over the bytes."""
    if not pa.types.is_string(texts.values.type) or _is_utf8(texts.values):
        return texts
    wrong = _not_utf8(texts.values)
    values = pc.if_else(arrow_array(wrong), arrow_scalar(None, pa.string()), texts.values)
    return Vector(values, first_of([texts.raised, code(NOT_READ, wrong)]))


def _is_utf8(texts: pa.Array) -> bool:
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _not_utf8(texts: pa.Array) -> Mask:
    """Return the mask of texts that are not UTF-8; each text that is not ASCII is decoded."""
    odd = np.flatnonzero(~nulls_of(texts) & ~numpy_of(filled(pc.string_is_ascii(texts), True)))
    wrong = np.zeros(len(texts), dtype=np.bool_)
    for row, text in zip(
        odd.tolist(), pc.take(texts, arrow_array(odd)).view(pa.binary()).to_pylist(), strict=True
    ):
        wrong[row] = text.decode(errors="replace").encode() != text
    return wrong
