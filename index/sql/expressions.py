"""Conversion of the parsed expressions of a predicate into typed ones: operators, functions and constants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, NoReturn

from tailbit.base.errors import ColumnTypeError, UnknownColumnError
from tailbit.base.lazy import lazy
from tailbit.index.expression.build import BARE, Builder, asked_twice, is_null, is_null_alone
from tailbit.index.expression.nested import NESTED, NESTED_FUNCTIONS, OVER_ELEMENTS
from tailbit.index.expression.show import show
from tailbit.index.functions.tree import Expression, Ref
from tailbit.index.model import key_type_of_column
from tailbit.index.sql.refusals import INSTEAD, cast_instead, of_name, placed, refuse
from tailbit.index.sql.syntax.tokens import TYPED
from tailbit.index.sql.syntax.tree import Alike, Listed, Tree, WrittenConstant, first_of, second_of
from tailbit.index.values import literals
from tailbit.index.values.casts import cast_all
from tailbit.index.values.coercion import MIRRORED
from tailbit.index.values.literals import (
    BOOLEAN,
    INTEGER,
    LONG,
    NUMERIC,
    STRING,
    VOID,
    WHOLE,
    Constants,
    Literal,
    NotRead,
    SparkRaises,
    alike,
    mismatch,
    numbers,
)
from tailbit.tables.model import Column, DataType
from tailbit.tables.schema import PRESENCE, Schema, arrow_type

if TYPE_CHECKING:
    from tailbit.index.expression import calls, nested, times
    from tailbit.index.values import datetimes
else:
    calls = lazy("tailbit.index.expression.calls")
    nested = lazy("tailbit.index.expression.nested")
    times = lazy("tailbit.index.expression.times")
    datetimes = lazy("tailbit.index.values.datetimes")


_TYPES = {
    **dict.fromkeys(("TINYINT", "BYTE"), "byte"),
    **dict.fromkeys(("SMALLINT", "SHORT"), "short"),
    **dict.fromkeys(("INT", "INTEGER"), "integer"),
    **dict.fromkeys(("BIGINT", "LONG"), "long"),
    **dict.fromkeys(("FLOAT", "REAL"), "float"),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_LTZ"), "timestamp"),
    **{name: name.lower() for name in ("DOUBLE", "STRING", "BINARY", "BOOLEAN", "DATE", "TIMESTAMP_NTZ")},
}
_CALLED = {
    "element": "an element in brackets",
    "tuple": "several values in parentheses",
    "lambda": "a lambda",
    "field": "a field",
}
"""Name of a node in an error, where the node's own text does not serve."""
_ASKED_FOR = {
    "array": "it is asked for by array_contains(a, x), exists(a, x -> x > 1), size(a), a[0] or IS [NOT] NULL",
    "map": "it is asked for by m['k'], size(m) or IS [NOT] NULL",
    "struct": "its fields are asked for, as s.a, or IS [NOT] NULL",
}
_NULL_ALONE = "it can only be asked for IS [NOT] NULL"
"""How a column that does not compare is asked for."""


class _Refusing:
    """Context that turns an error about an expression into a refusal with its place."""

    def __init__(self, operands: OperandReader, expression: Tree, hint: str | None) -> None:
        self.operands, self.expression, self.hint = operands, expression, hint

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, wrong: BaseException | None, trace: object) -> None:
        if isinstance(wrong, (NotRead, ValueError, OverflowError)):
            hint = (wrong.hint if isinstance(wrong, NotRead) else None) or self.hint
            self.operands.refuse(str(wrong), self.expression, hint)


