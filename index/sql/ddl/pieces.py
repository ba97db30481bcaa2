"""Parser of the pieces of statements: names, tables, terms, conditions and pairs of keys and values.

The function that Hudi's OPTIONS (expr = ...) names, applied to a column as Spark's SQL text.

    USING column_stats (ts) OPTIONS (expr = 'from_unixtime', format = 'yyyy-MM-dd')
        from_unixtime(ts, 'yyyy-MM-dd')

Source: Apache Hudi 1.0, ExpressionIndexSparkFunctions; `date_trunc`, `trunc` and functions of one argument
are not among those.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple, NoReturn

from tailbit.base.wording import did_you_mean
from tailbit.index.sql.ddl.refusals import either, refuse_statement
from tailbit.index.sql.ddl.statements import (
    EVERY,
    RESERVED,
    TableReference,
    WrittenExpression,
    name_text,
    string_text,
)
from tailbit.index.sql.syntax.parser import Parser
from tailbit.index.sql.syntax.tokens import Token
from tailbit.index.values.literals import NotRead
from tailbit.tables.formats import NAMES

_MOST_NAMES = 3
"""Names of a table in a catalog: the catalog, the schema, the table."""
_FORMATS = ("parquet", "orc", "csv", "json", "avro")
_PATHS = "The path of a table stands in quotes: '/data/t'."
_SHOWN = 30
_CONSTANTS = ("constant", "cast", "null", "true", "false")
"""Kinds of trees of a partition's value; a date is a cast."""
_ORDERS = ("ASC", "DESC", "NULLS")


