"""Search, padding and single characters: in vectors if arguments are constants, else per distinct text."""

from __future__ import annotations

from functools import lru_cache, partial, reduce

import numpy as np
import pyarrow as pa

from tailbit.index.functions.texts.at_once import constant_text, constant_whole
from tailbit.index.functions.texts.buffers import bytes_replaced
from tailbit.index.functions.tree import Call
from tailbit.index.functions.vectors import (
    NOT_READ,
    Raised,
    Vector,
    array_of,
    by_parts,
    each_row,
    nulls_of,
    numbers,
    per_distinct,
)
from tailbit.index.values.literals import INTEGER, STRING
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, arrow_scalar

_LONGEST = 1 << 20
"""Most characters to which a text is padded."""
_LONGEST_AT_ONCE = 1 << 8
"""Up to this length all paddings are made beforehand; together they have some thirty kilobytes."""


def place(call: Call, args: list[pa.Array]) -> Vector:
    """Compute instr: the position, in characters from 1, where a text first occurs in another; else 0."""
    part = constant_text(call, 1)
    return each_row(call, args, _place) if part is None else _places(args[0], part)


def place_from(call: Call, args: list[pa.Array]) -> Vector:
    """Compute locate: the position where a text occurs in another, from a constant start on."""
    part, first = constant_text(call, 0), constant_whole(call, 2)
    if part is None or first is None:
        return each_row(call, args, lambda part, text, first: _place(text, part, first))
    return _places(args[1], part, first)


def _places(texts: pa.Array, part: str, first: int = 1) -> Vector:
    """Return positions of a constant text; ASCII texts are searched at once, as a byte is a character."""
    return by_parts(
        texts,
        pc.string_is_ascii(texts),
        lambda plain: Vector(_places_of_bytes(plain, part, first)),
        lambda others: per_distinct(
            [others], [STRING], INTEGER, lambda text: _place(text, part.encode(), first)
        ),
    )


def _places_of_bytes(texts: pa.Array, part: str, first: int) -> pa.Array:
    before = first - 1 if part else 0
    null = nulls_of(texts)
    if first < 1:
        return array_of(np.zeros(len(texts), np.int32), null, INTEGER)
    rest = pc.utf8_slice_codeunits(texts, before) if before else texts
    offsets = numbers(pc.find_substring(rest, part))
    return array_of(np.where(offsets < 0, 0, offsets.astype(np.int64) + before + 1), null, INTEGER)


def _place(text: bytes, part: bytes, first: int = 1) -> int:
    if first < 1:
        return 0
    # An empty text is found at the beginning, wherever the search begins.
    return text.decode().find(part.decode(), first - 1 if part else 0) + 1


def filled(call: Call, args: list[pa.Array]) -> Vector:
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
    """Return the replacement of each character."""
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
