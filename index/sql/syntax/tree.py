"""The nodes of a parsed predicate, named as Spark's grammar names them.

Lists of values whose items mostly have one form: the grammar reads the first item of a form alone.

The form of a constant is its tokens with a gap for the one number or text in it. What the grammar makes of
an item does not depend on what stands in the gap, so an item whose tokens fit a form is taken as a whole.

    (DATE'2026-01-31', DATE'2026-02-01', NULL)     forms DATE _ and NULL
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple, overload

from tailbit.index.sql.syntax.tokens import Token

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


def first_of(e: Tree) -> Tree:
    """Return the first operand of a node that has one."""
    assert e.first is not None
    return e.first


def second_of(e: Tree) -> Tree:
    """Return the second operand of a node that has two."""
    assert e.second is not None
    return e.second


_IN_GAPS = ("number", "string")
_FORMS = 8
"""Forms of a list that are compared with each item."""


class Form(NamedTuple):
    """The form of a constant: `marks`, the kind and the text of each token, whose text is None in the gap.

    `first`: the first item of this form. `gap`: which of its tokens is the number or text; None for NULL and
    the like.
    """

    marks: tuple[tuple[str, str | None], ...]
    first: Tree
    gap: int | None

    @classmethod
    def of(cls, item: Tree, tokens: Sequence[Token]) -> Form | None:
        """Return the form of an item that is a constant, cast or not; None for other items."""
        count = _constants(item)
        if count is None:
            return None
        sizes = [node for node in _casts(item) if node.second is not None]
        gaps = [
            number
            for number, token in enumerate(tokens)
            if token.kind in _IN_GAPS and not any(_is_within(token, node.second) for node in sizes)
        ]
        if len(gaps) != count or count > 1:
            return None
        gap = gaps[0] if gaps else None
        marks = [(t.kind, None if number == gap else t.text) for number, t in enumerate(tokens)]
        return cls(tuple(marks), item, gap)

    def fits(self, tokens: Sequence[Token], start: int) -> bool:
        """Return whether an item of this form begins at a token, and the list goes on or ends behind it."""
        end = start + len(self.marks)
        if end >= len(tokens):
            return False
        for (kind, text), token in zip(self.marks, tokens[start:end], strict=True):
            if token[0] != kind or (text is not None and token[1] != text):
                return False
        return tokens[end][1] in (",", ")") and tokens[end][0] == "sign"


class Alike(NamedTuple):
    """The items of one form: `texts`, what stands in the gap of each; `numbers`, theirs in the list."""

    form: Form
    texts: list[str]
    numbers: list[int]


class Listed(Sequence[Tree]):
    """The items of a list: those of each form together, and all others; a tree of each on demand.

    `alike`: the items of forms. `others`: the numbers of the items without a form.
    """

    def __init__(self, parse: Callable[[int], Tree]) -> None:
        self.alike: list[Alike] = []
        self.others: list[int] = []
        self._items: list[Tree | int] = []
        self._parse = parse

    def add(self, item: Tree, tokens: Sequence[Token]) -> None:
        """Add an item that the grammar has read from some tokens."""
        form = Form.of(item, tokens) if len(self.alike) < _FORMS else None
        number = len(self._items)
        if form is None:
            self.others.append(number)
        else:
            texts = [] if form.gap is None else [tokens[form.gap].text]
            self.alike.append(Alike(form, texts, [number]))
        self._items.append(item)

    def takes(self, tokens: Sequence[Token], start: int) -> int:
        """Add the item at a token if an earlier item has its form; return the number of its tokens, or 0."""
        for form, texts, numbers in self.alike:
            if form.fits(tokens, start):
                numbers.append(len(self._items))
                self._items.append(start)
                if form.gap is not None:
                    texts.append(tokens[start + form.gap][1])
                return len(form.marks)
        return 0

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, number: int) -> Tree: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[Tree, ...]: ...
    def __getitem__(self, number: int | slice) -> Tree | tuple[Tree, ...]:
        if isinstance(number, slice):
            return tuple(self[place] for place in range(*number.indices(len(self))))
        item = self._items[number]
        return self._parse(item) if isinstance(item, int) else item

    def __iter__(self) -> Iterator[Tree]:
        return (self[number] for number in range(len(self)))


def _constants(item: Tree) -> int | None:
    """Return how many numbers and texts a constant has; None for what is no constant, cast or not."""
    if item.kind == "constant":
        return 1 if item.constant is not None and item.constant.kind != "interval" else None
    if item.kind in ("null", "true", "false"):
        return 0
    if item.kind in ("cast", "parenthesis", "negative") and item.first is not None:
        return _constants(item.first)
    return None


def _casts(item: Tree) -> Iterator[Tree]:
    inner: Tree | None = item
    while inner is not None:
        if inner.kind == "cast":
            yield inner
        inner = inner.first


def _is_within(token: Token, node: Tree | None) -> bool:
    return node is not None and node.start <= token.start < node.end