class PieceParser(Parser):
    """A parser whose methods take one piece each; `usage`: how the statement is written, for errors."""

    usage = ""
    expression_at = 0
    """The index of the token that begins the expression being parsed."""

    def stop(self, token: Token | None = None) -> NoReturn:
        """Refuse the statement from a token of an expression on, by default the current one."""
        # Imported here, since only refusals need it.
        from tailbit.index.sql.syntax.hints import GENERAL, stopped

        place = self.position if token is None else self.tokens.index(token)
        first = self.expression_at
        reason, start, hint = stopped(self.text, self.tokens[first:], place - first)
        refuse_statement(self.text, reason, start, self.usage if hint == GENERAL else hint)

    def expect(self, *words: str) -> NoReturn:
        """Refuse the statement at the current token, where one of some words or pieces is wanted."""
        token = self.token
        meant = did_you_mean(token.text, words) if token.kind == "word" else ""
        hint = f"{meant} {self.usage}".strip()
        if token.kind == "end" or self.is_sign(";"):
            refuse_statement(self.text, f"it ends where {either(words)} is expected", self.last_end, hint)
        reason = f"{self.shown()} stands where {either(words)} is expected"
        refuse_statement(self.text, reason, token.start, hint)

    def shown(self) -> str:
        """Return the current token as written, cut if it is long."""
        text = self.text[self.token.start : self.token.end]
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."

    def needs(self, *words: str) -> str:
        """Take one of some keywords or signs and return it; refuse the statement if none comes next."""
        if self.token.kind not in ("word", "sign") or self.token.text not in words:
            self.expect(*words)
        return self.advance().text

    def name(self, noun: str) -> str:
        """Take a name, quoted by backticks or not."""
        token = self.token
        if token.kind == "string":
            hint = f"Write it without quotes, or in backticks: {name_text(token.text)}"
            refuse_statement(self.text, f"{noun} stands in quotes", token.start, hint)
        if token.kind not in ("word", "name") or (token.kind == "word" and token.text in RESERVED):
            self.expect(noun)
        name = self._field()
        if not name:
            refuse_statement(self.text, f"{noun} is empty", token.start, self.usage)
        ahead = self.token
        if ahead.kind == "sign" and ahead.start == token.end and ahead.text in ("-", "/", ":"):
            reason = f"a {ahead.text} stands within {noun}"
            refuse_statement(self.text, reason, ahead.start, f"Put a name in backticks: `my-index`. {_PATHS}")
        return name

    def table(self) -> TableReference:
        """Take the reference of a table: a path in quotes or backticks, or names with dots between."""
        if self.word == "TABLE" and self.tokens[self.position + 1].kind in ("word", "name", "string"):
            self.advance()
        first = self.token
        if first.kind == "string" and first.text:
            return TableReference("path", (self.advance().text,), first.start)
        if first.kind == "string":
            refuse_statement(self.text, "the path of the table is empty", first.start, self.usage)
        if first.kind == "sign" and first.text in ("/", ".", "~"):
            refuse_statement(self.text, "the path of a table has no quotes", first.start, _PATHS)
        last, names = first, [self.name("the name of a table")]
        while self.takes_sign("."):
            last = self.token
            names.append(self.name("the name of a table"))
        return self.reference(first, last, names)

    def reference(self, first: Token, last: Token, names: list[str]) -> TableReference:
        """Return the table of some names; `first`, `last`: the tokens of the first and the last name."""
        if last.kind == "name" and (path := self._path(first, names)) is not None:
            return TableReference("path", (path,), first.start)
        if len(names) > _MOST_NAMES:
            reason = f"a table has {_MOST_NAMES} names at most, not {len(names)}"
            refuse_statement(self.text, reason, first.start, "Write catalog.schema.table, or delta.`path`.")
        return TableReference("name", tuple(names), first.start)

    def _path(self, first: Token, names: list[str]) -> str | None:
        """Return the path that names in backticks mean: `/data/t`, or delta.`t`; None for other names."""
        prefix = names[0].lower() if len(names) > 1 else ""
        looks_so = "/" in names[-1] or "\\" in names[-1]
        if prefix in _FORMATS and looks_so:
            refuse_statement(self.text, f"{prefix} is no Delta table", first.start, "Write delta.`path`.")
        is_path = prefix in NAMES if len(names) > 1 else looks_so
        return names[-1] if is_path and len(names) <= len(("delta", "path")) else None

    def expression(self, noun: str) -> WrittenExpression:
        """Take an expression of the predicate language."""
        start, self.expression_at = self.token.start, self.position
        if self.token.kind == "end" or (self.token.kind == "sign" and self.token.text in ",);"):
            self.expect(noun)
        self.condition()
        return WrittenExpression(self.text[start : self.last_end], self.text, start)

    def terms(self) -> tuple[WrittenExpression, ...]:
        """Take the terms of an index in parentheses, and the options of each."""
        terms: list[WrittenExpression] = []
        sign = self.needs("(")
        while sign != ")":
            terms.append(self._term())
            sign = self.needs(",", ")")
        return tuple(terms)

    def _term(self) -> WrittenExpression:
        ahead = self.tokens[self.position + 1].text if self.is_sign(EVERY) else ""
        if ahead in (",", ")"):
            return WrittenExpression(EVERY, self.text, self.advance().start)
        term = self.expression("a column or an expression")
        if self.word in _ORDERS:
            reason = f"a term has no order, so no {self.shown()}"
            refuse_statement(self.text, reason, self.token.start, "Leave it out: ranges are found both ways.")
        if not self.takes_word("OPTIONS"):
            return term
        term, rest = applied(self.text, term, self.pairs())
        for key, given in rest.items():
            hint = "Options of the index stand behind its terms: (...) OPTIONS (...)."
            refuse_statement(self.text, f"{key} is no option of a term", given.key_place, hint)
        return term

    def pairs(self, keep_case: bool = False) -> Properties:
        """Take keys and values in parentheses; keys are returned in lower case unless `keep_case`."""
        pairs: dict[str, Property] = {}
        sign = self.needs("(")
        while sign != ")":
            place = self.token.start
            key = self._key() if keep_case else self._key().lower()
            if key in pairs:
                refuse_statement(self.text, f"{key} stands twice", place, "Leave one out.")
            self.takes_sign("=")
            pairs[key] = Property(self._value(key), place, self.tokens[self.position - 1].start)
            sign = self.needs(",", ")")
        return pairs

    def _key(self) -> str:
        if self.token.kind == "string":
            return self.advance().text
        start = self.token.start
        if self.token.kind not in ("word", "name"):
            self.expect("the key of an option")
        self._field()
        while self.takes_sign("."):
            self._field()
        return self.text[start : self.last_end].replace("`", "")

    def _value(self, key: str) -> str:
        sign = "-" if self.takes_sign("-") else ""
        token = self.token
        if token.kind == "string" and not sign:
            return self.advance().text
        if token.kind == "number":
            return sign + self.advance().text
        if self.word in ("TRUE", "FALSE") and not sign:
            return self.advance().text.lower()
        if token.kind in ("word", "name"):
            hint = f"Write it in quotes: {key} = '{self.shown()}'."
            refuse_statement(self.text, f"the value of {key} has no quotes", token.start, hint)
        self.expect(f"the value of {key}")

    def partition(self) -> WrittenExpression:
        """Take a partition, (column = value, ...), as a condition."""
        start, items = self.token.start, []
        sign = self.needs("(")
        while sign != ")":
            items.append(self._partition_value())
            sign = self.needs(",", ")")
        return WrittenExpression(" AND ".join(items), self.text, start)

    def _partition_value(self) -> str:
        item = self.expression("column = value")
        tree = item.tree
        first, second = tree.first, tree.second
        if tree.kind != "compare" or tree.text != "=" or first is None or first.kind != "column":
            item.refuse(f"a partition is written column = value, not {item}", self.usage)
        if second is None or second.kind not in _CONSTANTS:
            item.refuse(f"the value of a partition is a constant, not {item}", self.usage)
        return f"{item.text[: first.end]} IS NULL" if second.kind == "null" else item.text


