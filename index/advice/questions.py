"""The questions in a file: each is a predicate, or a SELECT with a WHERE; and what they ask about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import TailbitError, UsageError
from tailbit.index.functions.tree import Call, Ref, columns_in
from tailbit.index.model import Term
from tailbit.index.predicate.tree import Node
from tailbit.index.sql.bind import bind
from tailbit.index.sql.syntax.parser import parse_predicate
from tailbit.index.sql.syntax.tokens import tokens_of
from tailbit.index.sql.syntax.tree import Tree
from tailbit.index.sql.terms import expression_of, term_of
from tailbit.tables.schema import Schema

_COMMENTS = ("#", "--")

_ENDS = frozenset("GROUP ORDER HAVING LIMIT OFFSET QUALIFY CLUSTER DISTRIBUTE SORT WINDOW".split())
"""Keywords that end the WHERE clause of a SELECT, outside parentheses."""

_LOGIC = frozenset(("and", "or", "not", "parenthesis"))
_CONDITIONS = frozenset(("compare", "in", "between", "like", "is"))


@dataclass(frozen=True, slots=True)
class Question:
    """The condition of a question: its text, and the tree bound to the columns of a schema.

    `table`: the table's own name, which may stand before the name of a column.
    """

    text: str
    node: Node
    schema: Schema
    table: str = ""

    def operands(self) -> Iterator[tuple[Term, Ref | Call]]:
        """Yield the columns and expressions that the conditions compare and that an index could keep."""
        for tree in _operands(parse_predicate(self.text)):
            text = self.text[tree.start : tree.end]
            try:
                term = term_of(text, self.schema, table=self.table)
                expression = expression_of(text, self.schema, table=self.table)
            except TailbitError:
                continue
            if columns_in(expression) and isinstance(expression, (Ref, Call)):
                yield term, expression


def _operands(tree: Tree) -> Iterator[Tree]:
    """Yield the operands of the comparisons in a condition."""
    parts = [part for part in (tree.first, tree.second, *tree.items) if part is not None]
    if tree.kind in _LOGIC:
        for part in parts:
            yield from _operands(part)
    elif tree.kind in _CONDITIONS:
        yield from map(_bare, parts)


def _bare(tree: Tree) -> Tree:
    """Return the operand without the parentheses around it."""
    return _bare(tree.first) if tree.kind == "parenthesis" and tree.first is not None else tree


def read_questions(lines: Iterable[str], schema: Schema, table: str) -> list[Question]:
    """Return the conditions of the questions, bound to a schema; a SELECT without WHERE has none.

    Blank lines and those that begin with # or -- are no questions.

    Raises:
        UsageError: a question is not understood; says in which line.
    """
    out = []
    for number, line in enumerate(lines, 1):
        question = line.strip().rstrip(";")
        if not question or question.startswith(_COMMENTS):
            continue
        try:
            where = _where(question) if question[:6].upper() == "SELECT" else question
            if where is not None:
                node = bind(where.strip(), schema, table=table)
                out.append(Question(where.strip(), node, schema, table))
        except UsageError as wrong:
            raise UsageError(
                reason=f"question {number} is not understood: {wrong}",
                hint="Write a predicate a line, or a SELECT of this table alone with its WHERE.",
            ) from wrong
    return out


def _where(statement: str) -> str | None:
    """Return the text of the WHERE clause of a SELECT; None if it has none."""
    depth, start = 0, None
    for token in tokens_of(statement):
        if token.kind == "sign":
            depth += (token.text == "(") - (token.text == ")")
        elif depth == 0 and token.kind == "word" and token.text == "WHERE":
            start = token.end
        elif depth == 0 and start is not None and token.kind == "word" and token.text in _ENDS:
            return statement[start : token.start]
    return None if start is None else statement[start:]
