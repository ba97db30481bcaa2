"""Matches of a Java pattern and their groups: regexp_extract and regexp_replace.

A pattern is supported if Python finds the same matches by the same rules; `?` is the only quantifier that may
follow a group. Texts with a character beyond U+FFFF get NOT_READ.

Texts are split at a separator by substring_index, split_part and split(...)[n]. Arrow splits all texts at
once if the separator is a constant; else each distinct text is split once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.index.functions.patterns import END, JavaRegex, python_regex
from tailbit.index.functions.texts import constant_text, constant_whole, empty_where
from tailbit.index.functions.tree import Call
from tailbit.index.functions.vectors import (
    NOT_READ,
    Raised,
    Vector,
    by_parts,
    code,
    each_row,
    nulls_of,
    per_distinct,
)
from tailbit.index.keys import bytes_of
from tailbit.index.values.literals import STRING, NotRead
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, arrow_scalar
from tailbit.tables.schema import arrow_type

_DOLLAR = r"(?:(?=\r\n\Z)|(?<!\r)(?=\n\Z)|(?=[\r\x85\u2028\u2029]\Z)|\Z)"
"""A Python pattern for Java's `$`: the end of the text, or the place before its last line terminator."""


@lru_cache(maxsize=256)
def groups_of(pattern: str) -> re.Pattern[str]:
    """Translate a Java pattern to one of Python."""
    return re.compile(python_regex(_Groups(pattern).read(), _DOLLAR))


class _Groups(JavaRegex):
    """A translator that keeps the groups of a pattern."""

    def _open(self) -> bool:
        captures = not self.pattern.startswith("?", self.at)
        super()._open()
        if captures:
            self.out[-1] = "("
        return False

    def _quantifier(self, repeatable: bool) -> bool:
        if self.out and self.out[-1] == ")" and self.pattern[self.at] != "?":
            self._refuse(f"){self.pattern[self.at]}")
        return super()._quantifier(repeatable)


class _OneGroup(_Groups):
    """A translator that keeps one group of a pattern and names it, as Arrow requires; group 0 is the match.

    `alike`: whether RE2 surely matches as Python does, which it may not with `$` or an optional group.
    """

    def __init__(self, pattern: str, group: int) -> None:
        super().__init__(pattern)
        self.group, self.groups, self.alike = group, 0, True

    def read(self) -> str:
        regex = super().read()
        self.alike = self.alike and END not in regex
        return regex if self.group else f"(?P<{_GROUP}>{regex})"

    def _open(self) -> bool:
        repeatable = super()._open()
        if self.out[-1] == "(":
            self.groups += 1
            self.out[-1] = f"(?P<{_GROUP}>" if self.groups == self.group else "(?:"
        return repeatable

    def _quantifier(self, repeatable: bool) -> bool:
        self.alike = self.alike and self.out[-1:] != [")"]
        return super()._quantifier(repeatable)


_GROUP = "wanted"


@lru_cache(maxsize=256)
def _re2_of_group(pattern: str, group: int) -> str | None:
    """Return an RE2 pattern that finds the same text for a group; None if it may find another."""
    group_regex = _OneGroup(pattern, group)
    regex = group_regex.read()
    return regex if group_regex.alike and _compiles(regex) else None


def _compiles(regex: str) -> bool:
    """Return whether RE2 accepts a pattern; it refuses patterns that exceed its memory limit."""
    try:
        pc.match_substring_regex(arrow_array([""]), regex)
    except pa.ArrowInvalid:
        return False
    return True


def extracted(call: Call, args: list[pa.Array]) -> Vector:
    """Compute regexp_extract: a group of the first match, empty without a match; the setting is the group."""
    group = int(call.setting[0])
    regex = _re2_of_group(constant_text(call, 1) or "", group)
    if regex is not None:
        return within_16_bits(call, args[0], lambda texts: Vector(_extracted(texts, regex)))

    return each_found(call, args[0], partial(_group, group))


def _group(group: int, text: str, pattern: re.Pattern[str]) -> bytes:
    match = pattern.search(text)
    return b"" if match is None else (match[group] or "").encode()


