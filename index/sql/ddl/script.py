"""Several index statements in one text, with semicolons between, as an export of indexes is written.

SET TIME ZONE 'zone'       of the terms of the statements that follow
CREATE INDEX ...
ALTER INDEX ... REBUILD
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tailbit.arguments.moments import known_zone
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import PredicateError, StatementError, UsageError
from tailbit.index.sql.ddl.parser import parse_statement
from tailbit.index.sql.ddl.refusals import refuse_statement
from tailbit.index.sql.ddl.statements import CreateIndex, RebuildIndex, string_text
from tailbit.index.sql.syntax.tokens import Token, tokens_of

_KINDS = "Statements of such a text: CREATE INDEX, ALTER INDEX ... REBUILD, SET TIME ZONE 'zone'."
_SET = ("SET", "TIME", "ZONE")


@dataclass(frozen=True)
class Scripted:
    """A statement of a script, and the session time zone of its terms."""

    statement: CreateIndex | RebuildIndex
    zone: str = "UTC"


def parse_script(text: str) -> list[Scripted]:
    """Return the statements of a text in their order; an empty text has none.

    Raises:
        StatementError: a statement is none of those, or is wrong: names its line if the text has several.
    """
    try:
        pieces = list(_pieces(tokens_of(text)))
    except PredicateError as wrong:
        raise StatementError(statement=text, reason=wrong.fields["reason"], hint=wrong.hint) from None
    zone, scripted = "UTC", []
    for piece in pieces:
        written = text[piece[0].start : piece[-1].end]
        try:
            if [token.text for token in piece[:2]] == list(_SET[:2]):
                zone = _zone(written, piece)
                continue
            statement = parse_statement(written)
            if not isinstance(statement, (CreateIndex, RebuildIndex)):
                refuse_statement(written, "it makes no index", hint=_KINDS)
        except StatementError as wrong:
            if len(pieces) == 1:
                raise
            line = 1 + text.count("\n", 0, piece[0].start)
            reason = f"line {line}: {wrong.fields['reason']}"
            raise StatementError(**{**wrong.fields, "reason": reason, "hint": wrong.hint}) from None
        scripted.append(Scripted(statement, zone))
    return scripted


def _pieces(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Yield the tokens of each statement, without the semicolons between."""
    piece: list[Token] = []
    for token in tokens:
        if token.kind == "end" or (token.kind == "sign" and token.text == ";"):
            if piece:
                yield piece
            piece = []
        else:
            piece.append(token)


def _zone(written: str, piece: Sequence[Token]) -> str:
    """Return the time zone that SET TIME ZONE names."""
    if [token.text for token in piece[:3]] != list(_SET) or len(piece) != 4 or piece[3].kind != "string":
        refuse_statement(written, "it is no SET TIME ZONE", hint="Write SET TIME ZONE 'Europe/Berlin'.")
    try:
        return known_zone("zone", piece[3].text)
    except UsageError as unknown:
        refuse_statement(written, str(unknown), hint=unknown.hint)


def script_of(statements: Sequence[Scripted]) -> str:
    """Return a text that `parse_script` reads: a statement a line.

    >>> from tailbit.index.sql.ddl.parser import parse_statement
    >>> print(script_of([Scripted(parse_statement("CREATE INDEX d ON t (date(ts))"), "Asia/Tokyo")]), end="")
    SET TIME ZONE 'Asia/Tokyo';
    CREATE INDEX d ON t USING bitmap (date(ts));
    """
    zone, lines = "UTC", []
    for scripted in statements:
        if scripted.zone != zone:
            zone = scripted.zone
            lines.append(f"SET TIME ZONE {string_text(zone)};")
        lines.append(f"{scripted.statement};")
    return "".join(f"{line}\n" for line in lines)