class OperandReader:
    """Converter of the leaves of one parsed predicate: names into columns, and constants into typed ones."""

    def __init__(self, text: str, schema: Schema, zone: str, table: str = "") -> None:
        self.text = text
        self.schema = schema
        self.zone = zone
        self.table = table

    def refuse(self, reason: str, expression: Tree | None = None, hint: str | None = None) -> NoReturn:
        """Raise a PredicateError at the place of an expression."""
        refuse(self.text, reason, None if expression is None else expression.start, hint)

    def refusing(self, expression: Tree, hint: str | None = None) -> _Refusing:
        """Turn errors about an unsupported or invalid expression into a PredicateError with its place."""
        return _Refusing(self, expression, hint)

    def constant(self, node: Tree) -> Literal:
        """Return a typed constant."""
        if node.constant is not None:
            return self._literal(node, node.constant)
        if node.kind == "null":
            return Literal(literals.VOID, None)
        if node.kind in ("true", "false"):
            return Literal(literals.BOOLEAN, node.kind == "true", True)
        self.unknown(node)

    def column(self, node: Tree) -> tuple[Column, tuple[str, ...]]:
        """Return the column of a name, and the parts of the name that lead into its values.

        The table's own name may qualify a column name. A struct with the table's name takes precedence.
        """
        try:
            return self.schema.reach(node.names)
        except UnknownColumnError as unknown:
            if len(node.names) > 1 and node.names[0].lower() == self.table.lower():
                return self.column(node._replace(names=node.names[1:]))
            fields, written = unknown.fields, self.text[node.start : node.end]
            meant = "" if fields["nearest"] else of_name(written)
            hint = f"Columns: {fields['columns']}.{meant}"
            details = {"place": placed(self.text, node.start), "at": node.start, "hint": hint}
            raise UnknownColumnError(**{**fields, **details}) from None

    def comparable(self, column: Column) -> Column:
        """Return the column if its values can be compared."""
        name, fields = column.type.name, {"column": column.label, "type": column.type.sql}
        if name in _ASKED_FOR:
            hint = "Such a value is not compared as a whole: ask for what it holds."
            raise ColumnTypeError(**fields, reason=_ASKED_FOR[name], hint=hint)
        try:
            key_type_of_column(column)
        except ColumnTypeError as wrong:
            hint = f"Write {column.label} IS NULL, or {column.label} IS NOT NULL."
            raise ColumnTypeError(**fields, reason=_NULL_ALONE, hint=hint) from wrong
        return column

    def asked_for_parts(self, column: Column) -> Column:
        """Return the column if it, or a part of its values, can be read."""
        if column.type.name == PRESENCE:
            return column
        if column.type.name in ("array", "map", "struct"):
            arrow_type(column.type, column.label)
            return column
        return self.comparable(column)

    def unknown(self, node: Tree) -> NoReturn:
        """Refuse an expression by its name."""
        name = _CALLED.get(node.kind) or node.text or node.kind
        verb = "are" if node.kind == "tuple" else "is"
        self.refuse(f"{name} {verb} not read", node, INSTEAD.get(name))

    def _literal(self, node: Tree, constant: WrittenConstant) -> Literal:
        with self.refusing(node):
            if constant.kind == "string":
                return Literal(literals.STRING, constant.text.encode(), True)
            if constant.kind == "interval":
                self.refuse("INTERVAL is not read here", node, INSTEAD["INTERVAL"])
            if constant.kind == "hex":
                return Literal(literals.BINARY, literals.hexadecimal(constant.text), True)
            number = literals.number(constant.text, constant.negative)
        return Literal(number.type, number.value) if constant.plus else number

    def interval(self, node: Tree) -> datetimes.Span | None:
        """Return the interval constant of an operand, in parentheses or not; None for other operands."""
        constant = bare(node).constant
        if constant is None or constant.kind != "interval":
            return None
        with self.refusing(node, INSTEAD["INTERVAL"]):
            return datetimes.span(constant.text)

    def cast_to(self, node: Tree) -> DataType:
        """Return the target type of a cast; `node`: of kind cast."""
        type_ = second_of(node)
        sizes = [size.constant for size in type_.items if size.constant is not None]
        if type_.text in ("DECIMAL", "DEC", "NUMERIC"):
            texts = [c.text.lstrip("0") or "0" for c in sizes if c.text.isdigit()]
            digits = [int(text) if len(text) <= 2 else literals.MAX_DIGITS + 1 for text in texts]
            precision, scale = ([*digits, 0] if len(digits) == 1 else digits or [10, 0])[:2]
            if (
                len(digits) == len(sizes) <= 2
                and 0 <= scale <= precision <= literals.MAX_DIGITS
                and precision
            ):
                return literals.decimal_type(precision, scale)
        elif type_.text in _TYPES and not sizes:
            return DataType(_TYPES[type_.text])
        self.refuse(f"a cast to {type_.text} is not read", node, cast_instead(type_.text))


