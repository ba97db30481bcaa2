"""Comparisons of a text's first characters with a constant, as ranges of the text itself.

Worked example, for two characters:

    left(s, 2) = 'ab'       s >= 'ab' and s < 'ac'
    left(s, 2) = 'a'        s = 'a'
    left(s, 2) > 'a'        s > 'a'
    left(s, 2) >= 'abc'     s >= 'ac'

Conversely, a range of the text implies a range of its first characters.

UTF-8 bytes sort like their characters. The texts are not checked to be UTF-8: Spark, too, counts
characters by their first bytes.
"""

from __future__ import annotations

from tailbit.index.functions.tree import Call, Expression, Ref
from tailbit.index.implication.least import End, NotRising
from tailbit.index.predicate.value_sets import Interval, Span, beyond_prefix
from tailbit.index.values.literals import Literal


def beginning(e: Expression) -> int:
    """Return the number of leading characters that an expression takes from its only column.

    Raises:
        NotRising: the expression is no prefix of a column, or an empty prefix.
    """
    if not isinstance(e, Call) or not isinstance(e.args[0], Ref):
        raise NotRising
    numbers = [arg.value for arg in e.args[1:] if isinstance(arg, Literal)]
    if e.name == "substring" and len(numbers) == 2 and numbers[0] in (0, 1):
        numbers = numbers[1:]
    elif e.name != "left":
        raise NotRising
    if len(numbers) != 1 or not isinstance(numbers[0], int) or numbers[0] < 1:
        raise NotRising
    return numbers[0]


def ends(characters: int, text: bytes) -> tuple[End, End]:
    """Return the least value with a prefix of at least `text`, and the least with a prefix above `text`.

    `characters`: the length of a prefix. An end is a value, and whether the value itself is excluded.

    Raises:
        NotRising: `text` is not UTF-8.
    """
    try:
        written = text.decode()
    except UnicodeDecodeError:
        raise NotRising from None
    if len(written) < characters:
        return (text, False), (text, True)
    cut = written[:characters].encode()
    beyond = beyond_prefix(cut)
    return (text if cut == text else beyond, False), (beyond, False)


def image(characters: int, span: Span) -> tuple[Interval, Interval]:
    """Return two intervals of prefixes: those that only texts in a span have, and all that they may have.

    `characters`: the length of a prefix. A shorter text is its own prefix, and no other text has that prefix.
    """
    (_, first, behind), (_, last, closed) = span
    low, high = (text if isinstance(text, bytes) else None for text in (first, last))
    sure_low = possible_low = low is not None and not behind
    sure_high = possible_high = high is not None and closed == 1
    cut = None if low is None else _first_characters(low, characters)
    if cut is not None:
        sure_low, possible_low, low = cut == low and sure_low, True, cut
    cut = None if high is None else _first_characters(high, characters)
    if cut is not None:
        sure_high, possible_high, high = False, cut != high or possible_high, cut
    whole = low is not None and _first_characters(low, characters) == low
    if low and whole and high == beyond_prefix(low) and not possible_high:
        high, sure_high, possible_high = low, sure_low, True  # between the two lies no other prefix
    return Interval(low, sure_low, high, sure_high), Interval(low, possible_low, high, possible_high)


def _first_characters(text: bytes, characters: int) -> bytes | None:
    """Return the first characters of a text; None if its valid part is shorter."""
    try:
        written = text.decode()
    except UnicodeDecodeError as broken:
        written = text[: broken.start].decode()
    return written[:characters].encode() if len(written) >= characters else None