def _extracted(texts: pa.Array, regex: str) -> pa.Array:
    return empty_where(texts, pc.struct_field(pc.extract_regex(texts, pattern=regex), [0]))


def substituted(call: Call, args: list[pa.Array]) -> Vector:
    """Compute regexp_replace: replace all matches by a text; the setting is its parts, groups as numbers."""
    pattern = constant_text(call, 1) or ""
    if _re2_of_group(pattern, 0) is not None:
        references = [
            f"\\{piece}" if isinstance(piece, int) else piece.replace("\\", r"\\") for piece in call.setting
        ]
        regex, by = _Groups(pattern).read(), "".join(map(str, references))
        return within_16_bits(
            call, args[0], lambda texts: Vector(pc.replace_substring_regex(texts, regex, by))
        )
    return each_found(call, args[0], partial(_substituted, call.setting))


def _substituted(pieces: Sequence[object], text: str, pattern: re.Pattern[str]) -> bytes:
    if all(isinstance(piece, str) for piece in pieces):
        return pattern.sub("".join(map(str, pieces)).replace("\\", r"\\"), text).encode()

    def by(match: re.Match[str]) -> str:
        return "".join(match[piece] or "" if isinstance(piece, int) else str(piece) for piece in pieces)

    return pattern.sub(by, text).encode()


def within_16_bits(call: Call, texts: pa.Array, apply: Callable[[pa.Array], Vector]) -> Vector:
    """Apply a function to texts; those with a character beyond U+FFFF, two in Java, get NOT_READ."""
    data = bytes_of(texts)[1]
    if not len(data) or int(data.max()) < _BEYOND_16_BITS:
        return apply(texts)
    beyond = pc.match_substring_regex(texts, r"[\x{10000}-\x{10ffff}]")
    return by_parts(texts, pc.invert(beyond), apply, lambda others: _not_read(call, others))


_BEYOND_16_BITS = 0xF0
"""From here on the first byte of a character beyond U+FFFF; no other byte of UTF-8 is as large."""


def _not_read(call: Call, texts: pa.Array) -> Vector:
    null = np.ones(len(texts), np.bool_)
    return Vector(pa.nulls(len(texts), arrow_type(call.type, str(call.type))), code(NOT_READ, null))


def each_found(call: Call, texts: pa.Array, apply: Callable[[str, re.Pattern[str]], Any]) -> Vector:
    """Apply a function to each distinct text and the compiled pattern of a call."""
    pattern = constant_text(call, 1)
    assert pattern is not None
    compiled = groups_of(pattern)

    def of(text: bytes) -> Any:
        chars = text.decode()
        if not text.isascii() and max(chars) > "\uffff":
            raise Raised(NOT_READ)
        return apply(chars, compiled)

    return per_distinct([texts], [STRING], call.type, of)


_REFERENCE = re.compile(r"\\(.)|\$([0-9])(?![0-9])|([^\\$]+)", re.DOTALL)


def replacement(text: str, groups: int) -> Sequence[str | int]:
    """Split a replacement into texts and group numbers."""
    pieces: list[str | int] = []
    start = 0
    while start < len(text):
        reference = _REFERENCE.match(text, start)
        if reference is None or (reference[2] and int(reference[2]) > groups):
            raise NotRead(f"the replacement {text!r} is not read", "$1 stands for a group, \\\\$ for a $.")
        pieces.append(int(reference[2]) if reference[2] else reference[1] or reference[3])
        start = reference.end()
    return pieces


def before_or_behind(call: Call, args: list[pa.Array]) -> Vector:
    """Compute substring_index: the text before the n-th separator, or after the n-th from the end."""
    between, count = constant_text(call, 1), constant_whole(call, 2)
    if not between or not count or _overlaps_itself(between):
        return each_row(call, args, _before_or_behind)
    return Vector(_joined_pieces(args[0], between, count))


def _overlaps_itself(text: str) -> bool:
    """Return whether a separator can begin within an occurrence of itself, where Spark and a split differ."""
    return any(text.startswith(text[start:]) for start in range(1, len(text)))


