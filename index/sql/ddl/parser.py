"""Parser of index statements; Hudi, Hive and Spark each have some of the clauses.

    CREATE INDEX (IF NOT EXISTS)? name ON TABLE? table (USING kind)? (term (OPTIONS (pairs))?, ...) clause*
    clause:     USING kind | AS kind | OPTIONS (pairs) | WHERE condition | WITH DEFERRED REBUILD
                | IDXPROPERTIES (pairs) | COMMENT text
    DROP INDEX (IF EXISTS)? name ON TABLE? table
    ALTER INDEX name ON TABLE? table (PARTITION (column = value, ...))? REBUILD (WHERE condition)?
    REFRESH INDEX name ON TABLE? table (PARTITION (column = value, ...))? (WHERE condition)?
    SHOW FORMATTED? (INDEX | INDEXES) (FROM | ON | IN) TABLE? table ((FROM | IN) schema)?
    (DESCRIBE | DESC) INDEX (FORMATTED | EXTENDED)? name ON TABLE? table

Clauses stand in any order, each once. Terms and conditions are those of the predicate language.

Source: Apache Hudi 1.0, HoodieSqlCommon.g4; Apache Hive 2.3, IndexDev and LanguageManual DDL.

Several index statements in one text, with semicolons between, as an export of indexes is written.

    SET TIME ZONE 'zone'       of the terms of the statements that follow
    CREATE INDEX ...
    ALTER INDEX ... REBUILD
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field

from tailbit.arguments.values import known_zone
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import PredicateError, StatementError, UsageError
from tailbit.index.kinds.schemas import DEFINABLE
from tailbit.index.sql.ddl.pieces import FUNCTION, PieceParser, Properties, applied
from tailbit.index.sql.ddl.refusals import (
    BEFORE_INDEX,
    CHANGES,
    MEANINGLESS,
    USAGE,
    refuse_other,
    refuse_statement,
)
from tailbit.index.sql.ddl.statements import (
    DEFAULT,
    CreateIndex,
    DescribeIndex,
    DropIndex,
    RebuildIndex,
    ShowIndexes,
    Statement,
    TableReference,
    WrittenExpression,
    WrongKind,
    check_option,
    kind_named,
    string_text,
)
from tailbit.index.sql.syntax.parser import FLATTEN
from tailbit.index.sql.syntax.tokens import Token, tokens_of

_END = "the end"
_CLAUSES = ("USING", "AS", "OPTIONS", "WHERE", "WITH", "IDXPROPERTIES", "COMMENT")
_FORMATTED = ("FORMATTED", "EXTENDED")


def parse_statement(text: str) -> Statement:
    """Return the value of an index statement; nothing is carried out.

    Raises:
        StatementError: the text is no index statement, or names what does not exist; the error says where,
            what was expected there, and what to write.

    >>> print(parse_statement("create index by_day on t using bitmap(ts) options(expr='to_date');"))
    CREATE INDEX by_day ON t USING bitmap (to_date(ts))
    """
    try:
        return StatementParser(text, tokens_of(text)).statement()
    except PredicateError as wrong:
        raise StatementError(statement=text, reason=wrong.fields["reason"], hint=wrong.hint) from None
    except RecursionError:
        refuse_statement(text, "it is nested too deeply", hint=FLATTEN)


@dataclass
class _Clauses:
    words: set[str] = field(default_factory=set)
    kind: str = DEFAULT
    options: Properties = field(default_factory=dict)
    properties: Properties = field(default_factory=dict)
    only: WrittenExpression | None = None
    deferred: bool = False
    comment: str = ""


class StatementParser(PieceParser):
    """A recursive descent parser over the tokens of one statement."""

    def statement(self) -> Statement:
        """Take the whole text."""
        first = self.token
        self.usage = StatementError.hint
        if first.kind == "end" or self.is_sign(";"):
            refuse_statement(self.text, "it is empty", hint=self.usage)
        refuse_other(self.text, self.tokens)
        self.usage = USAGE.get(self.word, self.usage)
        verb = self.needs(*USAGE)
        if verb == "CREATE":
            return self._ended(self._create(), *_CLAUSES)
        if verb == "DROP":
            return self._ended(self._drop())
        if verb == "SHOW":
            return self._ended(self._show())
        if verb in ("ALTER", "REFRESH"):
            return self._ended(self._rebuild(verb))
        return self._ended(self._describe())

    def _ended(self, statement: Statement, *further: str) -> Statement:
        """Return a statement if the text ends behind it, else refuse it.

        `further`: clauses that could follow the statement.
        """
        semicolon = self.is_sign(";")
        while self.takes_sign(";"):
            pass
        if self.token.kind != "end" and semicolon:
            reason = "a second statement follows"
            refuse_statement(self.text, reason, self.token.start, "Run one statement at a time.")
        if self.token.kind != "end":
            self.expect(*further, _END)
        return statement

    def _if(self, *words: str) -> bool:
        """Take IF and the words behind it, if IF comes next."""
        return self.takes_word("IF") and all(self.needs(word) for word in words)

    def _named(self) -> tuple[str, TableReference]:
        name = self.name("the name of an index")
        self._refuse_change()
        self.needs("ON")
        return name, self.table()

    def _refuse_change(self) -> None:
        if self.word in CHANGES:
            reason = f"an index is not changed by {self.shown()}"
            refuse_statement(self.text, reason, self.token.start, CHANGES[self.word])

    def _create(self) -> CreateIndex:
        if self.word in BEFORE_INDEX:
            reason = f"{self.shown()} stands between CREATE and INDEX"
            refuse_statement(self.text, reason, self.token.start, BEFORE_INDEX[self.word])
        self.needs("INDEX")
        absent = self._if("NOT", "EXISTS")
        name, table = self._named()
        given = _Clauses()
        if self.word in ("USING", "AS"):
            self._clause(given)
        if not self.is_sign("("):
            self.expect("(", *(() if given.words else ("USING",)))
        terms = self.terms()
        while self._clause(given):
            pass
        terms, options = self._applied(terms, given.options)
        for key, option in options.items():
            self._check_option(given.kind, key, option.value, option.key_place)
        for key, note in given.properties.items():
            if key.lower() in DEFINABLE[given.kind].options:
                hint = f"Write OPTIONS ({key} = '{note.value}')."
                refuse_statement(self.text, f"{key} is an option, not a note", note.key_place, hint)
        return CreateIndex(
            name, table, terms, given.kind, _values(options), given.only, given.deferred, absent,
            _values(given.properties), given.comment,
        )  # fmt: skip

    def _clause(self, given: _Clauses) -> bool:
        """Take a clause of CREATE INDEX if one comes next; return whether there was one."""
        self._refuse_meaningless()
        word, place = self.word, self.token.start
        if word not in _CLAUSES:
            return False
        clause = "the kind" if word in ("USING", "AS") else word
        if clause in given.words:
            refuse_statement(self.text, f"{clause} stands twice", place, "Leave one out.")
        given.words.add(clause)
        self.advance()
        if clause == "the kind":
            given.kind = self._kind()
        elif word == "OPTIONS":
            given.options = self.pairs()
        elif word == "IDXPROPERTIES":
            given.properties = self.pairs(keep_case=True)
        elif word == "WHERE":
            given.only = self.expression("a condition on partition columns")
        elif word == "WITH":
            given.deferred = bool(self.needs("DEFERRED") and self.needs("REBUILD"))
        elif self.token.kind != "string":
            self.expect("a text in quotes")
        else:
            given.comment = self.advance().text
        return True

    def _refuse_meaningless(self) -> None:
        words = tuple(
            token.text if token.kind == "word" else "" for token in self.tokens[self.position :][:2]
        )
        for meaningless, hint in MEANINGLESS.items():
            if words[: len(meaningless)] == meaningless:
                reason = f"{' '.join(meaningless)} has no meaning for an index"
                refuse_statement(self.text, reason, self.token.start, hint)

    def _kind(self) -> str:
        token = self.token
        if token.kind not in ("word", "name", "string") or self.is_sign("("):
            self.expect("a kind of index")
        name = token.text if token.kind == "string" else self._field()
        if token.kind == "string":
            self.advance()
        try:
            return kind_named(name)
        except WrongKind as wrong:
            refuse_statement(self.text, str(wrong), token.start, wrong.hint)

    def _applied(
        self, terms: tuple[WrittenExpression, ...], options: Properties
    ) -> tuple[tuple[WrittenExpression, ...], Properties]:
        """Return the terms with the function that the options name, and the options that are left."""
        named = next((options[key] for key in FUNCTION if key in options), None)
        if named is None:
            return terms, options
        if len(terms) > 1:
            reason = f"expr is applied to one column, and the index has {len(terms)} terms"
            hint = "Write the expression itself among the terms: (date_trunc('hour', ts), carrier)."
            refuse_statement(self.text, reason, named.key_place, hint)
        term, rest = applied(self.text, terms[0], options)
        return (term,), rest

    def _check_option(self, kind: str, key: str, value: str, place: int) -> None:
        try:
            check_option(kind, key, value)
        except WrongKind as wrong:
            refuse_statement(self.text, str(wrong), place, wrong.hint)

    def _drop(self) -> DropIndex:
        self.needs("INDEX")
        present = self._if("EXISTS")
        return DropIndex(*self._named(), present)

    def _rebuild(self, verb: str) -> RebuildIndex:
        self.needs("INDEX")
        name, table = self._named()
        self._refuse_change()
        only = self.partition() if self.takes_word("PARTITION") else None
        if verb == "ALTER":
            self.needs("REBUILD", *(("PARTITION",) if only is None else ()))
        if only is None and self.takes_word("WHERE"):
            only = self.expression("a condition on partition columns")
        return RebuildIndex(name, table, only)

    def _show(self) -> ShowIndexes:
        formatted = self.takes_word("FORMATTED")
        self.needs("INDEXES", "INDEX")
        self.needs("FROM", "ON", "IN")
        table = self.table()
        if table.kind == "name" and len(table.parts) == 1 and self.word in ("FROM", "IN"):
            last = self.tokens[self.position - 1]
            self.advance()
            table = self.reference(last, last, [self.name("the name of a schema"), *table.parts])
        return ShowIndexes(table, formatted)

    def _describe(self) -> DescribeIndex:
        formatted = self.word in _FORMATTED and bool(self.advance())
        self.needs("INDEX")
        if self.word in _FORMATTED and self.tokens[self.position + 1].text != "ON":
            formatted = bool(self.advance())
        return DescribeIndex(*self._named(), formatted)


def _values(properties: Properties) -> dict[str, str]:
    return {key: given.value for key, given in properties.items()}


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
