"""Functions that split a text at another: substring_index, split_part, split(...)[n].

Arrow splits all texts at once if the separator is a constant; else each distinct text is split once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.index.functions.texts.at_once import constant_text, constant_whole, empty_where
from tailbit.index.functions.texts.groups import each_found, within_16_bits
from tailbit.index.functions.tree import Call
from tailbit.index.functions.vectors import Raised, Vector, code, each_row, nulls_of
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, arrow_scalar


def before_or_behind(call: Call, args: list[pa.Array]) -> Vector:
    """Compute substring_index: the text before the n-th separator, or after the n-th from the end."""
    between, count = constant_text(call, 1), constant_whole(call, 2)
    if not between or not count or _overlaps_itself(between):
        return each_row(call, args, _before_or_behind)
    return Vector(_joined_pieces(args[0], between, count))


def _overlaps_itself(text: str) -> bool:
    """Return whether a separator can begin within an occurrence of itself, where Spark and a split differ."""
    return any(text.startswith(text[at:]) for at in range(1, len(text)))


def _joined_pieces(texts: pa.Array, between: str, count: int) -> pa.Array:
    """Return the first or last pieces of each text with the separators between; the text if it has fewer."""
    lists = pc.split_pattern(texts, between, max_splits=abs(count), reverse=count < 0)
    places, values = _lists(lists)
    one_more = np.diff(places) > abs(count)
    kept = np.ones(len(values), np.bool_)
    kept[(places[1:] - 1 if count > 0 else places[:-1])[one_more]] = False
    fewer = (places - np.concatenate([[0], np.cumsum(one_more)])).astype(np.int32)
    pieces = pa.ListArray.from_arrays(arrow_array(fewer), pc.filter(values, arrow_array(kept)))
    return _null_as(texts, pc.binary_join(pieces, arrow_scalar(between, pa.string())))


def _lists(lists: pa.Array) -> tuple[Longs, pa.Array]:
    """Return the offsets (first begin, then each end) of lists, and the items of all."""
    if not len(lists):
        return np.zeros(1, np.int64), lists.values
    places = np.frombuffer(lists.buffers()[1], np.int32, len(lists) + 1, 4 * lists.offset).astype(np.int64)
    return places - places[0], lists.values.slice(int(places[0]), int(places[-1] - places[0]))


def _null_as(texts: pa.Array, values: pa.Array) -> pa.Array:
    return (
        pc.if_else(pc.is_valid(texts), values, arrow_scalar(None, values.type))
        if texts.null_count
        else values
    )


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
    """Compute split_part: the n-th piece, or the n-th from the end; an empty text beyond the pieces."""
    number = int(call.setting[0])
    at = number - 1 if number > 0 else number
    between = constant_text(call, 1)
    if between:
        return Vector(empty_where(args[0], _pieces(args[0], between, at)[0]))

    def apply(text: bytes, between: bytes) -> bytes:
        pieces = text.split(between) if between else [text]
        return pieces[at] if -len(pieces) <= at < len(pieces) else b""

    return each_row(call, args, apply)


def _pieces(texts: pa.Array, between: str, at: int) -> tuple[pa.Array, Mask]:
    """Return a piece of each text, NULL if the text has fewer; and the mask of texts that have it."""
    lists = pc.split_pattern(texts, between, max_splits=at + 1 if at >= 0 else None)
    places, values = _lists(lists)
    counts = np.diff(places)
    lacking = (counts <= at) | (counts < -at)
    wanted = np.where(lacking, 0, (places[:-1] if at >= 0 else places[1:]) + at)
    return pc.take(values, arrow_array(wanted, mask=lacking)), lacking & ~nulls_of(texts)


CHARSETS = {"UTF-8": "utf-8", "US-ASCII": "ascii", "ISO-8859-1": "latin-1"}
"""Spark's names of the character sets that Python decodes alike, with Python's names."""


def decoded(call: Call, args: list[pa.Array]) -> Vector:
    """Decode bytes in the character set of the setting; malformed bytes raise."""
    name = CHARSETS[str(call.setting[0])]

    def apply(value: bytes) -> bytes:
        try:
            return value.decode(name).encode()
        except UnicodeDecodeError:
            raise Raised("MALFORMED_CHARACTER_CODING") from None

    return each_row(call, args, apply)


def item(call: Call, args: list[pa.Array]) -> Vector:
    """Compute split(s, pattern)[n]; settings: n, and Spark's error if there is no such piece."""
    at, error = int(call.setting[0]), str(call.setting[1])

    def apply(pieces: list[str]) -> bytes:
        if not -len(pieces) <= at < len(pieces):
            raise Raised(error)
        return pieces[at].encode()

    def of_all(texts: pa.Array, between: str) -> Vector:
        values, lacking = _pieces(texts, between, at)
        return Vector(values, code(error, lacking))

    return _split(call, args[0], apply, of_all)


def count(call: Call, args: list[pa.Array]) -> Vector:
    """Compute size(split(s, pattern))."""

    def of_all(texts: pa.Array, between: str) -> Vector:
        places = pc.count_substring(texts, between)
        return Vector(pc.cast(pc.add(places, arrow_scalar(1, places.type)), pa.int32()))

    return _split(call, args[0], len, of_all)


_LITERAL = re.compile(r"(?:[\w\-@ ,;:/=#%&!~]|\\[.*+?()\[\]{}|^$\\/\-])+", re.ASCII)
"""Patterns that match one text only, which is the pattern without its backslashes."""


def _literal(pattern: str | None) -> str | None:
    """Return the only text that a pattern matches; None if it may match others."""
    plain = pattern is not None and _LITERAL.fullmatch(pattern)
    return re.sub(r"\\(.)", r"\1", str(pattern)) if plain else None


def _split(
    call: Call,
    texts: pa.Array,
    apply: Callable[[list[str]], Any],
    of_all: Callable[[pa.Array, str], Vector],
) -> Vector:
    """Compute a function of the pieces of each text: `of_all` if the pattern is plain text, else `apply`."""
    literal = _literal(constant_text(call, 1))
    if literal is not None:
        return within_16_bits(call, texts, lambda plain: of_all(plain, literal))

    def of(text: str, pattern: Any) -> Any:
        ends = [(match.start(), match.end()) for match in pattern.finditer(text)]
        starts = [0, *(end for _, end in ends)]
        return apply(
            [text[a:b] for a, b in zip(starts, [*(start for start, _ in ends), len(text)], strict=True)]
        )

    return each_found(call, texts, of)
