"""Builders of the calls of functions that search, split or hash a text."""

from __future__ import annotations

from collections.abc import Sequence

from tailbit.base.wording import with_article
from tailbit.index.expression.build import Builder
from tailbit.index.expression.folded import call, no_number
from tailbit.index.expression.shapes import text, texts, whole_constant
from tailbit.index.functions.texts.groups import groups_of, replacement
from tailbit.index.functions.texts.json_paths import path_of
from tailbit.index.functions.texts.pieces import CHARSETS
from tailbit.index.functions.tree import Expression
from tailbit.index.values.literals import INTEGER, LONG, STRING, VOID, WHOLE, Literal
from tailbit.index.values.refusals import NotRead

_MOST = 1 << 31
"""More pieces than Spark counts."""


def extracted(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build regexp_extract; the default group is the first."""
    value, pattern = text(b, args[0], "regexp_extract"), _constant(args[1], "regexp_extract")
    reason = "regexp_extract takes a constant number of a group"
    group = whole_constant(args[2], reason) if len(args) > 2 else 1
    groups = groups_of(pattern).groups
    if not 0 <= group <= groups:
        raise NotRead(
            f"regexp_extract of group {group} of {groups} (INVALID_PARAMETER_VALUE in Spark)",
            "0 stands for all that is found.",
        )
    return call("regexp_extract", [value, Literal(STRING, pattern.encode())], STRING, (group,))


def replaced(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build regexp_replace of a constant pattern by a constant text."""
    value, pattern = text(b, args[0], "regexp_replace"), _constant(args[1], "regexp_replace")
    parts = replacement(_constant(args[2], "regexp_replace"), groups_of(pattern).groups)
    _check_not_empty("regexp_replace", pattern)
    return call("regexp_replace", [value, Literal(STRING, pattern.encode())], STRING, tuple(parts))


def piece(
    b: Builder, args: Sequence[Expression], at: Expression, error: str = "INVALID_ARRAY_INDEX"
) -> Expression:
    """Build split(s, pattern)[n], or element_at(split(s, pattern), n), which counts from 1 or from the end.

    `error`: the error that Spark raises if there is no such piece.
    """
    number = whole_constant(at, "the place of a piece of split is a constant number")
    if error != "INVALID_ARRAY_INDEX":
        if number == 0:
            raise NotRead("element_at counts from 1 (INVALID_INDEX_OF_ZERO in Spark)")
        number -= number > 0
    elif number < 0:
        raise NotRead("split(...)[n] counts from 0 (INVALID_ARRAY_INDEX in Spark)")
    return call("split item", _split_arguments(b, args), STRING, (number, error))


def pieces(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build size(split(s, pattern)): the number of pieces of a text; NULL for NULL."""
    return call("split size", _split_arguments(b, args), INTEGER)


def _split_arguments(b: Builder, args: Sequence[Expression]) -> list[Expression]:
    if len(args) != 2:
        raise NotRead(f"split takes 2 arguments here, not {len(args)}")
    pattern = _constant(args[1], "split")
    _check_not_empty("split", pattern)
    return [text(b, args[0], "split"), Literal(STRING, pattern.encode())]


def part(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build split_part."""
    number = whole_constant(args[2], "split_part takes a constant number of a part")
    if number == 0:
        raise NotRead("split_part counts from 1 (INVALID_INDEX_OF_ZERO in Spark)")
    if abs(number) >= _MOST:
        raise NotRead(f"split_part of part {number} is not read (it raises in Spark)")
    return call("split_part", texts(b, args[:2], "split_part"), STRING, (number,))


def before_or_behind(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build substring_index with a constant count."""
    reason = "substring_index takes a constant number of places"
    if abs(whole_constant(args[2], reason)) >= _MOST:
        raise NotRead(reason)
    given = [*texts(b, args[:2], "substring_index"), b.cast(args[2], INTEGER)]
    return call("substring_index", given, STRING)


def digest(name: str, b: Builder, args: Sequence[Expression]) -> Expression:
    """Build md5, sha1 or crc32 of a text's bytes, or of bytes."""
    type_ = LONG if name == "crc32" else STRING
    return call("digest", [_bytes(args[0], name)], type_, (name,))


def json_part(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build get_json_object with a constant path of names and places."""
    value, path = text(b, args[0], "get_json_object"), args[1]
    if isinstance(path, Literal) and path.value is None:
        return Literal(STRING, None)
    steps = path_of(_constant(path, "get_json_object"))
    if steps is None:
        reason = "of JSON, a path is read that is $ and then names and places, without * or blanks"
        raise NotRead(reason, "Write '$.a.b[0]', or \"$['a.b']\" for a name with a point.")
    return call("get_json_object", [value], STRING, steps)


def decoded(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build decode: bytes in a character set or, with more arguments, the value of the first match."""
    if len(args) > 2:
        pairs = zip(args[1::2], args[2::2], strict=False)
        other = args[-1] if len(args) % 2 == 0 else Literal(VOID, None)
        kinds = {str(given.type) for given in (*args[2::2], other)} - {"void"}
        if len(kinds) > 1:
            raise NotRead(f"decode to {', '.join(sorted(kinds))} is not read", "CAST them to one type.")
        return b.case([(b.compare("<=>", args[0], candidate), given) for candidate, given in pairs], other)
    value = args[0]
    if value.type.name not in ("string", "binary"):
        raise no_number("decode", value, "bytes", "CAST it AS STRING.")
    charset = _constant(args[1], "decode").upper()
    if charset not in CHARSETS:
        raise NotRead(f"decode of {charset} is not read", f"It takes {', '.join(CHARSETS)}.")
    return call("decode", [value], STRING, (charset,))


def sha2(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build sha2 of 224, 256, 384 or 512 bits; 0 means 256."""
    bits = args[1].value if isinstance(args[1], Literal) and args[1].type.name in WHOLE else None
    if bits not in (0, 224, 256, 384, 512):
        raise NotRead("sha2 takes 0, 224, 256, 384 or 512 here")
    return call("digest", [_bytes(args[0], "sha2")], STRING, (f"sha{bits or 256}",))


def hexadecimal(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build hex of an integer, or of bytes."""
    if args[0].type.name in WHOLE:
        return call("hex", [b.cast(args[0], LONG)], STRING)
    return call("digest", [_bytes(args[0], "hex")], STRING, ("hex",))


def _bytes(value: Expression, name: str) -> Expression:
    if value.type.name not in ("string", "binary"):
        raise NotRead(f"{name} of {with_article(value.type.sql)} is not read", "CAST it AS STRING.")
    return value


def _check_not_empty(name: str, pattern: str) -> None:
    if groups_of(pattern).search("") is not None:
        raise NotRead(f"{name} of {pattern!r}, which finds an empty text, is not read", "Write + for *.")


def _constant(arg: Expression, name: str) -> str:
    if not isinstance(arg, Literal) or not isinstance(arg.value, bytes) or arg.type != STRING:
        raise NotRead(f"{name} takes constant texts behind its first argument")
    return arg.value.decode()