def bare(node: Tree) -> Tree:
    """Strip the parentheses around an expression."""
    while node.kind == "parenthesis":
        node = first_of(node)
    return node


_SHIFTS = ("<<", ">>", ">>>")


class ExpressionReader:
    """Converter of the expressions of one parsed predicate into typed expressions."""

    def __init__(self, operands: OperandReader, zone: str, now: int) -> None:
        self.operands = operands
        self.builder = Builder(zone, now)
        self.intervals = IntervalReader(operands, self.builder, self._arg)
        self.lists = ConstantLists(operands, self._arg)
        self.pieces = PieceReader(self.builder, self._arg)
        self.nested = NestedReader(operands, self.builder, self.read)

    def read(self, e: Tree) -> Expression:
        """Convert a parsed node to an expression, with constants folded."""
        reader = self._KINDS.get(e.kind)
        if reader is None:
            return self.operands.constant(e)
        with self.operands.refusing(e):
            return reader(self, e)

    def _negated(self, e: Tree, condition: Expression) -> Expression:
        return self.builder.negate(condition) if e.negated else condition

    def _checked(self, expression: Expression, e: Tree) -> Expression:
        """Return the expression if its values can be computed with."""
        if isinstance(expression, Ref):
            self.operands.comparable(expression.column)
        elif expression.type.name in NESTED:
            reason = f"a value of type {expression.type.sql} is not read here"
            self.operands.refuse(reason, e, "Ask for its elements or fields.")
        return expression

    def _arg(self, e: Tree) -> Expression:
        return self._checked(self.read(e), e)

    def _cast(self, e: Tree) -> Expression:
        try:
            return self.builder.cast(self._arg(first_of(e)), self.operands.cast_to(e), e.text == "TRY_CAST")
        except SparkRaises as wrong:
            if e.text not in TYPED:
                raise
            raise SparkRaises(wrong.reason, "INVALID_TYPED_LITERAL") from wrong

    def _function(self, e: Tree) -> Expression:
        name = e.text.lower()
        if self.intervals.takes_unit(name, e):
            return self.intervals.by_unit(name, e)
        if (piece := self.pieces.read_call(name, e)) is not None:
            return piece
        if name in OVER_ELEMENTS:
            return self.nested.over_elements(name, e)
        calls.check_known(name)
        if name in NESTED_FUNCTIONS or name in ("isnull", "isnotnull"):
            return calls.function(self.builder, name, [self.read(arg) for arg in e.items])
        if name == "equal_null" and len(e.items) == 2 and (alone := self._null_alone(*e.items)) is not None:
            return alone
        # Of the first argument of nvl2, whatever its type, only whether it is NULL is asked.
        conditions = e.items[:1] if name == "nvl2" else ()
        args = [*map(self.read, conditions), *map(self._arg, e.items[len(conditions) :])]
        if name in ("nullif", "equal_null") and len(args) == 2:
            self._check_padding(args[0], args[1], e)
        return calls.function(self.builder, name, args)

    def _arithmetic(self, e: Tree) -> Expression:
        if e.text in _SHIFTS:
            self.operands.unknown(e)
        moved = self.intervals.moved(e.text, e)
        if moved is not None:
            return moved
        sides = [self._arg(first_of(e)), self._arg(second_of(e))]
        if e.text == "||":
            return calls.function(self.builder, "concat", sides)
        return self.builder.arithmetic(e.text.lower(), *sides)

    def _trim(self, e: Tree) -> Expression:
        characters = None if e.second is None else self._arg(e.second)
        return calls.strip(self.builder, e.text.lower(), self._arg(first_of(e)), characters)

    def _case(self, e: Tree) -> Expression:
        pairs, subject = [], None if e.first is None else self._arg(e.first)
        for when, then in zip(e.items[::2], e.items[1::2], strict=True):
            condition = self._arg(when)
            if subject is None and condition.type == VOID:
                reason = mismatch("NULL is not a condition of CASE", "UNEXPECTED_INPUT_TYPE")
                self.operands.refuse(reason, when, "Write CAST(NULL AS BOOLEAN).")
            if subject is not None:
                condition = self._compare("=", subject, condition)
            pairs.append((condition, self._arg(then)))
        return self.builder.case(pairs, Literal(VOID, None) if e.second is None else self._arg(e.second))

    def _is(self, e: Tree) -> Expression:
        if e.text == "NULL":
            return is_null(self.read(first_of(e)))
        truth = self.builder.truth(self._arg(first_of(e)))
        if e.text == "UNKNOWN":
            return is_null(truth)
        return self.builder.compare("<=>", truth, Literal(BOOLEAN, e.text == "TRUE", True))

    def _in(self, e: Tree) -> Expression:
        subject = self._arg(first_of(e))
        assert isinstance(e.items, Listed)
        constants = self.lists.constants(e.items)
        if constants is not None:
            return self.builder.one_of(*self._padded_list(subject, constants))
        items = [self._arg(item) for item in e.items]
        for item in items:
            self._check_padding(subject, item, e)
        return self.builder.equals_any(subject, items)

    def _between(self, e: Tree) -> Expression:
        """Convert BETWEEN into two comparisons, each with its own coercion; Spark pads no CHAR there."""
        value, bounds = asked_twice(self._arg(first_of(e))), [self._arg(bound) for bound in e.items]
        if any(map(_char_length, bounds)):
            self.operands.refuse("a CHAR column as a bound of BETWEEN is not read", e, "Write >= and <=.")
        pairs = zip((">=", "<="), bounds, strict=True)
        return self.builder.connect("and", [self.builder.compare(op, value, bound) for op, bound in pairs])

    def _compared(self, e: Tree) -> Expression:
        if self.intervals.compares(e):
            return self.intervals.compared(e)
        if e.text == "<=>" and (alone := self._null_alone(first_of(e), second_of(e))) is not None:
            return alone
        return self._compare(e.text, self._arg(first_of(e)), self._arg(second_of(e)))

    def _null_alone(self, a: Tree, b: Tree) -> Expression | None:
        """Return a null-safe comparison with NULL as IS NULL; None for another comparison."""
        if "null" not in (bare(a).kind, bare(b).kind):
            return None
        return is_null_alone(self.read(a), self.read(b))

    def _compare(self, op: str, a: Expression, b: Expression) -> Expression:
        """Compare two values; the shorter of a CHAR column and a text or a CHAR column is padded.

        Reading pads the values of CHAR(n) to n characters, and a data file may hold longer ones.
        Source: Spark 4.2, ApplyCharTypePadding; checked against Spark itself by the tests.
        """
        widths = [_width(side) for side in (a, b)]
        if (_char_length(a) or _char_length(b)) and None not in widths:
            longest = max(width for width in widths if width is not None)
            a, b = self._padded(a, longest), self._padded(b, longest)
        return self.builder.compare(op, a, b)

    def _padded_list(self, value: Expression, listed: list[Constants]) -> tuple[Expression, list[Constants]]:
        """Pad a CHAR column and the texts of a list to the length of the longest."""
        if not _char_length(value) or any(constants.type != STRING for constants in listed):
            return value, listed
        texts = [text.decode() for same in listed for text in same.values if isinstance(text, bytes)]
        if len(texts) < sum(len(same.values) for same in listed):
            hint = "Write NULL without a cast, or x = a OR x = b."
            raise NotRead("a NULL cast to STRING in a list makes Spark lose constants of the list", hint)
        width = max(_char_length(value), *map(len, texts))
        return self._padded(value, width), [Constants(STRING, [t.ljust(width).encode() for t in texts])]

    def _padded(self, side: Expression, width: int) -> Expression:
        """Pad or cut a text to a number of characters, unless it has that many."""
        if _width(side) == width:
            return side
        filling = [Literal(INTEGER, width, True), Literal(STRING, b" ", True)]
        return calls.function(self.builder, "rpad", [side, *filling])

    def _check_padding(self, a: Expression, b: Expression, e: Tree) -> None:
        """Refuse a CHAR column where Spark pads it or not by how it rewrites the expression."""
        column = a if _char_length(a) else b
        if _char_length(column) and all(isinstance(s, (Ref, Literal)) and s.type == STRING for s in (a, b)):
            reason = f"CHAR column {show(column)} compared within an expression is not read"
            self.operands.refuse(reason, e, "Write rtrim(column).")

    def _like(self, e: Tree) -> Expression:
        """Convert LIKE, ILIKE or RLIKE, with ESCAPE, ANY, ALL and NOT."""
        value, escape = self._arg(first_of(e)), self._escape(e)
        patterns = e.items if e.second is None else (e.second,)
        matches = [self._one_like(value, self._arg(pattern), e.text, escape) for pattern in patterns]
        conditions = [self._negated(e, match) for match in matches]
        connective = "and" if e.quantifier == "ALL" else "or"
        return conditions[0] if len(conditions) == 1 else self.builder.connect(connective, conditions)

    def _one_like(self, value: Expression, pattern: Expression, name: str, escape: str) -> Expression:
        """Convert the match of a value with a single pattern; `name`: LIKE, ILIKE or RLIKE."""
        if name == "ILIKE":
            value, pattern = (calls.function(self.builder, "lower", [side]) for side in (value, pattern))
        return self.builder.like(value, pattern, escape, "rlike" if name == "RLIKE" else "like")

    def _escape(self, e: Tree) -> str:
        """Return the escape character of wildcards; a backslash by default."""
        if e.escape is None:
            return "\\"
        constant = e.escape.constant
        if constant is None or len(constant.text) != 1 or constant.text in "%_":
            self.operands.refuse("ESCAPE takes one character, which is no wildcard", e.escape)
        return constant.text

    _KINDS: ClassVar[dict[str, Callable[[ExpressionReader, Tree], Expression]]] = {
        "parenthesis": lambda self, e: self.read(first_of(e)),
        "negative": lambda self, e: self.builder.negative(self._arg(first_of(e))),
        "invert": lambda self, e: self.builder.turned(self._arg(first_of(e))),
        "arithmetic": _arithmetic,
        "compare": _compared,
        "cast": _cast,
        "call": _function,
        **dict.fromkeys(("column", "field"), lambda self, e: self.nested.named(e)),
        "element": lambda self, e: self.pieces.element(e) or self.nested.element(e),
        "case": _case,
        "extract": lambda self, e: calls.extracted(self.builder, e.text, self._arg(first_of(e))),
        "trim": _trim,
        "and": lambda self, e: self.builder.connect("and", [self.read(operand) for operand in chain(e)]),
        "or": lambda self, e: self.builder.connect("or", [self.read(operand) for operand in chain(e)]),
        "not": lambda self, e: self.builder.negate(self.read(first_of(e))),
        "is": lambda self, e: self._negated(e, self._is(e)),
        "in": lambda self, e: self._negated(e, self._in(e)),
        "between": lambda self, e: self._negated(e, self._between(e)),
        "like": _like,
    }
    """By kind of a node, its conversion."""