def _joined_pieces(texts: pa.Array, between: str, count: int) -> pa.Array:
    """Return the first or last pieces of each text with the separators between; the text if it has fewer."""
    lists = pc.split_pattern(texts, between, max_splits=abs(count), reverse=count < 0)
    offsets, values = _lists(lists)
    one_more = np.diff(offsets) > abs(count)
    whole = np.ones(len(values), np.bool_)
    whole[(offsets[1:] - 1 if count > 0 else offsets[:-1])[one_more]] = False
    fewer = (offsets - np.concatenate([[0], np.cumsum(one_more)])).astype(np.int32)
    pieces = pa.ListArray.from_arrays(arrow_array(fewer), pc.filter(values, arrow_array(whole)))
    return _null_as(texts, pc.binary_join(pieces, arrow_scalar(between, pa.string())))


def _lists(lists: pa.Array) -> tuple[Longs, pa.Array]:
    """Return the offsets (first begin, then each end) of lists, and the items of all."""
    if not len(lists):
        return np.zeros(1, np.int64), lists.values
    offsets = np.frombuffer(lists.buffers()[1], np.int32, len(lists) + 1, 4 * lists.offset).astype(np.int64)
    return offsets - offsets[0], lists.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))


def _null_as(texts: pa.Array, values: pa.Array) -> pa.Array:
    return (
        pc.if_else(pc.is_valid(texts), values, arrow_scalar(None, values.type))
        if texts.null_count
        else values
    )


def _before_or_behind(text: bytes, separator: bytes, count: int) -> bytes:
    if not separator or not count:
        return b""
    place = -1 if count > 0 else len(text) - len(separator) + 1
    for _ in range(min(abs(count), len(text) + 1)):
        place = (
            text.find(separator, place + 1)
            if count > 0
            else text.rfind(separator, 0, max(place - 1 + len(separator), 0))
        )
        if place < 0:
            return text
    return text[:place] if count > 0 else text[place + len(separator) :]


def part_of(call: Call, args: list[pa.Array]) -> Vector:
    """Compute split_part: the n-th piece, or the n-th from the end; an empty text beyond the pieces."""
    number = int(call.setting[0])
    index = number - 1 if number > 0 else number
    between = constant_text(call, 1)
    if between:
        return Vector(empty_where(args[0], _pieces(args[0], between, index)[0]))

    def apply(text: bytes, between: bytes) -> bytes:
        pieces = text.split(between) if between else [text]
        return pieces[index] if -len(pieces) <= index < len(pieces) else b""

    return each_row(call, args, apply)


def _pieces(texts: pa.Array, between: str, index: int) -> tuple[pa.Array, Mask]:
    """Return a piece of each text, NULL if the text has fewer; and the mask of texts that have it."""
    lists = pc.split_pattern(texts, between, max_splits=index + 1 if index >= 0 else None)
    offsets, values = _lists(lists)
    counts = np.diff(offsets)
    lacking = (counts <= index) | (counts < -index)
    indexes = np.where(lacking, 0, (offsets[:-1] if index >= 0 else offsets[1:]) + index)
    return pc.take(values, arrow_array(indexes, mask=lacking)), lacking & ~nulls_of(texts)


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
    index, error = int(call.setting[0]), str(call.setting[1])

    def apply(pieces: list[str]) -> bytes:
        if not -len(pieces) <= index < len(pieces):
            raise Raised(error)
        return pieces[index].encode()

    def of_all(texts: pa.Array, between: str) -> Vector:
        values, lacking = _pieces(texts, between, index)
        return Vector(values, code(error, lacking))

    return _split(call, args[0], apply, of_all)


def count(call: Call, args: list[pa.Array]) -> Vector:
    """Compute size(split(s, pattern))."""

    def of_all(texts: pa.Array, between: str) -> Vector:
        separators = pc.count_substring(texts, between)
        return Vector(pc.cast(pc.add(separators, arrow_scalar(1, separators.type)), pa.int32()))

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
