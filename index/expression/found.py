"""Functions of what a pattern finds in a text: what makes each call."""

from __future__ import annotations

from collections.abc import Sequence

from tailbit.index.expression.build import Builder
from tailbit.index.expression.folded import NotRead, call
from tailbit.index.expression.shapes import text
from tailbit.index.functions.texts.groups import groups_of, replacement
from tailbit.index.functions.texts.patterns import Unread
from tailbit.index.functions.tree import Expression
from tailbit.index.values.literals import STRING, WHOLE, Literal


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
    if groups_of(pattern).search("") is not None:
        reason = f"regexp_replace of {pattern!r}, which finds an empty text, is not read"
        raise NotRead(reason, "Write + for *.")
    return call("regexp_replace", [value, Literal(STRING, pattern.encode())], STRING, tuple(parts))


def _constant(arg: Expression, name: str) -> str:
    if not isinstance(arg, Literal) or not isinstance(arg.value, bytes) or arg.type != STRING:
        raise NotRead(f"{name} takes constant texts behind its first argument")
    return arg.value.decode()


def _groups(pattern: str) -> int:
    try:
        return groups_of(pattern).groups
    except Unread as wrong:
        raise NotRead(str(wrong), wrong.hint) from wrong