def _char_length(side: Expression) -> int:
    return side.column.type.char_length if isinstance(side, Ref) else 0


def _width(side: Expression) -> int | None:
    """Return the number of characters of a text or a CHAR column; None for all else."""
    if isinstance(side, Literal) and side.type == STRING and isinstance(side.value, bytes):
        return len(side.value.decode())
    return _char_length(side) or None


def chain(e: Tree) -> Iterator[Tree]:
    """Yield the operands of a chain of AND or OR from left to right, including those in parentheses."""
    rest = list(reversed(e.items))
    while rest:
        whole = rest.pop()
        if (inner := bare(whole)).kind == e.kind:
            rest += reversed(inner.items)
        else:
            yield whole


_OF_PIECES = {"size": 0, "cardinality": 0, "array_size": 0, "element_at": 1}
"""Functions that may be applied to split(...), with the number of further arguments."""


class PieceReader:
    """Reader of functions of split(...); `arg` reads an operand."""

    def __init__(self, builder: Builder, arg: Callable[[Tree], Expression]) -> None:
        self.builder, self.arg = builder, arg

    def read_call(self, name: str, e: Tree) -> Expression | None:
        """Convert a function of split(...) to an expression; None for other functions."""
        split = self._split(e.items[0]) if name in _OF_PIECES and e.items else None
        if split is None:
            return None
        more = [self.arg(arg) for arg in e.items[1:]]
        if len(more) != _OF_PIECES[name]:
            raise NotRead(f"{name} takes {1 + _OF_PIECES[name]} arguments, not {1 + len(more)}")
        if not more:
            return calls.pieces(self.builder, split)
        return calls.piece(self.builder, split, more[0], "INVALID_ARRAY_INDEX_IN_ELEMENT_AT")

    def element(self, e: Tree) -> Expression | None:
        """Return the expression of split(...)[n]; None for other nodes."""
        split = self._split(first_of(e))
        return None if split is None else calls.piece(self.builder, split, self.arg(second_of(e)))

    def _split(self, e: Tree) -> list[Expression] | None:
        if e.kind != "call" or e.text.lower() != "split":
            return None
        return [self.arg(arg) for arg in e.items]


