"""Comparisons of a text's first characters with a constant, as ranges of the text itself.

Worked example, for two characters:

    left(s, 2) = 'ab'       s >= 'ab' and s < 'ac'
    left(s, 2) = 'a'        s = 'a'
    left(s, 2) > 'a'        s > 'a'
    left(s, 2) >= 'abc'     s >= 'ac'

UTF-8 bytes sort like their characters. The texts are not checked to be UTF-8: Spark, too, counts
characters by their first bytes.
"""

from __future__ import annotations

from tailbit.index.functions.tree import Call, Expression, Ref
from tailbit.index.predicate.value_sets import beyond_prefix
from tailbit.index.sql.comparing.least import End, NotRising
from tailbit.index.values.literals import Literal


def beginning(e: Expression) -> int:
    """Return how many leading characters of the only column an expression takes.

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
    """Return the least values whose prefix is `text` or more, and whose prefix is more than `text`.

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