class Property(NamedTuple):
    """The value of a key in OPTIONS (...) or IDXPROPERTIES (...), and the places of both in the statement."""

    value: str
    key_place: int
    place: int


Properties = Mapping[str, Property]

_APPLIED = {
    "identity": "{column}",
    "concat": "concat({column})",
    "date_trunc": "date_trunc({format}, {column})",
    **{
        name: f"{name}({{column}}, {{{option}}})"
        for name, option in (
            *(("date_format", "format"), ("trunc", "format"), ("date_add", "days"), ("date_sub", "days")),
            ("split", "pattern"),
        )
    },
    **{
        name: f"{name}({{column}}[, {{format}}])"
        for name in ("from_unixtime", "unix_timestamp", "to_date", "to_timestamp")
    },
    "substring": "substring({column}, {pos}, {len})",
    "regexp_extract": "regexp_extract({column}, {pattern}, {idx})",
    "regexp_replace": "regexp_replace({column}, {pattern}, {replacement})",
    "trim": "trim([BOTH {trimstring} FROM ]{column})",
    "ltrim": "trim([LEADING {trimstring} FROM ]{column})",
    "rtrim": "trim([TRAILING {trimstring} FROM ]{column})",
}
"""By function, the template of its call; a part in brackets is left out if its option is not given."""
_WITHOUT = {"ltrim": "ltrim({column})", "rtrim": "rtrim({column})"}
"""Templates of calls without options, where it is not enough to leave out the part in brackets."""
_NUMBERS = ("days", "pos", "len", "idx")
"""Options that are whole numbers; all others are texts."""
_OPTION = re.compile(r"\{(\w+)\}")
_OPTIONAL = re.compile(r"\[(.*?)\]")
FUNCTION = ("expr", "func")
"""The keys that name the function; `func` is that of Hudi's first releases."""
_PLACED = "Write the expression itself: USING bitmap (date_trunc('hour', ts))."


def applied(
    text: str, column: WrittenExpression, options: Properties
) -> tuple[WrittenExpression, Properties]:
    """Return the call that the options of a statement name, and the options that are left."""
    named = next((options[key] for key in FUNCTION if key in options), None)
    if named is None:
        return column, options
    if not column.column:
        refuse_statement(text, f"expr is applied to a column, not to {column}", named.key_place, _PLACED)
    name = named.value.lower()
    call = _call(text, name, named, options)
    names = {option for option in _OPTION.findall(call) if option != "column"}
    values = {option: _constant(text, name, option, options[option]) for option in names}
    written = call.replace("[", "").replace("]", "").format(column=column.text, **values)
    rest = {key: value for key, value in options.items() if key not in names and key not in FUNCTION}
    takes = sorted(set(_OPTION.findall(_template(name))) - {"column"})
    of_functions = {option for template in _APPLIED.values() for option in _OPTION.findall(template)}
    for key in rest:
        if key in of_functions:
            said = f"It takes {either(takes)}." if takes else "It takes none."
            refuse_statement(text, f"{name} takes no option {key}", rest[key].key_place, said)
    return WrittenExpression(written, text, column.place), rest


def _template(name: str) -> str:
    return _APPLIED.get(name, f"{name}({{column}})")


def _call(text: str, name: str, named: Property, options: Properties) -> str:
    """Return the call of a function, with the options that are given; others may be left out."""
    if not re.fullmatch(r"[a-z_]\w*", name):
        refuse_statement(text, f"expr names a function, not {named.value!r}", named.place, _PLACED)
    if name not in _APPLIED:
        _check_known(text, name, named)
    call = _OPTIONAL.sub(
        lambda match: match.group() if set(_OPTION.findall(match.group())) <= set(options) else "",
        _template(name),
    )
    if call == "trim({column})":
        call = _WITHOUT.get(name, call)
    for option in _OPTION.findall(call):
        if option != "column" and option not in options:
            reason = f"{name} takes the option {option}, which is not given"
            refuse_statement(text, reason, named.place, f"Write OPTIONS (expr = '{name}', {option} = ...).")
    return call


def _check_known(text: str, name: str, named: Property) -> None:
    # Imported here, since only functions that Hudi does not name need it.
    from tailbit.index.expression.calls import check_known

    try:
        check_known(name)
    except NotRead as wrong:
        meant = did_you_mean(name, _APPLIED)
        refuse_statement(text, str(wrong), named.place, f"{wrong.hint}{meant}")


def _constant(text: str, name: str, option: str, given: Property) -> str:
    if option not in _NUMBERS:
        return string_text(given.value)
    if not re.fullmatch(r"-?[0-9]{1,10}", given.value):
        reason = f"{option} of {name} is a whole number, not {given.value!r}"
        refuse_statement(text, reason, given.place, f"Write {option} = 1.")
    return given.value