class NestedReader:
    """Reader of names and of parts of arrays, maps and structs; `read` reads any expression.

    `elements`: the element variables of the lambdas around an expression, the innermost last.
    """

    def __init__(self, operands: OperandReader, builder: Builder, read: Callable[[Tree], Expression]) -> None:
        self.operands, self.builder, self.read = operands, builder, read
        self.elements: list[Ref] = []

    def named(self, e: Tree) -> Expression:
        """Return the lambda element or column that a name means, or the part of it that the name leads to.

        A name such as `current_date` that no column has is the present moment.
        """
        if e.first is not None:
            return self._inside(self.read(e.first), e.names)
        for element in reversed(self.elements):
            if element.column.name[0].lower() == e.names[0].lower():
                return self._inside(element, e.names[1:])
        try:
            column, rest = self.operands.column(e)
        except UnknownColumnError:
            if len(e.names) > 1 or e.names[0].lower() not in BARE:
                raise
            return calls.function(self.builder, e.names[0].lower(), [])
        return self._inside(Ref(column), rest)

    def _inside(self, value: Expression, names: Sequence[str]) -> Expression:
        for name in names:
            value = nested.extracted(self.builder, value, Literal(STRING, name.encode(), True))
        return value

    def element(self, e: Tree) -> Expression:
        """Return `value[key]`."""
        return nested.extracted(self.builder, self.read(first_of(e)), self.read(second_of(e)))

    def over_elements(self, name: str, e: Tree) -> Expression:
        """Return `exists(array, x -> condition)` or `forall`."""
        if len(e.items) != 2 or e.items[1].kind != "lambda":
            hint = f"Write {name}(a, x -> x > 1)."
            raise NotRead(f"{name} takes an array and a condition on its elements", hint)
        condition = e.items[1]
        if len(condition.names) != 1:
            reason = f"{name} takes a condition on one element (INVALID_LAMBDA_FUNCTION_CALL in Spark)"
            raise NotRead(reason, f"Write {name}(a, x -> x > 1).")
        array = self.read(e.items[0])
        element = nested.variable(condition.names[0], len(self.elements), nested.element_of(name, array))
        self.elements.append(element)
        try:
            body = self.read(first_of(condition))
        finally:
            self.elements.pop()
        return nested.over_elements(self.builder, name, array, element, body)


