"""Functions of what is found in a text, of its pieces and digests: what makes each call."""

from __future__ import annotations

from collections.abc import Sequence

from tailbit.index.expression.build import Builder
from tailbit.index.expression.folded import NotRead, call
from tailbit.index.expression.shapes import INTEGER, Make, text
from tailbit.index.functions.texts.groups import groups_of, replacement
from tailbit.index.functions.texts.patterns import Unread
from tailbit.index.functions.tree import Expression
from tailbit.index.values.literals import LONG, STRING, WHOLE, Literal


def extracted(b: Builder, args: Sequence[Expression]) -> Expression:
    """regexp_extract; the first group where none is named."""
    value, pattern = text(b, args[0], "regexp_extract"), _constant(args[1], "regexp_extract")
    group = args[2] if len(args) > 2 else Literal(STRING, 1)
    if (
        not isinstance(group, Literal)
        or not isinstance(group.value, int)
        or (len(args) > 2 and group.type.name not in WHOLE)
    ):
        raise NotRead("regexp_extract takes a constant number of a group")
    groups = _groups(pattern)
    if not 0 <= group.value <= groups:
        raise NotRead(
            f"regexp_extract of group {group.value} of {groups} (INVALID_PARAMETER_VALUE in Spark)",
            "0 stands for all that is found.",
        )
    return call("regexp_extract", [value, Literal(STRING, pattern.encode())], STRING, (group.value,))


def replaced(b: Builder, args: Sequence[Expression]) -> Expression:
    """regexp_replace of a constant pattern by a constant text."""
    value, pattern = text(b, args[0], "regexp_replace"), _constant(args[1], "regexp_replace")
    try:
        parts = replacement(_constant(args[2], "regexp_replace"), _groups(pattern))
    except Unread as wrong:
        raise NotRead(str(wrong), wrong.hint) from wrong
    _check_not_empty("regexp_replace", pattern)
    return call("regexp_replace", [value, Literal(STRING, pattern.encode())], STRING, tuple(parts))


def piece(
    b: Builder, args: Sequence[Expression], at: Expression, error: str = "INVALID_ARRAY_INDEX"
) -> Expression:
    """split(s, pattern)[n], and element_at(split(s, pattern), n), which counts from 1 or from the end.

    `error`: what Spark raises where there is no such piece.
    """
    if not isinstance(at, Literal) or at.type.name not in WHOLE or not isinstance(at.value, int):
        raise NotRead("the place of a piece of split is a constant number")
    number = at.value
    if error != "INVALID_ARRAY_INDEX":
        if number == 0:
            raise NotRead("element_at counts from 1 (INVALID_INDEX_OF_ZERO in Spark)")
        number -= number > 0
    elif number < 0:
        raise NotRead("split(...)[n] counts from 0 (INVALID_ARRAY_INDEX in Spark)")
    return call("split item", _split_arguments(b, args), STRING, (number, error))


def pieces(b: Builder, args: Sequence[Expression]) -> Expression:
    """How many pieces a pattern splits a text into; NULL of NULL."""
    return call("split size", _split_arguments(b, args), INTEGER)


def _split_arguments(b: Builder, args: Sequence[Expression]) -> list[Expression]:
    if len(args) != 2:
        raise NotRead(f"split takes 2 arguments here, not {len(args)}")
    pattern = _constant(args[1], "split")
    _groups(pattern)
    _check_not_empty("split", pattern)
    return [text(b, args[0], "split"), Literal(STRING, pattern.encode())]


def part(b: Builder, args: Sequence[Expression]) -> Expression:
    """split_part."""
    at = args[2]
    if not isinstance(at, Literal) or at.type.name not in WHOLE or not isinstance(at.value, int):
        raise NotRead("split_part takes a constant number of a part")
    if at.value == 0:
        raise NotRead("split_part counts from 1 (INVALID_INDEX_OF_ZERO in Spark)")
    if not _counts(at.value):
        raise NotRead(f"split_part of part {at.value} is not read (it raises in Spark)")
    return call("split_part", [text(b, arg, "split_part") for arg in args[:2]], STRING, (at.value,))


def before_or_behind(b: Builder, args: Sequence[Expression]) -> Expression:
    """substring_index."""
    at = args[2]
    if not isinstance(at, Literal) or at.type.name not in WHOLE or not _counts(at.value):
        raise NotRead("substring_index takes a constant number of places")
    given = [*(text(b, arg, "substring_index") for arg in args[:2]), b.cast(at, INTEGER)]
    return call("substring_index", given, STRING)


def _counts(value: object) -> bool:
    return isinstance(value, int) and abs(value) < 1 << 31


def digest(name: str) -> Make:
    """What makes md5, sha1 or crc32 of a text's bytes, or of bytes."""

    def make(b: Builder, args: Sequence[Expression]) -> Expression:
        type_ = LONG if name == "crc32" else STRING
        return call("digest", [_bytes(args[0], name)], type_, (name,))

    return make


def sha2(b: Builder, args: Sequence[Expression]) -> Expression:
    """sha2 of 224, 256, 384 or 512 bits; 0 stands for 256."""
    bits = args[1].value if isinstance(args[1], Literal) and args[1].type.name in WHOLE else None
    if bits not in (0, 224, 256, 384, 512):
        raise NotRead("sha2 takes 0, 224, 256, 384 or 512 here")
    return call("digest", [_bytes(args[0], "sha2")], STRING, (f"sha{bits or 256}",))


def hexadecimal(b: Builder, args: Sequence[Expression]) -> Expression:
    """Hex of a whole number, or of bytes."""
    if args[0].type.name in WHOLE:
        return call("hex", [b.cast(args[0], LONG)], STRING)
    return call("digest", [_bytes(args[0], "hex")], STRING, ("hex",))


def _bytes(value: Expression, name: str) -> Expression:
    if value.type.name not in ("string", "binary"):
        raise NotRead(f"{name} of a {value.type} is not read", "CAST it AS STRING.")
    return value


def _check_not_empty(name: str, pattern: str) -> None:
    if groups_of(pattern).search("") is not None:
        raise NotRead(f"{name} of {pattern!r}, which finds an empty text, is not read", "Write + for *.")


def _constant(arg: Expression, name: str) -> str:
    if not isinstance(arg, Literal) or not isinstance(arg.value, bytes) or arg.type != STRING:
        raise NotRead(f"{name} takes constant texts behind its first argument")
    return arg.value.decode()


def _groups(pattern: str) -> int:
    try:
        return groups_of(pattern).groups
    except Unread as wrong:
        raise NotRead(str(wrong), wrong.hint) from wrong
