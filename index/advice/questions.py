"""How many questions in a file name each column: a question is a predicate, or a SELECT with a WHERE."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tailbit.errors import UsageError
from tailbit.index.predicate.walks import columns_of
from tailbit.index.sql.bind import bind
from tailbit.index.sql.syntax.tokens import tokens_of
from tailbit.tables.schema import Schema

_COMMENTS = ("#", "--")

_ENDS = frozenset("GROUP ORDER HAVING LIMIT OFFSET QUALIFY CLUSTER DISTRIBUTE SORT WINDOW".split())
"""Keywords that end the WHERE clause of a SELECT, outside parentheses."""


def asked_about(lines: Iterable[str], schema: Schema) -> dict[str, int]:
    """Return for each column id the number of questions that name the column.

    Blank lines and those that begin with # or -- are no questions. The lines

        carrier = 'UA'
        SELECT * FROM flights WHERE carrier = 'DL' AND dest = 'SFO' LIMIT 5

    give carrier 2 and dest 1.

    Raises:
        UsageError: a question is not understood; says in which line.
    """
    questions: Counter[str] = Counter()
    for number, line in enumerate(lines, 1):
        question = line.strip().rstrip(";")
        if not question or question.startswith(_COMMENTS):
            continue
        try:
            where = _where(question) if question[:6].upper() == "SELECT" else question
            if where is not None:
                questions.update(column.id for column in columns_of(bind(where, schema)))
        except UsageError as wrong:
            raise UsageError(
                reason=f"question {number} is not understood: {wrong}",
                hint="Write a predicate a line, or a SELECT of this table alone with its WHERE.",
            ) from wrong
    return dict(questions)


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