_MOVED, _BETWEEN = ("dateadd", "date_add", "timestampadd"), ("datediff", "date_diff", "timestampdiff")
_WITH_UNIT = 3
"""Number of arguments of these functions with a leading unit: `dateadd(DAY, 7, dt)`."""


class IntervalReader:
    """Reader of operators with an interval on one side; `arg` reads an operand."""

    def __init__(self, operands: OperandReader, builder: Builder, arg: Callable[[Tree], Expression]) -> None:
        self.operands, self.builder, self.arg = operands, builder, arg

    def moved(self, op: str, e: Tree) -> Expression | None:
        """Return a date or time plus or minus an interval; None if there is no interval."""
        if op not in "+-":
            return None
        if (span := self.operands.interval(second_of(e))) is not None:
            span = span if op == "+" else span.negative()
            return times.later(self.builder, self.arg(first_of(e)), span.unit, span.count)
        if op == "+" and (span := self.operands.interval(first_of(e))) is not None:
            return times.later(self.builder, self.arg(second_of(e)), span.unit, span.count)
        return None

    def compares(self, e: Tree) -> bool:
        """Return whether a comparison compares a difference with an interval."""
        sides = bare(first_of(e)), bare(second_of(e))
        return any(
            side.text == "-" and side.kind == "arithmetic" and self.operands.interval(other) is not None
            for side, other in (sides, sides[::-1])
        )

    def compared(self, e: Tree) -> Expression:
        """Compare a difference of two times with an interval."""
        subtraction, span, op = bare(first_of(e)), self.operands.interval(second_of(e)), e.text
        if span is None:
            subtraction, span, op = (
                bare(second_of(e)),
                self.operands.interval(first_of(e)),
                MIRRORED.get(op, op),
            )
        assert span is not None
        apart = times.difference(
            self.builder, self.arg(first_of(subtraction)), self.arg(second_of(subtraction))
        )
        if span.micros is None:
            reason = "a difference of times does not compare with an INTERVAL of months"
            raise NotRead(mismatch(reason, "BINARY_OP_DIFF_TYPES"), "Write it in days.")
        micros = Literal(LONG, span.micros)
        return self.builder.compare(op, apart, micros)

    def takes_unit(self, name: str, e: Tree) -> bool:
        """Return whether a call starts with a unit of time, as `dateadd(DAY, 7, dt)` does."""
        counted = len(e.items) == _WITH_UNIT or name.startswith("timestamp")
        return counted and name in (*_MOVED, *_BETWEEN)

    def by_unit(self, name: str, e: Tree) -> Expression:
        """Return a time moved by a number of units, or the whole units between two times.

        Source: Spark 4.2, TimestampAdd and TimestampDiff.
        """
        if len(e.items) != _WITH_UNIT:
            raise NotRead(f"{name} takes {_WITH_UNIT} arguments, not {len(e.items)}")
        unit, first, second = e.items
        word = unit.names[0].upper() if unit.kind == "column" and len(unit.names) == 1 else ""
        if datetimes.length_of(word, 1) is None or (word == "DAYOFYEAR" and name in _BETWEEN):
            hint = "Units: YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE, SECOND, MILLISECOND, MICROSECOND."
            self.operands.refuse(f"{name} takes a unit of time first", unit, hint)
        if name in _BETWEEN:
            return times.units_between(self.builder, word, self.arg(first), self.arg(second))
        count, value = self.arg(first), self.arg(second)
        if not isinstance(count, Literal) or count.type.name not in WHOLE or not isinstance(count.value, int):
            self.operands.refuse(f"{name} takes a constant number of units", first)
        length = datetimes.length_of(word, count.value)
        assert length is not None
        return times.later_by_unit(self.builder, value, length.unit, length.count)


