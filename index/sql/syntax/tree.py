"""The nodes of a parsed predicate, named as Spark's grammar names them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

ConstantKind = Literal["number", "string", "hex", "interval"]


class WrittenConstant(NamedTuple):
    """A constant of the text: a number as written, the value of a string, X'..' as written, or an interval.

    `negative`: a number with a minus sign in front, which is part of it. `plus`: one with a plus sign, which
    to Spark is an operation on it.
    """

    kind: ConstantKind
    text: str
    negative: bool = False
    plus: bool = False


class Tree(NamedTuple):
    r"""A node of a parsed predicate.

    | kind | what it holds |
    |---|---|
    | `and` `or` | `items`: two conditions or more |
    | `not` `negative` `invert` `parenthesis` | `first` |
    | `compare` | `first`, `second`; `text`: one of = <> < <= > >= <=> |
    | `is` | `first`; `text`: NULL, TRUE, FALSE or UNKNOWN; `negated` |
    | `in` | `first`, `items`, a `Listed`; `negated` |
    | `between` | `first`, `items`: the low and the high bound; `negated` |
    | `like` | `first`; `text`: LIKE, ILIKE or RLIKE; `second`: the pattern, |
    | | or `items` with `quantifier`; `escape`; `negated` |
    | `arithmetic` | `first`, `second`; `text`: one of + - * / % DIV \|\| & \| ^ << >> >>> |
    | `cast` | `first`; `second`: a `type`; `text`: CAST, TRY_CAST, :: or the name of a type before a string |
    | `call` | `text`: the function as written; `items`: its arguments |
    | `lambda` | `names`: its arguments; `first`: its body |
    | `element` | `first`, `second`: the index or key in brackets |
    | `field` | `first`, `names`: fields of a value that is no column |
    | `case` | `first`: the operand or None; `items`: conditions and results in turn; `second`: behind ELSE |
    | `extract` | `text`: the field; `first` |
    | `trim` | `text`: BOTH, LEADING or TRAILING; `first`: the string; `second`: the characters or None |
    | `column` | `names`: of the column and of fields in it |
    | `constant` | `constant` |
    | `null` `true` `false` | nothing |
    | `tuple` | `items` |
    | `type` | `text`: its name in capitals; `items`: the numbers behind it |

    `start` and `end` are the characters of the text, from 0, `end` not among them.
    """

    kind: str
    start: int
    end: int
    first: Tree | None = None
    second: Tree | None = None
    items: Sequence[Tree] = ()
    names: tuple[str, ...] = ()
    text: str = ""
    constant: WrittenConstant | None = None
    negated: bool = False
    quantifier: str = ""
    escape: Tree | None = None


def left(e: Tree) -> Tree:
    """Return the first operand of a node that has one."""
    assert e.first is not None
    return e.first


def right(e: Tree) -> Tree:
    """Return the second operand of a node that has two."""
    assert e.second is not None
    return e.second
