"""Expressions with Spark's types: a constant, a column, or a call of an operator or function.

Two expressions are equal if their keys are: a key names functions, types, settings, columns and constants. A
key holds everything that the result depends on, the time zone included, so that a result may be cached by
key. A long key is a hash. An operand used in several places is one object, and a call caches what is computed
from it, so that no function walks a shared operand more than once.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import field

from tailbit.base.dataclass import dataclass
from tailbit.index.values.literals import STRING, Literal
from tailbit.tables.model import Column, DataType


@dataclass(frozen=True, slots=True)
class Ref:
    """The value of a column."""

    column: Column

    @property
    def type(self) -> DataType:
        """Return the column's type; CHAR(n) is a string here, since reading pads it."""
        return STRING if self.column.type.char_length else self.column.type


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or function of expressions that already have the types it takes.

    `setting`: constants beside the arguments, such as a time zone. `depth`: levels of nested calls, which
    bound the recursion of walks. `columns`: those that the call reads, in order of appearance. `null_as`: the
    call whose IS NULL Spark evaluates in place of this call's, where that one may raise.
    """

    name: str
    args: tuple[Expression, ...]
    type: DataType
    setting: tuple[str | int, ...] = ()
    null_as: Call | None = field(default=None, repr=False)
    depth: int = field(init=False)
    columns: tuple[Column, ...] = field(init=False, repr=False)
    _key: list[str] = field(init=False, default_factory=list, repr=False)

    @property
    def key(self) -> str:
        """Return the key, made when it is first asked for: that of a long list takes a while."""
        if not self._key:
            inner = ", ".join(key_of(arg) for arg in self.args)
            self._key.append(_short(f"{self.name}{list(self.setting)}({inner}):{spelled(self.type)}"))
        return self._key[0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Call) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __post_init__(self) -> None:
        depth, read = 0, dict[str, Column]()
        for arg in self.args:
            if isinstance(arg, Call):
                depth = max(depth, arg.depth)
                read.update((column.id, column) for column in arg.columns)
            elif isinstance(arg, Ref):
                read[arg.column.id] = arg.column
        object.__setattr__(self, "depth", 1 + depth)
        if self.name in LAMBDAS:
            read.pop(str(self.setting[0]), None)
        object.__setattr__(self, "columns", tuple(read.values()))


Expression = Literal | Ref | Call

CONDITIONAL = ("case", "coalesce")
"""Conditional calls; `if`, `nullif`, `nvl` and the like are built from them, too."""

LAMBDAS = ("exists", "forall", "transform")
"""Functions of an array and an expression over its elements; setting: the id of the element's column."""


def spelled(type_: DataType) -> str:
    """Return a type with its inner types as text; different types have different texts."""
    inner = ", ".join(f"{field.name[-1]}: {spelled(field.type)}" for field in type_.fields)
    return f"{type_}<{inner}>" if inner else str(type_)


def key_of(expression: Expression) -> str:
    """Return the key of an expression, which only equal expressions share."""
    if isinstance(expression, Call):
        return expression.key
    if isinstance(expression, Ref):
        column = expression.column
        return f"{column.id!r}:{spelled(column.type)}:{column.type.char_length}:{column.zone}"
    return f"{expression.value!r}:{spelled(expression.type)}"


_LONGEST = 400
"""Most characters of a key; a longer key is replaced by its hash."""


def _short(key: str) -> str:
    return key if len(key) <= _LONGEST else f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"


def columns_in(expression: Expression) -> tuple[Column, ...]:
    """Return the columns that an expression reads, each once, in order of appearance."""
    if isinstance(expression, Call):
        return expression.columns
    return (expression.column,) if isinstance(expression, Ref) else ()


def raising_constant(expression: Expression) -> Call | None:
    """Return a constant part that raises, for which Spark refuses the whole query; None if there is none.

    Spark folds constants before it reads a row, except those in CASE and coalesce. Constants that do not
    raise are literals here. Source: Spark, ConstantFolding.
    """
    rest, seen = [expression], set[int]()
    while rest:
        node = rest.pop()
        if not isinstance(node, Call) or id(node) in seen:
            continue
        if not node.columns and not any(isinstance(arg, Literal) and arg.of_columns for arg in node.args):
            return node
        seen.add(id(node))
        if node.name not in CONDITIONAL:
            rest.extend(reversed(node.args))
    return None


def calls_of_several(expressions: Iterable[Expression]) -> frozenset[str]:
    """Return the keys of the calls that occur in several expressions, or several times in one.

    Cost: one visit per call.
    """
    counts: Counter[str] = Counter()
    rest = list(expressions)
    while rest:
        if isinstance(call := rest.pop(), Call):
            counts[call.key] += 1
            rest.extend(call.args if counts[call.key] == 1 else ())
    return frozenset(key for key, many in counts.items() if many > 1)


def shared_calls(expression: Expression) -> frozenset[int]:
    """Return the identities of the calls that occur in several places of an expression.

    Cost: one visit per call.
    """
    seen: set[int] = set()
    shared: set[int] = set()
    rest: list[Expression] = [expression]
    while rest:
        call = rest.pop()
        if isinstance(call, Call):
            if id(call) in seen:
                shared.add(id(call))
                continue
            seen.add(id(call))
            rest.extend(call.args)
    return frozenset(shared)
