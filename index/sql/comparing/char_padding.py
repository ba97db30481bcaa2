"""Comparisons of a CHAR(n) column with string constants: which side is padded with spaces, and which is cut.

Reading pads the column's values up to n characters; a data file may hold longer values. Spark pads a constant
up to n, too; for a longer constant it pads or cuts every value to the constant's own length. The result is a
set of the values as they are read.

Source: Spark 4.2, ApplyCharTypePadding; checked against Spark itself by the tests.
"""

from __future__ import annotations

from collections.abc import Sequence

from tailbit.index.predicate.value_sets import Interval, ValueSet, beyond_prefix

_MOST_BLANKS = 1000
"""Limit of blanks and control characters beyond n in a constant: each needs a value of its own in the set."""


def where_compared(length: int, op: str, text: str, width: int = 0) -> ValueSet:
    """Return the values of a CHAR(`length`) column for which `column op text` is TRUE.

    `width`: pad the constant to this length, that of the longest constant of an IN list.

    Raises:
        ValueError: the constant has too many blanks beyond `length` characters.
    """
    target = text.ljust(max(length, len(text), width))
    shorter = _shorter(target, length)
    equal = _equal(target, length).union(ValueSet.points(p.encode() for p, same in shorter if same))
    below = ValueSet.of([Interval(None, False, target.encode(), False)])
    below = below.intersect(ValueSet.points((p.encode() for p, _ in shorter), complement=True))
    return {
        "=": equal,
        "<=>": equal,
        "<>": equal.others(),
        "<": below,
        "<=": below.union(equal),
        ">": below.union(equal).others(),
        ">=": below.others(),
    }[op]


def where_in(length: int, texts: Sequence[str]) -> ValueSet:
    """Return the values of a CHAR(`length`) column for which `column IN (texts)` is TRUE.

    All texts are padded to the length of the longest.

    Raises:
        ValueError: a text has too many blanks beyond `length` characters.
    """
    width = max(map(len, texts), default=0)
    return ValueSet.union_of([where_compared(length, "=", text, width) for text in texts])


def _equal(target: str, length: int) -> ValueSet:
    """Return the values that equal the constant once they are cut to its length."""
    data = target.encode()
    if len(target) == length:
        return ValueSet.points([data])
    return ValueSet.of([Interval(data, True, beyond_prefix(data), False)])


def _shorter(target: str, length: int) -> list[tuple[str, bool]]:
    """Return the prefixes of the constant that are smaller as bytes, but not once padded with spaces.

    Each prefix comes with whether the padded prefix equals the constant.
    """
    at = [k for k in range(length, len(target)) if target[k] <= " "]
    if len(at) > _MOST_BLANKS:
        raise ValueError(f"CHAR is not compared with a constant of more than {_MOST_BLANKS} blanks")
    filled = ((target[:k], " " * (len(target) - k), target[k:]) for k in at)
    return [(start, blanks == rest) for start, blanks, rest in filled if blanks >= rest]