class ConstantLists:
    """Converter of the lists of one parsed predicate into constants; `read` converts one item."""

    def __init__(self, operands: OperandReader, read: Callable[[Tree], Expression]) -> None:
        self._operands, self._read = operands, read

    def constants(self, listed: Listed) -> list[Constants] | None:
        """Return the constants of a list by their types; None if an item is no constant."""
        singles = list[Literal]()
        for item in map(listed.__getitem__, listed.others):
            expression = self._read(item)
            if not isinstance(expression, Literal):
                return None
            singles.append(expression)
        constants_by_type = alike(singles)
        for same in listed.alike:
            converted = self._by_form(same) or self._one_by_one(listed, same)
            if converted is None:
                return None
            constants_by_type += converted
        return constants_by_type

    def _one_by_one(self, listed: Listed, same: Alike) -> list[Constants] | None:
        """Return the constants of items of one form, each read by itself; None if they are no constants."""
        listed_at = same.numbers if same.texts else same.numbers[:1]
        read = [self._read(listed[number]) for number in listed_at]
        literals = [item for item in read if isinstance(item, Literal)]
        return alike(literals) if len(literals) == len(read) else None

    def _by_form(self, same: Alike) -> list[Constants] | None:
        """Return the constants of items of one form; None if they must be read by themselves, or refused."""
        try:
            return self._of(same.form.first, same.texts) if same.texts else None
        except ValueError:
            return None

    def _of(self, first: Tree, texts: Sequence[str]) -> list[Constants] | None:
        item = bare(first)
        written = item.constant
        if written is not None and written.kind == "string":
            return [Constants(STRING, [text.encode() for text in texts])]
        if written is not None and written.kind == "number":
            return numbers(texts, written.negative)
        inner = self._of(first_of(item), texts) if item.kind == "cast" else None
        if inner is None:
            return None
        to = self._operands.cast_to(item)
        if any(
            constants.type != STRING and not {constants.type.name, to.name} <= {*NUMERIC}
            for constants in inner
        ):
            return None
        zone, folded = self._operands.zone, to == STRING
        return [Constants(to, cast_all(same, to, zone), same.folded or folded) for same in inner]
