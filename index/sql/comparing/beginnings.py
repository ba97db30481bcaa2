"""Comparisons of the first characters of a text with a constant: ranges of the text itself.

Of two characters:

    left(s, 2) = 'ab'       s >= 'ab' and s < 'ac'
    left(s, 2) = 'a'        s = 'a'
    left(s, 2) > 'a'        s > 'a'
    left(s, 2) >= 'abc'     s >= 'ac'

Bytes of UTF-8 are in the order of characters; whether they are UTF-8 is not asked: Spark, too, counts
characters by their first bytes.
"""

from __future__ import annotations

from tailbit.index.functions.tree import Call, Expression, Ref
from tailbit.index.sql.comparing.least import End, NotRising
from tailbit.index.values.literals import Literal


def beginning(e: Expression) -> int:
    """How many characters of the only column an expression is.

    Raises:
        NotRising: it is something else, or none at all.
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
    """Where the values begin whose first characters are `text` or more, and where those that are more.

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
    # No byte of UTF-8 is the greatest, so all texts that begin so are below this one.
    beyond = cut[:-1] + bytes([cut[-1] + 1])
    return (text if cut == text else beyond, False), (beyond, False)
