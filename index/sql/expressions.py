"""The parsed tree as expressions: every operator and function that is read, in Spark's order of binding.

sqlglot and Spark bind some operators differently tightly. Where they do, and no parentheses say what is
meant, the text is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from tailbit.errors import UnknownColumnError
from tailbit.index.expression.build import BITWISE, Builder
from tailbit.index.expression.calls import check_known, extracted, function
from tailbit.index.expression.folded import NotRead, asked_twice, is_null
from tailbit.index.expression.present import BARE
from tailbit.index.expression.shapes import strip
from tailbit.index.functions.tree import Expression, Ref
from tailbit.index.sql.interval_reader import IntervalReader
from tailbit.index.sql.operands import OperandReader, Tree, function_of
from tailbit.index.sql.pieces import PieceReader
from tailbit.index.sql.refusals import INSTEAD
from tailbit.index.values.literals import BOOLEAN, STRING, VOID, Literal
from tailbit.index.values.refusals import SparkRaises, mismatch

COMPARISONS = {
    "EQ": "=",
    "NEQ": "<>",
    "LT": "<",
    "LTE": "<=",
    "GT": ">",
    "GTE": ">=",
    "NullSafeEQ": "<=>",
    "NullSafeNEQ": "IS DISTINCT FROM",
}
_BITWISE = {"BitwiseAnd": "&", "BitwiseXor": "^", "BitwiseOr": "|"}
_ARITHMETIC = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Mod": "%", "IntDiv": "div"}
_LIKES = ("Like", "ILike", "RegexpLike", "Escape")
_LOOSE = (*_LIKES, "In", "Between", "Not", "And", "Or")
"""What binds less tightly to Spark than a comparison."""

_PARENTHESES = "Put it in parentheses: Spark would read it otherwise, or not at all."


class ExpressionReader:
    """Turns the expressions of one parsed predicate into typed ones."""

    def __init__(self, operands: OperandReader, zone: str, now: int) -> None:
        self.operands = operands
        self.builder = Builder(zone, now)
        self.intervals = IntervalReader(operands, self.builder, self._arg)
        self.pieces = PieceReader(operands, self.builder, self._arg)
        self.kinds: dict[str, Callable[[Any], Expression]] = {
            "Paren": lambda e: self.read(e.this),
            "Neg": self._negative,
            "Cast": self._cast,
            "TryCast": self._cast,
            "Anonymous": self._function,
            "Bracket": lambda e: self.pieces.element(e),
            "DPipe": self._joined,
            "Case": self._case,
            "Extract": self._extract,
            "Trim": self._trim,
            "BitwiseNot": lambda e: self.builder.turned(self._arg(e.this)),
            **dict.fromkeys(_BITWISE, self._bitwise),
            "And": lambda e: self.builder.connect("and", [self.read(part) for part in chain(e)]),
            "Or": lambda e: self.builder.connect("or", [self.read(part) for part in chain(e)]),
            "Not": lambda e: self.builder.negate(self.read(e.this)),
            "Is": self._is,
            "In": self._in,
            "Between": self._between,
            **dict.fromkeys(_LIKES, self.like),
            **dict.fromkeys(_ARITHMETIC, self._arithmetic),
            **dict.fromkeys(COMPARISONS, self._compared),
        }

    def read(self, e: Tree) -> Expression:
        """The expression, its constants folded.

        Raises:
            PredicateError: it is not read; names the construct and its place.
            UnknownColumnError: no such column.
        """
        made = self.kinds.get(type(e).__name__)
        if made is None:
            return self._operand(e)
        try:
            return made(e)
        except NotRead as wrong:
            self._refuse(wrong, e)
        except (ValueError, OverflowError) as wrong:
            self.operands.refuse(str(wrong), e)

    def _operand(self, e: Tree) -> Expression:
        """A constant or a column; where no column has the name, the moment that it stands for."""
        try:
            found = self.operands.read(e)
        except UnknownColumnError:
            if type(e).__name__ != "Column" or len(e.parts) > 1 or e.name.lower() not in BARE:
                raise
            return function(self.builder, e.name.lower(), [])
        return found if isinstance(found, Literal) else Ref(found)

    def _refuse(self, wrong: NotRead, e: Tree) -> NoReturn:
        called = function_of(e) if type(e).__name__ == "Anonymous" else None
        if called is None:
            self.operands.refuse(str(wrong), e, wrong.hint)
        self.operands.refuse_at(str(wrong), called[0], wrong.hint)

    def side(self, e: Tree, right: bool = False) -> Expression:
        """An operand of a comparison, which must bind more tightly than that."""
        name = type(e).__name__
        if name in _LOOSE or (right and name in COMPARISONS):
            self.operands.refuse(f"{e.key.upper()} as part of a comparison is not read", e, _PARENTHESES)
        return self.read(e)

    def checked(self, expression: Expression, e: Tree) -> Expression:
        """The expression, if the values of its columns can be computed with.

        Raises:
            ColumnTypeError: they cannot.
        """
        if isinstance(expression, Ref):
            self.operands.comparable(expression.column)
        return expression

    def _arg(self, e: Tree) -> Expression:
        return self.checked(self.read(e), e)

    def _negative(self, e: Tree) -> Expression:
        return self.operands.negative_number(e) or self.builder.negative(self._arg(e.this))

    def _cast(self, e: Tree) -> Expression:
        to, tried = self.operands.cast_to(e), bool(e.args.get("safe"))
        try:
            return self.builder.cast(self._arg(e.this), to, tried)
        except SparkRaises as wrong:
            if type(e).__name__ != "Cast":  # else the type stands before the constant, as in DATE'2026-01-31'
                raise
            raise SparkRaises(wrong.reason, "INVALID_TYPED_LITERAL") from wrong

    def _function(self, e: Tree) -> Expression:
        called = function_of(e)
        name = str(e.this).lower() if called is None else called[1].lower()
        if called is None and name != "regexp":
            self.operands.unknown(e)
        if self.intervals.takes_unit(name, e):
            return self.intervals.by_unit(name, e)
        if (found := self.pieces.asked(name, e)) is not None:
            return found
        check_known(name)
        args = [self._arg(arg) for arg in e.expressions]
        if name in ("nullif", "equal_null") and len(args) == 2:
            self._check_padding(args[0], args[1], e)
        return function(self.builder, name, args)

    def _arithmetic(self, e: Tree) -> Expression:
        op = _ARITHMETIC[type(e).__name__]
        moved = self.intervals.moved(op, e)
        return moved or self.builder.arithmetic(op, self._arg(e.this), self._arg(e.expression))

    def _bitwise(self, e: Tree) -> Expression:
        op = _BITWISE[type(e).__name__]
        inner = _BITWISE.get(type(e.this).__name__, op)
        if BITWISE.index(inner) > BITWISE.index(op):
            self.operands.refuse(f"{inner} before {op} is not read", e, _PARENTHESES)
        return self.builder.arithmetic(op, self._arg(e.this), self._arg(e.expression))

    def _trim(self, e: Tree) -> Expression:
        side, chars = str(e.args.get("position") or "both").lower(), e.expression
        return strip(self.builder, side, self._arg(e.this), None if chars is None else self._arg(chars))

    def _joined(self, e: Tree) -> Expression:
        if type(e.expression).__name__ in ("Add", "Sub") or type(e.this).__name__ in _BITWISE:
            self.operands.refuse("|| beside + - & | ^ is not read", e, _PARENTHESES)
        return function(self.builder, "concat", [self._arg(e.this), self._arg(e.expression)])

    def _case(self, e: Tree) -> Expression:
        pairs, subject = [], None if e.this is None else self._arg(e.this)
        for branch in e.args["ifs"]:
            condition = self._arg(branch.this)
            if subject is None and condition.type == VOID:
                reason = mismatch("NULL is not a condition of CASE", "UNEXPECTED_INPUT_TYPE")
                self.operands.refuse(reason, branch.this, "Write CAST(NULL AS BOOLEAN).")
            if subject is not None:
                condition = self._compare("=", subject, condition, branch.this)
            pairs.append((condition, self._arg(branch.args["true"])))
        other = e.args.get("default")
        return self.builder.case(pairs, Literal(VOID, None) if other is None else self._arg(other))

    def _extract(self, e: Tree) -> Expression:
        return extracted(self.builder, e.this.name, self._arg(e.expression))

    def _is(self, e: Tree) -> Expression:
        kind = type(e.expression).__name__
        if kind == "Null":
            return is_null(self.read(e.this))
        if is_unknown(e):
            return is_null(self.builder.truth(self._arg(e.this)))
        if kind != "Boolean":
            self.operands.refuse(f"IS {e.expression.key.upper()} is not read", e)
        wanted = Literal(BOOLEAN, bool(e.expression.this), True)
        return self.builder.compare("<=>", self.builder.truth(self._arg(e.this)), wanted)

    def _in(self, e: Tree) -> Expression:
        if not e.expressions:
            self.refuse_in(e)
        subject = self._arg(e.this)
        items = [self._arg(item) for item in e.expressions]
        for item in items:
            self._check_padding(subject, item, e)
        return self.builder.one_of(subject, items)

    def refuse_in(self, e: Tree) -> NoReturn:
        """Refuse an IN without a list."""
        if e.args.get("query") is not None:
            self.operands.refuse("IN takes a list of values, not a query", e, INSTEAD["Select"])
        self.operands.refuse("IN takes a list of values in parentheses", e, "Write IN (1, 2).")

    def _between(self, e: Tree) -> Expression:
        value = asked_twice(self._arg(e.this))
        low = self._compare(">=", value, self._arg(e.args["low"]), e)
        return self.builder.connect("and", [low, self._compare("<=", value, self._arg(e.args["high"]), e)])

    def _compared(self, e: Tree) -> Expression:
        op = COMPARISONS[type(e).__name__]
        if self.intervals.compares(e):
            return self.intervals.compared(op, e)
        left, right = self.checked(self.side(e.this), e), self.checked(self.side(e.expression, True), e)
        if op == "IS DISTINCT FROM":
            return self.builder.negate(self._compare("<=>", left, right, e))
        return self._compare(op, left, right, e)

    def _compare(self, op: str, left: Expression, right: Expression, e: Tree) -> Expression:
        self._check_padding(left, right, e)
        return self.builder.compare(op, left, right)

    def _check_padding(self, left: Expression, right: Expression, e: Tree) -> None:
        """CHAR columns are filled up before they are compared, which is done for conditions alone."""
        sides = (left, right)
        padded = [s for s in sides if isinstance(s, Ref) and s.column.type.char_length]
        if padded and all(isinstance(s, (Ref, Literal)) and s.type == STRING for s in sides):
            self.operands.refuse(
                f"CHAR column {padded[0].column.label} compared within an expression is not read",
                e,
                "Write rtrim(column).",
            )

    def like(self, e: Tree) -> Expression:
        """LIKE, ILIKE or RLIKE, with ESCAPE, ANY, ALL and NOT."""
        value, patterns, whole, name, escape, negated = self.parts_of_like(e)
        found = [self.one_like(value, self._arg(pattern), name, escape) for pattern in patterns]
        found = [self.builder.negate(part) for part in found] if negated else found
        return found[0] if len(found) == 1 else self.builder.connect("and" if whole else "or", found)

    def one_like(self, value: Expression, pattern: Expression, name: str, escape: str) -> Expression:
        """One value against one pattern."""
        if name == "ILike":
            value, pattern = (function(self.builder, "lower", [side]) for side in (value, pattern))
        return self.builder.like(value, pattern, escape, "rlike" if name == "RegexpLike" else "like")

    def parts_of_like(self, e: Tree) -> tuple[Expression, list[Tree], bool, str, str, bool]:
        """Value, patterns, whether ALL of them, the operator, the escape, and whether NOT stands there."""
        escape = "\\"
        if type(e).__name__ == "Escape":
            constant = self.operands.constant(e.expression)
            if constant is None or len(constant.text) != 1 or constant.text in "%_":
                self.operands.refuse("ESCAPE takes one character, which is no wildcard", e.expression)
            escape, e = constant.text, e.this
        name, pattern = type(e).__name__, e.expression
        quantifier = type(pattern).__name__
        if e.args.get("flag") is not None:
            self.operands.refuse("rlike takes 2 arguments, not 3 (WRONG_NUM_ARGS in Spark)", e)
        if type(e.this).__name__ in _LOOSE or type(pattern).__name__ in (*_LOOSE, *COMPARISONS):
            self.operands.refuse(f"{e.key.upper()} beside another condition is not read", e, _PARENTHESES)
        patterns = [pattern]
        if quantifier in ("Any", "All"):
            listed = pattern.this
            if name == "RegexpLike" or escape != "\\":
                self.operands.refuse(f"{quantifier.upper()} is not read here", e, "Write OR and AND.")
            patterns = listed.expressions if type(listed).__name__ == "Tuple" else [listed]
        return self._arg(e.this), patterns, quantifier == "All", name, escape, bool(e.args.get("negate"))


def is_unknown(e: Tree) -> bool:
    """Whether an IS asks for UNKNOWN, which sqlglot takes for a column."""
    return type(e.expression).__name__ == "Column" and e.expression.name.upper() == "UNKNOWN"


def chain(e: Tree) -> Iterator[Tree]:
    """The operands of a chain of one connective, left to right, however they are put in parentheses."""
    kind, rest = type(e), [e]
    while rest:
        whole = at = rest.pop()
        while type(at).__name__ == "Paren":
            at = at.this
        if type(at) is kind:
            rest += [at.expression, at.this]
        else:
            yield whole
